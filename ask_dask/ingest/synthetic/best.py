"""What is known of made-up rows: how many, the share of clicks, and the AUROC that no model exceeds."""

from dataclasses import dataclass

import numpy as np

from ask_dask.ingest.synthetic.rows import Rows

STEPS = 1 << 14
"""Probabilities are told apart in so many steps: enough to rank by, and small at any number of rows."""


@dataclass(frozen=True)
class Made:
    """What was made: rows, the share of clicks, and the AUROC of the true click probability (no model does better).

    The AUROC is None where all labels are the same.
    """

    n_rows: int
    click_rate: float
    best_auroc: float | None


@dataclass(frozen=True)
class Tally:
    """Rows of each label at each step of their probability, int64 (2, STEPS); tallies add up."""

    counts: np.ndarray

    @classmethod
    def none(cls) -> "Tally":
        """The tally of no rows."""
        return cls(np.zeros((2, STEPS), np.int64))

    @classmethod
    def of(cls, rows: Rows) -> "Tally":
        """The tally of some rows."""
        step = (rows.probability * (STEPS - 1)).astype(np.int64)
        return cls(np.bincount(step + rows.label.astype(np.int64) * STEPS, minlength=2 * STEPS).reshape(2, STEPS))

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.counts + other.counts)

    def made(self) -> Made:
        """What they say together.

        >>> counts = np.zeros((2, STEPS), np.int64)
        >>> counts[0, 10], counts[1, 20], counts[1, 5] = 2, 3, 1
        >>> Tally(counts).made()  # doctest: +ELLIPSIS
        Made(n_rows=6, click_rate=0.666..., best_auroc=0.75)
        """
        clicks = self.counts.sum(axis=1)
        below = np.cumsum(self.counts[0]) - self.counts[0] / 2
        pairs = int(clicks[0]) * int(clicks[1])
        auroc = float(below @ self.counts[1] / pairs) if pairs else None
        return Made(int(clicks.sum()), float(clicks[1] / clicks.sum()), auroc)

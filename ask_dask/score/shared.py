"""What the scores of all tasks share: curves ready for JSON, checks of rows, means of what is defined."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ask_dask.errors import InputError
from ask_dask.score.ranks import KeyedSums, RankCounts

OF_TASK = {
    "classification": ("auroc", "log_loss", "accuracy", "f1_micro", "f1_macro"),
    "multilabel": ("auroc", "log_loss", "accuracy", "f1_micro", "f1_macro"),
    "regression": ("r2", "rmse", "mae"),
    "components": ("captured",),
}
"""The metrics of each task, the one that stands out and chooses by default first."""

LOWER_IS_BETTER = ("log_loss", "rmse", "mae")

BINS = 20
"""Bins of a calibration curve."""

CURVES = 8
"""Labels or outputs that have curves of their own, at most."""


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean without None, None when nothing is left.

    >>> mean_of_known([1.0, None, 2.0]), mean_of_known([None])
    (1.5, None)
    """
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def some(names: Sequence[Any], most: int = 5) -> str:
    """Names for a sentence, the first few of many.

    >>> some(["a", "b"]), some(range(9))
    ('a, b', '0, 1, 2, 3, 4 and 4 more')
    """
    said = ", ".join(map(str, names[:most]))
    return f"{said} and {len(names) - most:,} more" if len(names) > most else said


def refuse_rows(first_row: int, *checks: tuple[Any, str]) -> None:
    """InputError for the first row where a check (n,) bool holds; each comes with a sentence about that row."""
    for wrong, says in checks:
        if wrong.any():
            raise InputError(f"Row {first_row + int(wrong.argmax())} of what is scored has {says}")


def probability_bins(probability: np.ndarray, positive: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """(3, BINS) sums over equal-width bins of the probability (n,): probability, rows, positive rows; weighted."""
    place = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    weight = np.ones(len(place)) if weight is None else weight
    return np.stack([np.bincount(place, values * weight, BINS) for values in (probability, 1.0, positive)])


def calibration_curve(bins: np.ndarray) -> dict[str, list[float]]:
    """{"mean_probability", "fraction_positive", "count"} of the bins that have rows; the count is their weight."""
    total, count, positive = bins[:, bins[1] > 0]
    return {
        "mean_probability": (total / count).tolist(),
        "fraction_positive": (positive / count).tolist(),
        "count": _counts(count),
    }


def _counts(count: np.ndarray) -> list[float]:
    """Numbers of rows as integers; their weights, where they are not whole, as they are."""
    whole = count.astype(int)
    return (whole if (whole == count).all() else count).tolist()


def roc_curve(ranks: RankCounts, points: int = 500) -> dict[str, list[float]]:
    """{"fpr", "tpr"}, empty lists without both classes."""
    fpr, tpr = ranks.roc(points) if ranks.counts.any(axis=1).all() else (np.zeros(0), np.zeros(0))
    return {"fpr": fpr.tolist(), "tpr": tpr.tolist()}


def quantile_curve(sums: KeyedSums) -> dict[str, list[float]]:
    """{"predicted", "observed", "count"}: means over BINS groups of like size, in the order of what was predicted.

    `sums.counts` is (3, k): rows (or their weight), the sum of what was predicted and of what was observed.
    """
    count = sums.counts[0]
    # A key belongs where its middle row falls, so that many equal predictions stay together.
    place = ((np.cumsum(count) - count / 2) / max(count.sum(), 1e-300) * BINS).astype(int)
    binned = np.stack([np.bincount(place, values, BINS) for values in sums.counts])
    count, predicted, observed = binned[:, binned[0] > 0]
    return {
        "predicted": (predicted / count).tolist(),
        "observed": (observed / count).tolist(),
        "count": _counts(count),
    }

"""How many rows of each label have each score: AUROC and ROC curves that are added over blocks of rows."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Self

import numpy as np

LIMIT = 1 << 21
"""Most distinct scores that are kept (24 bytes each), shared among the classes; above it scores are binned."""

_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, eq=False)
class KeyedSums:
    """Sums over the rows that have the same score; added over blocks of rows.

    Attributes
    ----------
    keys : (k,) uint64, increasing
        Scores as sortable integers, without their `shift` lowest bits.
    counts : (c, k) int64 or float64
        c sums for each key.
    shift : int
        The smallest that leaves no more than `limit` keys. A union needs at least the shift of its parts, so the
        counts of a sum do not depend on the order or the cuts of the addition.
    limit : int
    """

    keys: np.ndarray
    counts: np.ndarray
    shift: int
    limit: int

    @classmethod
    def keyed(cls, score: np.ndarray, counts: np.ndarray, limit: int = LIMIT) -> Self:
        """Sums of a block: score (n,) float and what is added up, (c, n)."""
        bits = (np.asarray(score, np.float64) + 0.0).view(np.uint64)  # + 0.0 makes one zero of two
        keys = bits ^ ((bits.view(np.int64) >> 63).view(np.uint64) | _SIGN)  # all of a negative number's turn
        order = np.argsort(keys)
        return cls(*_ranked(keys.take(order), counts.take(order, axis=1), 0, limit))

    def __add__(self, other: Self) -> Self:
        shift = max(self.shift, other.shift)
        keys = np.concatenate([part.keys >> np.uint64(shift - part.shift) for part in (self, other)])
        order = np.argsort(keys, kind="stable")  # merges two sorted runs in linear time
        counts = np.concatenate([self.counts, other.counts], axis=1).take(order, axis=1)
        return type(self)(*_ranked(keys.take(order), counts, shift, self.limit))


class RankCounts(KeyedSums):
    """How many negative and positive rows have each score: all that an AUROC and a ROC curve need.

    `counts` is (2, k): negative and positive rows, or their weights.

    Examples
    --------
    >>> ranks = RankCounts.of(np.array([0.1, 0.5, 0.5, 0.9]), np.array([False, True, False, True]))
    >>> ranks.auroc()
    (0.875, 0.0)
    """

    @classmethod
    def of(
        cls, score: np.ndarray, positive: np.ndarray, limit: int = LIMIT, weight: np.ndarray | None = None
    ) -> "RankCounts":
        """Counts of a block: score (n,) float, positive (n,) bool, weight (n,) float or one for every row."""
        counts = np.stack([~positive, positive]) * (np.int64(1) if weight is None else weight)
        return cls.keyed(score, counts, limit)

    def auroc(self) -> tuple[float | None, float | None]:
        """Area under the ROC curve, ties counted half, and a bound of its error; (None, None) without both classes."""
        negative, positive = self.counts
        pairs = float(negative.sum()) * float(positive.sum())
        if not pairs:
            return None, None
        twice = float((positive * (2 * np.cumsum(negative) - negative)).sum())  # exact for integers, whatever the order
        unsure = float(negative.astype(float) @ positive) / 2 if self.shift else 0.0
        return twice / 2 / pairs, unsure / pairs

    def roc(self, points: int = 500) -> tuple[np.ndarray, np.ndarray]:
        """False and true positive rates, from (0, 0) to (1, 1), at no more than `points` thresholds."""
        above = np.cumsum(np.pad(self.counts[:, ::-1], ((0, 0), (1, 0))), axis=1)
        fpr, tpr = above / above[:, -1:]
        # Even steps along the curve, not along the thresholds: steep and flat parts are drawn equally well.
        kept = np.unique(np.searchsorted(fpr + tpr, np.linspace(0, 2, points)))
        return fpr[kept], tpr[kept]


def _ranked(keys: np.ndarray, counts: np.ndarray, shift: int, limit: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Equal keys, in increasing order, added up, and as many low bits dropped as the limit asks."""
    drop, starts = 0, _starts(keys)
    if len(starts) > limit:
        drop = bisect_left(range(63 - shift), True, key=lambda bits: len(_starts(keys >> np.uint64(bits))) <= limit)
        keys = keys >> np.uint64(drop)
        starts = _starts(keys)
    if len(starts) < len(keys):
        counts = np.add.reduceat(counts, starts, axis=1)
    return keys[starts], counts, shift + drop, limit


def _starts(keys: np.ndarray) -> np.ndarray:
    """Where each run of equal keys starts."""
    first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return np.flatnonzero(first)

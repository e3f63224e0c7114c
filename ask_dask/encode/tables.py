"""Sums behind an encoding: numeric columns squashed and summed, labels counted by fold and bucket, log odds of counts.

Every sum is a sum of integers: exact, and the same in any order.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

_STEPS = 2**20
"""Logs are summed in whole steps of 2**-20: exact in any order, and far below the noise of float32 features."""


def squash(numeric: np.ndarray) -> np.ndarray:
    """sign(x) log(1 + |x|) in float64, same shape; NaN stays NaN.

    >>> squash(np.array([-1.0, 0.0, np.nan])).round(2)
    array([-0.69,  0.  ,   nan])
    """
    numeric = np.asarray(numeric, np.float64)
    return np.copysign(np.log1p(np.abs(numeric)), numeric)


@dataclass(frozen=True)
class NumericSums:
    """Exact sums over rows of p squashed numeric columns; add them in any order.

    Attributes
    ----------
    rows : int
    present, total, squares : object (p,), Python integers
        Values that are there; their sum in steps; the sum of their squares in squared steps.
    """

    rows: int
    present: np.ndarray
    total: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, numeric: np.ndarray) -> "NumericSums":
        """The sums of float (n, p), NaN where missing.

        >>> NumericSums.of(np.array([[0.0], [np.nan]])).present
        array([1], dtype=object)
        """
        sums = [_exact_sums(numeric[:, j]) for j in range(numeric.shape[1])]
        present, total, squares = np.array(sums, object).reshape(-1, 3).T
        return cls(len(numeric), present, total, squares)

    def __add__(self, other: "NumericSums") -> "NumericSums":
        return NumericSums(
            self.rows + other.rows,
            self.present + other.present,
            self.total + other.total,
            self.squares + other.squares,
        )

    def moments(self) -> np.ndarray:
        """Mean and deviation of the p columns, then of their p missing flags: float64 (2p, 2)."""
        columns = [
            (float(Fraction(s, n)) / _STEPS, float(Fraction(n * q - s * s, n * n)) ** 0.5 / _STEPS) if n else (0.0, 0.0)
            for n, s, q in zip(self.present.tolist(), self.total.tolist(), self.squares.tolist(), strict=True)
        ]
        missing = 1.0 - self.present.astype(np.float64) / self.rows
        flags = np.stack([missing, np.sqrt(missing * (1 - missing))], axis=1)
        return np.concatenate([np.array(columns).reshape(-1, 2), flags])


def _exact_sums(column: np.ndarray) -> tuple[int, int, int]:
    steps = squash(column[~np.isnan(column)])
    steps = np.rint(np.multiply(steps, _STEPS, out=steps), out=steps).astype(np.int64)
    total = int(steps.sum())
    squares = np.multiply(steps, steps, out=steps)
    # Halves below 2**27 each: an int64 holds their sum over any piece, where it might not hold the sum of squares.
    low = int((squares & (2**27 - 1)).sum())
    return len(squares), total, (int((squares >> 27).sum()) << 27) + low


@dataclass(frozen=True)
class Smoothing:
    """How counts become log odds: the weight of the prior, and the rows and positives among all that may be seen."""

    weight: float
    n_rows: int
    n_positive: int

    @property
    def prior(self) -> float:
        """Mean label, kept off 0 and 1 (where the odds are infinite) as if by two more rows, one of each label."""
        mean = self.n_positive / self.n_rows if self.n_rows else 0.5
        return min(max(mean, 1 / (self.n_rows + 2)), (self.n_rows + 1) / (self.n_rows + 2))

    def log_odds(self, count: np.ndarray, positive: np.ndarray) -> np.ndarray:
        """log(p / (1 - p)) of buckets with these rows and positives, float64.

        >>> Smoothing(1.0, 4, 2).log_odds(np.array([0, 2]), np.array([0, 2])).round(3)
        array([0.   , 1.609])
        """
        up, down = self.prior * self.weight, (1 - self.prior) * self.weight
        count, positive = np.asarray(count, np.int64), np.asarray(positive, np.int64)
        return np.log(positive + up) - np.log(count - positive + down)


def count_labels(counts: np.ndarray, positives: np.ndarray, codes: np.ndarray, y: np.ndarray, fold: np.ndarray) -> None:
    """Add rows to the tables of one column, in place.

    Parameters
    ----------
    counts, positives : uint32 (n_folds, n_buckets)
    codes, y, fold : integers (n,)
        Bucket, label (0 or 1) and fold of each row.
    """
    key = fold.astype(np.int64) * counts.shape[1] + codes
    np.add.at(counts.reshape(-1), key, np.uint32(1))
    np.add.at(positives.reshape(-1), key[y == 1], np.uint32(1))


def encode_one_way(counts: np.ndarray, positives: np.ndarray, smoothing: float) -> tuple[np.ndarray, np.ndarray]:
    """Encode the counted rows of one column by fold and bucket, each fold from the folds that `seen_folds` names.

    The prior is the mean label of all rows. A mean by fold would tell folds apart in every column at once.

    Parameters
    ----------
    counts, positives : uint32 (n_folds, n_buckets)

    Returns
    -------
    values : float32 (n_folds, n_buckets)
        Log odds; 0 where a fold has no row in a bucket.
    moments : float64 (2, 2)
        Mean and deviation over the rows, of the log odds and of `log_others`: from the tables alone, without another
        look at the rows.
    """
    values = np.zeros(counts.shape, np.float32)
    all_counts = counts.sum(axis=0, dtype=np.int64)
    smooth = Smoothing(smoothing, int(all_counts.sum()), int(positives.sum(dtype=np.int64)))
    for fold, count in enumerate(counts):
        used, from_folds = np.flatnonzero(count), seen_folds(fold, len(counts))
        seen, up = (_sum_of(table, from_folds) for table in (counts, positives))
        values[fold, used] = smooth.log_odds(seen[used], up[used])
    used = np.flatnonzero(all_counts)
    if len(used) < 2:  # one value in all rows: folds differ by chance
        return values, np.zeros((2, 2))
    others = log_others(all_counts[used])
    return values, np.stack([_moments(values[counts > 0], counts[counts > 0]), _moments(others, all_counts[used])])


def seen_folds(fold: int, n_folds: int) -> np.ndarray:
    """Return the folds whose labels encode the rows of a fold: the (n_folds - 1) // 2 that follow it, in a circle.

    Of two folds at most one is encoded from the other. Encodings from all other folds tie each fold's encodings to
    its labels: within a bucket they are the total less the fold's own sum, so a fold with many positive labels has low
    encodings, and a model learns this from the labels that it is later scored on.

    >>> [seen_folds(fold, 5).tolist() for fold in range(5)]
    [[1, 2], [2, 3], [3, 4], [4, 0], [0, 1]]
    """
    return (fold + np.arange(1, (n_folds - 1) // 2 + 1)) % n_folds


def log_others(counts: np.ndarray) -> np.ndarray:
    """Return log(1 + the other rows in the bucket) for rows that are among those counted, 0 where none is.

    >>> log_others(np.array([0, 1, 2], np.uint32)).round(3)
    array([0.   , 0.   , 0.693])
    """
    return np.log(np.maximum(counts, 1))


def _sum_of(table: np.ndarray, folds: np.ndarray) -> np.ndarray:
    total = np.zeros(table.shape[1], np.int64)
    for fold in folds:
        total += table[fold]
    return total


def _moments(value: np.ndarray, weight: np.ndarray) -> np.ndarray:
    value, weight = value.astype(np.float64), weight.astype(np.float64) / weight.sum()
    mean = value @ weight
    deviation = np.sqrt((value - mean) ** 2 @ weight)
    rounding = 1e-6 * max(1.0, abs(mean))  # of float32 values: not variation
    return np.array([mean, deviation if deviation > rounding else 0.0])

"""Columns -> numbers: log and standardise, and one-way target encoding, fitted from exact integer sums.

A numeric column x becomes sign(x) log(1 + |x|), and a flag says where it was missing. A categorical column comes as
bucket codes and becomes the log odds of the label in its bucket, pulled towards the mean of all rows:

    p = (positive[b] + smoothing * prior) / (count[b] + smoothing),   feature = log(p / (1 - p))

The prior is the mean label of all rows. For a new row, `positive` and `count` are those of all rows. For a row that the
encoder is fitted on they are those of some other folds, chosen one way: where fold a is encoded from fold b, b is not
encoded from a (`seen_folds`). So a row's label is not counted for its own features, nor for those of the rows whose
labels are, and held-out rows of these features score a model rightly. The log of the number of other rows in a bucket
may be a feature too; it holds no labels, so it counts all rows. All features then have mean 0 and variance 1 over the
fitted rows. Every sum behind them is a sum of integers, so the result does not depend on how the rows were cut into
pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from ask_dask import store
from ask_dask.encode.tables import NumericSums, Smoothing, count_labels, encode_one_way, log_others, squash
from ask_dask.errors import InputError


@dataclass(frozen=True, eq=False)
class Encoder:
    """Raw columns -> standardised float32 features, in the order of `feature_names`.

    Attributes
    ----------
    numeric, categorical : tuple of str
        Names of the p numeric and c categorical columns.
    smoothing : float
        Rows that the prior counts for.
    random_state : int
        Seed of the folds and of the hash that made the bucket codes.
    with_counts : bool
        Whether log(1 + other rows with the value) of each categorical column is a feature too.
    fold_rows, fold_positives : int64 (n_folds,)
        Rows and positive labels of each fold.
    moments : float64 (d, 2)
        Mean and deviation of each feature before standardising; deviation 0 marks a constant, whose feature is 0.
    counts, sums : uint32 (c, n_buckets)
        Rows and positive labels in each bucket.
    fold_values : float32 (c, n_folds, n_buckets), optional
        Log odds of the fitted rows, which only `transform_training` needs; not saved.

    Examples
    --------
    >>> numeric, buckets = np.array([[1.0], [np.nan], [3.0], [7.0]]), np.array([[0], [1], [1], [0]])
    >>> encoder = fit(numeric, buckets, np.array([0, 1, 1, 0]), np.array([0, 1, 2, 0]), n_buckets=4, smoothing=1.0)
    >>> encoder.feature_names
    ['x0', 'x0_missing', 'c0_logit']
    >>> encoder.transform(numeric, buckets).shape
    (4, 3)
    """

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    smoothing: float
    random_state: int
    with_counts: bool
    fold_rows: np.ndarray
    fold_positives: np.ndarray
    moments: np.ndarray
    counts: np.ndarray
    sums: np.ndarray
    fold_values: Any = None  # an array, or a zarr array of which one column is read at a time

    @property
    def n_buckets(self) -> int:
        """Buckets that each categorical column is hashed into."""
        return int(self.counts.shape[1])

    @property
    def n_folds(self) -> int:
        """Folds of the target encoding."""
        return len(self.fold_rows)

    @property
    def feature_names(self) -> list[str]:
        """Names of the d features."""
        missing, logit = [f"{name}_missing" for name in self.numeric], [f"{name}_logit" for name in self.categorical]
        return [*self.numeric, *missing, *logit, *(f"{name}_count" for name in self.categorical if self.with_counts)]

    @property
    def fingerprint(self) -> str:
        """Hash of everything that `transform` depends on."""
        arrays = (self.fold_rows, self.fold_positives, self.moments, self.counts, self.sums)
        return store.fingerprint(self._settings(), *arrays)

    def transform(self, numeric: np.ndarray, buckets: np.ndarray) -> np.ndarray:
        """Features of rows that the encoder was not fitted on, float32 (n, d).

        Parameters
        ----------
        numeric : float (n, p), NaN where missing
        buckets : integer (n, c), each below `n_buckets`

        Raises
        ------
        InputError
            Shapes or codes that do not belong to this encoder.
        """
        seen = Smoothing(self.smoothing, int(self.fold_rows.sum()), int(self.fold_positives.sum()))

        def look_up(column: int, codes: np.ndarray) -> list[np.ndarray]:
            count, positive = self.counts[column][codes], self.sums[column][codes]
            log_odds = seen.log_odds(count, positive)
            return [log_odds, np.log1p(count)] if self.with_counts else [log_odds]

        return self._features(numeric, buckets, look_up)

    def transform_training(self, numeric: np.ndarray, buckets: np.ndarray, folds: np.ndarray) -> np.ndarray:
        """Return the features of rows that the encoder was fitted on, float32 (n, d).

        Parameters
        ----------
        numeric, buckets
            As for `transform`.
        folds : integer (n,)
            The fold of each row, as given to `fit`; its encoding uses the folds of `seen_folds` only.

        Raises
        ------
        InputError
            As for `transform`; and when the encoder was loaded, since tables by fold are not kept.
        """
        if self.fold_values is None:
            raise InputError("This encoder has no tables by fold (they are not saved): fit it on the rows again.")
        first = np.asarray(folds, np.intp) * self.n_buckets  # of each row's fold in a table laid out flat

        def look_up(column: int, codes: np.ndarray) -> list[np.ndarray]:
            log_odds = np.asarray(self.fold_values[column]).reshape(-1).take(first + codes)
            return [log_odds, log_others(self.counts[column][codes])] if self.with_counts else [log_odds]

        return self._features(numeric, buckets, look_up)

    def _features(self, numeric: np.ndarray, buckets: np.ndarray, look_up: Any) -> np.ndarray:
        numeric, buckets = np.asarray(numeric), np.asarray(buckets)
        self._check(numeric, buckets)
        p, c = len(self.numeric), len(self.categorical)
        out = np.empty((len(numeric), len(self.moments)), np.float32)
        for j in range(p):
            value = squash(numeric[:, j])
            out[:, j] = np.nan_to_num(self._standardise(value, j))
            out[:, p + j] = self._standardise(np.isnan(value), p + j)
        for j in range(c):
            for kind, value in enumerate(look_up(j, buckets[:, j].astype(np.intp))):
                feature = 2 * p + kind * c + j
                out[:, feature] = self._standardise(value, feature)
        return out

    def _standardise(self, value: np.ndarray, feature: int) -> np.ndarray:
        mean, deviation = self.moments[feature]
        return (value - mean) * (1 / deviation if deviation else 0.0)

    def _check(self, numeric: np.ndarray, buckets: np.ndarray) -> None:
        p, c, n = len(self.numeric), len(self.categorical), len(numeric)
        if numeric.shape != (n, p) or buckets.shape != (n, c):
            raise InputError(
                f"The encoder takes {p} numeric and {c} categorical columns over the same rows, and was given arrays "
                f"of shapes {numeric.shape} and {buckets.shape}: give the columns that it was fitted on."
            )
        if n and c and not 0 <= int(buckets.min()) <= int(buckets.max()) < self.n_buckets:
            raise InputError(f"A bucket code is outside 0..{self.n_buckets - 1}: hash with n_buckets={self.n_buckets}.")

    def _settings(self) -> dict[str, Any]:
        return {
            "numeric": list(self.numeric),
            "categorical": list(self.categorical),
            "smoothing": self.smoothing,
            "random_state": self.random_state,
            "with_counts": self.with_counts,
        }

    def save(self, group: zarr.Group) -> None:
        """Write the encoder into an empty zarr group; tables by fold are left out."""
        store.describe(group, encoder=self._settings())
        for name in ("fold_rows", "fold_positives", "moments", "counts", "sums"):
            store.write_array(group, name, getattr(self, name))

    @classmethod
    def load(cls, group: zarr.Group) -> "Encoder":
        """The encoder that `save` wrote into the group.

        Raises
        ------
        InputError
            The group holds no encoder.
        """
        about = store.about(group).get("encoder")
        if about is None:
            raise InputError(f"There is no encoder in {store.place(group)}: give the group that one was saved to.")
        settings: dict[str, Any] = about | {name: tuple(about[name]) for name in ("numeric", "categorical")}
        for name in ("fold_rows", "fold_positives", "moments", "counts", "sums"):
            settings[name] = store.read(store.array(group, name))
        return cls(**settings)


def assemble(
    sums: NumericSums,
    tables: Sequence[dict[str, np.ndarray]],
    *,
    fold_rows: np.ndarray,
    fold_positives: np.ndarray,
    **settings: Any,
) -> Encoder:
    """An encoder from the sums of the numeric columns and, per categorical column, {"counts", "sums", "moments"}.

    `moments` is the second value of `encode_one_way`; `settings` are the encoder's other attributes.
    """
    parts = [sums.moments(), *(table["moments"][:1] for table in tables)]
    if settings["with_counts"]:
        parts += [table["moments"][1:] for table in tables]
    return Encoder(
        moments=np.concatenate(parts),
        counts=np.stack([table["counts"] for table in tables]),
        sums=np.stack([table["sums"] for table in tables]),
        fold_rows=fold_rows,
        fold_positives=fold_positives,
        **settings,
    )


def fit(
    numeric: np.ndarray,
    buckets: np.ndarray,
    y: np.ndarray,
    folds: np.ndarray,
    *,
    n_buckets: int,
    n_folds: int | None = None,
    smoothing: float = 20.0,
    random_state: int = 0,
    with_counts: bool = False,
    names: tuple[Sequence[str], Sequence[str]] | None = None,
) -> Encoder:
    """An encoder fitted on rows in memory, with its tables by fold.

    Parameters
    ----------
    numeric, buckets
        As for `Encoder.transform`.
    y, folds : integers (n,)
        Labels, 0 or 1, and the fold of each row, 0 to n_folds - 1.
    n_folds : int, optional
        At least 3; by default one more than the largest fold.
    names : pair of sequences of str, optional
        Numeric and categorical column names; x0, x1, ... and c0, c1, ... otherwise.

    Raises
    ------
    InputError
        Fewer than 3 folds.
    """
    n_folds = int(n_folds or folds.max() + 1)
    if n_folds < 3:
        raise InputError(f"n_folds is {n_folds}: give 3 or more, so that each fold has another to be encoded from.")
    shape = (buckets.shape[1], n_folds, n_buckets)
    counts, sums = np.zeros(shape, np.uint32), np.zeros(shape, np.uint32)
    for column in range(buckets.shape[1]):
        count_labels(counts[column], sums[column], buckets[:, column], y, folds)
    x, c = names or ([f"x{j}" for j in range(numeric.shape[1])], [f"c{j}" for j in range(buckets.shape[1])])
    values, moments = zip(*(encode_one_way(a, b, smoothing) for a, b in zip(counts, sums, strict=True)), strict=True)
    tables = [
        {"counts": count.sum(axis=0, dtype=np.uint32), "sums": positive.sum(axis=0, dtype=np.uint32), "moments": moment}
        for count, positive, moment in zip(counts, sums, moments, strict=True)
    ]
    return assemble(
        NumericSums.of(numeric),
        tables,
        fold_rows=np.bincount(folds, minlength=n_folds),
        fold_positives=np.bincount(folds[y == 1], minlength=n_folds),
        numeric=tuple(x),
        categorical=tuple(c),
        smoothing=smoothing,
        random_state=random_state,
        with_counts=with_counts,
        fold_values=np.stack(values),
    )

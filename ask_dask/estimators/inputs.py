"""What estimators accept (numpy, scipy.sparse, dask, zarr, data frames) brought to one shape, and bad input refused."""

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
import zarr
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import _check_n_features, column_or_1d, validate_data

from ask_dask import landmarks
from ask_dask.errors import InputError

FLOATS = (np.float64, np.float32)


def is_lazy(X: Any) -> bool:
    """Whether X stays out of memory: a dask array or a zarr array."""
    return isinstance(X, da.Array | zarr.Array)


def check_rows(estimator: Any, X: Any, reset: bool = False) -> Any:
    """X as float32 or float64 rows of the right width; sets `n_features_in_` when `reset`.

    Returns
    -------
    ndarray or CSR (finite), or the dask or zarr array itself (checked block by block as it is read)
    """
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array(lengths=True)
    if not is_lazy(X):
        return validate_data(estimator, X, reset=reset, dtype=FLOATS, accept_sparse="csr")
    if X.ndim != 2:
        raise InputError(f"X has {X.ndim} dimensions and must have 2: rows and features.")
    if isinstance(X, da.Array) and np.isnan(X.shape[0]):
        X = X.compute_chunk_sizes()
    if 0 in X.shape:
        raise InputError(f"X has shape {X.shape}: at least one row and one feature are needed.")
    _check_n_features(estimator, X, reset=reset)
    if X.dtype in FLOATS:
        return X
    if X.dtype.kind not in "iub":
        raise InputError(f"X has dtype {X.dtype} and must hold numbers: convert it to float32 or float64.")
    return (X if isinstance(X, da.Array) else da.from_array(X)).astype(np.float64)


def check_labels(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The classes, sorted, and each row's class number (N,) int.

    Raises
    ------
    InputError
        Wrong length, NaN, or fewer than two classes.
    """
    if y is None:
        raise InputError("requires y to be passed, but the target y is None: give one label a row.")
    values = y.compute() if hasattr(y, "compute") else y[:] if isinstance(y, zarr.Array) else y
    values = column_or_1d(np.asarray(values), warn=True)
    if len(values) != n_rows:
        raise InputError(f"y has {len(values)} labels and X has {n_rows} rows: they must be of one length.")
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(f"Input y contains NaN or infinity, first in row {bad}: give each row a label.")
        if (values != np.round(values)).any():
            raise InputError(f"Unknown label type: y holds continuous values such as {values[0]}, not classes.")
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y holds only one class ({classes[0]}): a classifier needs at least two.")
    return classes, codes.astype(np.int32)


def check_folds(cv: Any, codes: np.ndarray, seed: int) -> tuple[np.ndarray, int]:
    """Fold number of each row (N,) and the number of folds; one fold of everything when cv is None.

    Parameters
    ----------
    cv : None, int, or scikit-learn splitter
        An int is a shuffled StratifiedKFold. The test sets of a splitter must hold each row once.
    """
    if cv is None:
        return np.zeros(len(codes), np.int16), 1
    if isinstance(cv, int | np.integer):
        smallest = int(np.bincount(codes).min())
        if cv < 2:
            raise InputError(f"cv={cv} folds: use 2 or more, or None for no cross-validation.")
        if cv > smallest:
            raise InputError(f"cv={cv} folds are more than the {smallest} rows of the smallest class: use fewer folds.")
        cv = StratifiedKFold(int(cv), shuffle=True, random_state=seed)
    folds = np.full(len(codes), -1, np.int16)
    n_folds = 0
    for _, test in cv.split(np.empty((len(codes), 0)), codes):
        if (folds[test] >= 0).any():
            raise InputError("cv puts a row into two test sets: use a splitter such as KFold that uses each row once.")
        folds[test] = n_folds
        n_folds += 1
    if (folds < 0).any():
        raise InputError("cv leaves rows out of every test set: use a splitter such as KFold that uses each row once.")
    return folds, n_folds


def check_gammas(gamma: float | Sequence[float]) -> tuple[float, ...]:
    """The regularisation weights, each finite and above zero."""
    gammas = tuple(float(g) for g in np.atleast_1d(gamma))
    if not gammas:
        raise InputError("gamma is an empty list: give at least one value above 0.")
    for g in gammas:
        if not (np.isfinite(g) and g > 0):
            raise InputError(f"gamma={g:g} must be a finite number above 0.")
    return gammas


def check_counts(n_landmarks: Any, n_rows: int) -> tuple[int, ...]:
    """The landmark counts in increasing order: "auto" is 1000 or every row, None is every row."""
    if isinstance(n_landmarks, str) and n_landmarks == "auto":
        return (min(1000, n_rows),)
    counts = (n_rows,) if n_landmarks is None else tuple(sorted({int(n) for n in np.atleast_1d(n_landmarks)}))
    if not counts or counts[0] < 1:
        raise InputError(f"n_landmarks={n_landmarks} must be one or more numbers above 0.")
    return counts


def choose_landmarks(
    how: Any, n_landmarks: Any, codes: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Row landmarks I, column landmarks J (the same object where I = J) and the nested counts.

    Parameters
    ----------
    how : {"uniform", "stratified"}, (n,) int array or pair of them
        The choice, or the row numbers themselves.
    """
    n_rows = len(codes)
    if isinstance(how, str):
        counts = check_counts(n_landmarks, n_rows)
        if how not in ("uniform", "stratified"):
            raise InputError(f"landmarks={how!r} must be 'uniform', 'stratified' or row numbers.")
        uniform = how == "uniform"
        rows = landmarks.uniform(n_rows, counts[-1], seed) if uniform else landmarks.stratified(codes, counts[-1], seed)
        return rows, rows, counts
    given = [np.asarray(side, np.int64) for side in (how if isinstance(how, tuple) else (how,))]
    for side in given:
        if side.ndim != 1 or not len(side) or side.min() < 0 or side.max() >= n_rows:
            raise InputError(f"landmarks must be row numbers from 0 to {n_rows - 1}.")
    most = max(len(side) for side in given)
    counted = not (isinstance(n_landmarks, str) or n_landmarks is None)
    counts = check_counts(n_landmarks, n_rows) if counted else (most,)
    if counts[-1] > most:
        raise InputError(f"n_landmarks={counts[-1]} is more than the {most} landmarks given: use fewer.")
    rows, columns = given[0][: counts[-1]], given[-1][: counts[-1]]
    return rows, rows if len(given) == 1 else columns, counts

"""What estimators accept brought to one shape, and bad input refused.

That is numpy, scipy.sparse, dask, zarr, sparse rows in a store and data frames.
"""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
import zarr
from sklearn.utils import check_random_state
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import _check_feature_names, _check_n_features, column_or_1d, validate_data

from ask_dask import blocks, compute, landmarks, score, store
from ask_dask.errors import InputError
from ask_dask.fit.merge import METHODS, STACKED
from ask_dask.fit.selection import Weights
from ask_dask.kernels import Kernel
from ask_dask.kernels.base import SIZES
from ask_dask.kernels.points import FLOATS, as_floats, as_usual
from ask_dask.kernels.symmetrised import HOWS

AT_ONCE = 1 << 20
"""Labels that are looked up together."""

LARGEST_LABEL = 1 << 16
"""Bytes of a label: text of 16,384 characters."""


def check_rows(estimator: Any, X: Any, reset: bool = False) -> Any:
    """Return X as float32 or float64 rows of the right width and names.

    When `reset`, `n_features_in_` is set, and `feature_names_in_` where X is a data frame with names.

    Returns
    -------
    ndarray or CSR (finite), or what stays out of memory itself (checked block by block as it is read)

    Raises
    ------
    InputError, ValueError
        X is not two-dimensional, is empty, has other features or another order of them than in the fit, or holds what
        is not a number that float64 can hold.
    """
    names = X
    if hasattr(X, "to_dask_array"):
        names, X = X._meta if hasattr(X, "columns") else None, _rows_of_frame(X)
    if isinstance(X, da.Array) and np.isnan(X.shape[0]):
        X = X.compute_chunk_sizes()
    if getattr(getattr(estimator, "kernel", None), "shape", None):
        X = names = _numbers_of_points(X)
    if not blocks.is_lazy(X):
        return validate_data(estimator, as_usual(X), reset=reset, dtype=FLOATS, accept_sparse="csr")
    if X.ndim != 2:
        raise InputError(f"X has {X.ndim} dimensions and must have 2: rows and features.")
    if 0 in X.shape:
        raise InputError(f"X has shape {X.shape}: at least one row and one feature are needed.")
    _check_feature_names(estimator, names, reset=reset)
    _check_n_features(estimator, X, reset=reset)
    usual = not isinstance(X, da.Array) or sp.issparse(X._meta) or type(X._meta) is np.ndarray
    if X.dtype in FLOATS and X.dtype.isnative and usual:
        return X
    if X.dtype.kind not in "iubfO":
        raise InputError(f"X has dtype {X.dtype} and must hold numbers: convert it to float32 or float64.")
    X = X if isinstance(X, da.Array) else da.from_array(store.Readable(X))
    dtype = X.dtype if X.dtype in FLOATS and X.dtype.isnative else np.dtype(np.float64)
    X = X.rechunk({1: -1})  # so that a block's columns are those of X
    return X.map_blocks(_floats_at, dtype=dtype, meta=np.empty((0, 0), dtype))


def _floats_at(block: Any, block_info: Any = None) -> Any:
    return as_floats(block, block_info[0]["array-location"][0][0] if block_info else 0)


def _numbers_of_points(X: Any) -> Any:
    """Return numbers of points as a column, (n, 1)."""
    X = np.reshape(X, (-1, 1)) if np.ndim(X) == 1 else X
    if getattr(getattr(X, "dtype", None), "kind", "") == "b":
        raise InputError("X is a mask of True and False, where the kernel takes numbers of points: use np.flatnonzero.")
    return X


def _rows_of_frame(X: Any) -> Any:
    """Return a dask data frame's or series' rows as a dask array: each partition is read as one in memory is."""
    if not hasattr(X, "columns"):
        return X.to_dask_array(lengths=True)
    sizes = X.map_partitions(len).compute()
    starts, text = np.cumsum([0, *sizes]), any(getattr(kind, "kind", "O") == "O" for kind in X.dtypes)
    dtype = np.dtype(np.float64) if text else as_floats(X._meta_nonempty).dtype
    read = compute.task(as_floats)
    parts = [
        da.from_delayed(read(part, int(start)), (int(size), len(X.columns)), dtype)
        for part, start, size in zip(X.to_delayed(), starts, sizes, strict=False)
    ]
    return da.concatenate(parts)


def in_memory(y: Any, name: str = "y") -> Any:
    """Return labels or weights as an ndarray or a sparse matrix.

    Raises
    ------
    InputError
        One is missing (None, NA, NaT, NaN beside text, masked); names the row.
    """
    y = y.compute() if hasattr(y, "compute") else store.read(y) if isinstance(y, zarr.Array) else y
    if y is None or sp.issparse(y):
        return y
    missing = np.ma.getmaskarray(y) if np.ma.isMaskedArray(y) else None
    y = np.asarray(y)
    if y.dtype.kind in "OMm":
        import pandas as pd

        missing = pd.isna(y) if missing is None else missing | pd.isna(y)
    if missing is not None and missing.any():
        row = int(np.argwhere(missing)[0][0])
        raise InputError(f"Input {name} contains NaN or another mark of a missing value, first in row {row}: give each "
                         "row a value, or leave the row out.")  # fmt: skip
    return y


def is_indicator(y: Any) -> bool:
    """Whether there are several labels a row: two dimensions with more than one column, or sparse."""
    return y is not None and (sp.issparse(y) or (y.ndim == 2 and y.shape[1] > 1))


def check_labels(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The classes, sorted, and each row's class number (N,), int8 where that will do, else int32.

    Raises
    ------
    InputError
        Wrong length, NaN, or fewer than two classes.
    """
    _require_y(y, n_rows, "labels")
    values = column_or_1d(y, warn=True)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(f"Input y contains NaN or infinity, first in row {bad}: give each row a label.")
        if (values != np.round(values)).any():
            raise InputError(f"Unknown label type: y holds continuous values such as {values[0]}, not classes.")
    try:
        classes = np.unique(values)
        _require_kept(classes)
    except TypeError as error:
        raise InputError(f"y holds labels that cannot be compared ({error}): give all of one type.") from error
    if len(classes) < 2:
        raise InputError(f"y holds only one class ({classes[0]}): a classifier needs at least two.")
    codes = np.empty(n_rows, np.int8 if len(classes) <= np.iinfo(np.int8).max else np.int32)
    for start in range(0, n_rows, AT_ONCE):  # eight bytes a row, of some rows only
        rows = slice(start, start + AT_ONCE)
        codes[rows] = np.searchsorted(classes, values[rows])
    return classes, codes


def _require_kept(classes: np.ndarray) -> None:
    """Raise InputError for classes that a model store cannot hold."""
    wrong = classes.dtype.kind not in "biufUO"
    found = [c for c in classes.tolist() if not isinstance(c, str | int | float)] if classes.dtype.kind == "O" else []
    if classes.dtype.itemsize > LARGEST_LABEL:
        raise InputError(f"y holds a label of {classes.dtype.itemsize // 4:,} characters: give shorter ones.")
    if wrong or found:
        kind = type(found[0]).__name__ if found else classes.dtype.name
        raise InputError(f"y holds labels of type {kind}, and classes are whole numbers or text: use y.astype(str).")


def check_indicators(y: Any, n_rows: int) -> Any:
    """Several labels a row, (N, L) of 0 and 1, an ndarray or CSR."""
    _require_y(y, n_rows, "rows of labels")
    y = sp.csr_matrix(y) if sp.issparse(y) else y
    values = y.data if sp.issparse(y) else y
    wrong = values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all()
    if wrong:
        raise InputError("Several labels a row, y of shape (N, L), must be 0 or 1: for real values use AsKLSRegressor.")
    return y


def check_values(y: Any, n_rows: int) -> np.ndarray:
    """Real values, (N,) or (N, L) float64."""
    _require_y(y, n_rows, "values")
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    if y.ndim > 2 or y.dtype.kind not in "biufO":
        raise InputError(f"y has shape {y.shape} and dtype {y.dtype}: give numbers, (N,) or (N, L).")
    try:
        values = y.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(f"y holds what is no number ({error}): give numbers.") from error
    if not np.isfinite(values).all():
        bad = int(np.argwhere(~np.isfinite(values))[0][0])
        raise InputError(f"Input y contains NaN or infinity, first in row {bad}: give each row a value.")
    return values


def check_size(values: np.ndarray, dtype: np.dtype) -> None:
    """Raise InputError for a value whose sums over rows, in the precision of the rows, or whose square is infinite."""
    most = min(float(np.finfo(dtype).max) / 1e5, 1e150)
    largest = np.abs(values).max()
    if largest > most:
        raise InputError(
            f"y holds {largest:.3g}, and with {dtype} rows at most {most:.1g} can be summed: divide y by a number."
        )


def _require_y(y: Any, n_rows: int, what: str) -> None:
    if y is None:
        raise InputError("requires y to be passed, but the target y is None: give one label a row.")
    if y.ndim == 0 or y.shape[0] != n_rows:
        raise InputError(f"y has {np.shape(y)[:1] and y.shape[0]} {what} and X has {n_rows} rows: make them equal.")


def check_weights(sample_weight: Any, class_weight: np.ndarray | None, n_rows: int) -> Weights:
    """Weights of the rows, finite, 0 or more, and not all 0; of classes they count in fitting only."""
    if class_weight is not None:
        _require_weights("class_weight", class_weight)
    if sample_weight is None:
        return Weights(class_weight)
    values = np.asarray(in_memory(sample_weight, "sample_weight"), np.float64)
    values = np.full(n_rows, values) if values.ndim == 0 else values
    if values.shape != (n_rows,):
        raise InputError(f"sample_weight has shape {values.shape} and X has {n_rows} rows: give one weight a row.")
    _require_weights("sample_weight", values)
    both = values if class_weight is None else values * class_weight
    _require_weights("sample_weight times class_weight", both)
    return Weights(both, values)


def _require_weights(name: str, values: np.ndarray) -> None:
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong) or not values.any():
        said = f"{values[wrong[0]]} in row {wrong[0]}" if len(wrong) else "zero in every row"
        raise InputError(f"{name} is {said}: each weight must be finite, 0 or more, and not all zero.")


def check_kernel(kernel: Any) -> None:
    """Raise InputError for what is not a kernel, or not one whose points are all both sources and targets."""
    if kernel is not None and not isinstance(kernel, Kernel):
        raise InputError(f"kernel={kernel!r} is not a Kernel: use one of ask_dask.kernels, such as SNE(2.0).")
    if kernel is not None and kernel.shape is not None and kernel.shape[0] != kernel.shape[1]:
        raise InputError(
            f"The kernel matrix is {kernel.shape[0]} x {kernel.shape[1]} and must be square: each training point is "
            "both a source and a target."
        )


def check_parameters(estimator: Any, task: str, gammas: tuple[float, ...]) -> None:
    """Raise InputError for parameters that are not what they must be, or do not go together."""
    given = estimator
    exact = given.n_landmarks is None
    check_kernel(given.kernel)
    for name, allowed in (
        ("merge", METHODS), ("scoring_", score.OF_TASK[task]), ("symmetrise", (None, *HOWS)),
        ("solver", ("auto", "direct", "minres")),
    ):  # fmt: skip
        if getattr(given, name) not in allowed:
            said = ", ".join(map(str, allowed))
            raise InputError(f"{name.rstrip('_')}={getattr(given, name)!r} must be one of {said}.")
    for name in ("ridge", "damping"):
        value = getattr(given, name)
        if not (is_number(value) and np.isfinite(value) and value >= 0):
            raise InputError(f"{name}={value} must be a finite number, 0 or more.")
    if given.preconditioner != "auto" and not (isinstance(given.preconditioner, int) and given.preconditioner >= 0):
        raise InputError(f"preconditioner={given.preconditioner!r} must be 'auto' or how many, 0 for none.")
    if not (is_number(given.tol) and 0 < given.tol < 1 and is_number(given.max_iter, whole=True)
            and given.max_iter >= 1):  # fmt: skip
        raise InputError(
            f"tol={given.tol} must be between 0 and 1, and max_iter={given.max_iter} a number of 1 or more."
        )
    for wrong, says in (
        (given.ridge and given.damping, "ridge and damping are two cures of one problem: set one of them."),
        (given.cv is None and given.merge in STACKED,
         f"merge='{given.merge}' needs out-of-fold scores: set cv to 2 or more, or merge to 'mean'."),
        (given.merge == "balanced" and task == "regression", "merge='balanced' is for classes: use 'stack'."),
        (given.cv is None and (len(gammas) > 1 or np.size(given.n_landmarks) > 1),
         "Choosing among several gammas or landmark counts needs cv: set it to 2 or more."),
        (given.solver == "minres" and given.ridge, "ridge goes with solver='direct', not 'minres': use damping."),
        (given.solver == "minres" and exact and given.symmetrise in ("K'K", "KK'"),
         f"symmetrise={given.symmetrise!r} needs the whole kernel matrix, not solver='minres': use 'mean'."),
        (given.compare_exact and exact, "compare_exact compares landmarks with the exact solution: set n_landmarks."),
        (given.compare_exact and given.ridge, "ridge lives on landmarks and has no exact solution: use damping."),
    ):  # fmt: skip
        if wrong:
            raise InputError(says)


def check_gammas(gamma: float | Sequence[float]) -> tuple[float, ...]:
    """The regularisation weights, each finite and above zero."""
    gammas = np.atleast_1d(gamma).tolist()
    if not gammas:
        raise InputError("gamma is an empty list: give at least one value above 0.")
    for g in gammas:
        if not (is_number(g) and np.isfinite(g) and g > 0):
            raise InputError(f"gamma={g!r} must be a finite number above 0.")
        if not SIZES[0] <= g <= SIZES[1]:
            raise InputError(f"gamma={g!r} must be from 1e-100 to 1e100.")
    return tuple(map(float, gammas))


def is_number(value: Any, whole: bool = False) -> bool:
    """Return whether a value is a real number, or a whole one; True and False are not."""
    return isinstance(value, Integral if whole else Real) and not isinstance(value, bool)


def check_counts(n_landmarks: Any, n_rows: int) -> tuple[int, ...]:
    """The landmark counts in increasing order: "auto" is 1000 or every row, None is every row."""
    if isinstance(n_landmarks, str) and n_landmarks == "auto":
        return (min(1000, n_rows),)
    counts = [n_rows] if n_landmarks is None else np.atleast_1d(n_landmarks).tolist()
    if not counts or not all(is_number(n, whole=True) and n >= 1 for n in counts):
        raise InputError(f"n_landmarks={n_landmarks} must be one or more whole numbers above 0.")
    return tuple(sorted(set(counts)))


def choose_landmarks(
    how: Any, n_landmarks: Any, X: Any, kernel: Kernel | None, codes: np.ndarray | None, seed: int
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Row landmarks I, column landmarks J (the same object where I = J) and the nested counts.

    Parameters
    ----------
    how : "stratified", a name of `landmarks.HOWS`, (n,) int array or pair of them
        The choice, or the row numbers themselves.
    codes : (N,) class numbers, if there are classes
    """
    n_rows = X.shape[0]
    if isinstance(how, str):
        counts = check_counts(n_landmarks, n_rows)
        if n_landmarks is None:
            every = np.arange(n_rows)
            return every, every, counts
        return *_chosen(how, counts[-1], X, kernel, codes, seed), counts
    given = [np.asarray(side) for side in (how if isinstance(how, tuple) else (how,))]
    for side in given:
        if side.ndim != 1 or not len(side) or side.dtype.kind not in "iu" or side.min() < 0 or side.max() >= n_rows:
            raise InputError(f"landmarks must be row numbers from 0 to {n_rows - 1}.")
    given = [side.astype(np.int64) for side in given]
    most = max(len(side) for side in given)
    counted = not (isinstance(n_landmarks, str) or n_landmarks is None)
    counts = check_counts(n_landmarks, n_rows) if counted else (most,)
    if counts[-1] > most:
        raise InputError(f"n_landmarks={counts[-1]} is more than the {most} landmarks given: use fewer.")
    rows, columns = given[0][: counts[-1]], given[-1][: counts[-1]]
    return rows, rows if np.array_equal(rows, columns) else columns, counts


def _chosen(
    how: str, count: int, X: Any, kernel: Kernel | None, codes: np.ndarray | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    if how not in ("stratified", *landmarks.HOWS):
        names = ", ".join(("stratified", *landmarks.HOWS))
        raise InputError(f"landmarks={how!r} must be row numbers or one of {names}.")
    if how == "stratified":
        if codes is None:
            raise InputError("landmarks='stratified' needs classes: use 'uniform' or row numbers.")
        rows = landmarks.stratified(codes, count, seed)
        return rows, rows
    alike = how in landmarks.BY_POINTS
    rows, columns = landmarks.choose(how, X, X, kernel, count, seed, same=alike, take=blocks.take_rows)
    return rows, rows if np.array_equal(rows, columns) else columns


def default_bandwidth(points: Any) -> float:
    """Return the bandwidth at which an average pair of points (n, d) has exp(-1)."""
    variances = mean_variance_axis(points, 0)[1] if sp.issparse(points) else points.var(0, dtype=np.float64)
    return float(np.sqrt(2 * variances.sum(dtype=np.float64))) or 1.0


def check_seed(random_state: Any) -> int:
    """The seed that is used and recorded: the number given, or one drawn from the state given."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))

"""Points in whatever type they come brought to rows of float32 or float64, or refused."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from ask_dask.errors import InputError

FLOATS = (np.float64, np.float32)
"""What kernels compute in; other numbers become the first one."""

LARGEST = 1 << 53
"""Whole numbers up to this size are float64 numbers; beyond, different ones may become the same."""


def as_floats(X: Any, first_row: int = 0) -> Any:
    """Return rows as float32 or float64, as scikit-learn does with what it is given: an ndarray, or CSR where sparse.

    Masked values become NaN. NaN and infinity are let through.

    Parameters
    ----------
    X : (n, d) ndarray, masked array, scipy.sparse or pydata sparse matrix, or data frame
    first_row : int
        Number of the first row, for messages.

    Raises
    ------
    InputError
        X holds a whole number that float64 cannot hold; names the row and column.
    ValueError
        X holds text, complex numbers or other things that are not numbers.

    Examples
    --------
    >>> as_floats(np.array([[200, 3]], np.uint8)), as_floats(np.array([[0.5]], ">f4")).dtype
    (array([[200.,   3.]]), dtype('float64'))
    """
    if type(X) is np.ndarray and X.ndim == 2 and _is_float(X.dtype):
        return X
    X = as_usual(X, first_row)
    return check_array(
        X, dtype=FLOATS, accept_sparse="csr", ensure_all_finite=False, ensure_min_samples=0, ensure_min_features=0
    )


def as_usual(X: Any, first_row: int = 0) -> Any:
    """Return X as a type that scikit-learn reads rightly: no masked array, no pydata sparse one, big-endian or longer.

    Raises
    ------
    InputError
        As `as_floats`.
    """
    if hasattr(X, "to_scipy_sparse"):
        X = X.to_scipy_sparse()
    if np.ma.isMaskedArray(X):
        X = np.ma.filled(X.astype(np.float64), np.nan) if np.ma.getmaskarray(X).any() else np.asarray(X)
    _require_exact(X, first_row)
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and not _is_float(dtype):
        X = X.astype(np.float64)
    return X


def _is_float(dtype: np.dtype) -> bool:
    return dtype in FLOATS and dtype.isnative


def _require_exact(X: Any, first_row: int) -> None:
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        columns = [(f"column {name}", X.iloc[:, i]) for i, name in enumerate(X.columns)]
    elif sp.issparse(X):
        columns = [("its stored values", X.tocoo().data)] if X.dtype.kind in "iu" else []
    else:
        values = np.asarray(X)
        columns = [(f"column {i}", values[:, i]) for i in range(values.shape[1])] if values.ndim == 2 else []
    for where, column in columns:
        row = first_beyond(column)
        if row is not None:
            place = where if sp.issparse(X) else f"row {first_row + row}, {where}"
            raise InputError(
                f"Input X holds the whole number {np.asarray(column)[row]} in {place}, which float64 cannot hold: take "
                "off an offset, or leave the column out where it is an identifier."
            )


def first_beyond(values: Any) -> int | None:
    """Return the place of the first whole number beyond LARGEST in an array or series, None without any.

    >>> first_beyond(np.array([1, 2**53 + 1])), first_beyond(np.array([1, 2]))
    (1, None)
    """
    kind = getattr(values.dtype, "kind", "O")
    if kind in "iu":
        if not len(values) or max(int(values.max()), -int(values.min())) <= LARGEST:
            return None
    elif kind != "O":
        return None
    numbers = np.asarray(values, dtype=object)
    return next((i for i, n in enumerate(numbers) if isinstance(n, int | np.integer) and abs(int(n)) > LARGEST), None)

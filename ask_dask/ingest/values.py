"""Cells of a table -> features, labels and weights; a cell that is missing or wrong is refused with its place."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ask_dask.errors import InputError
from ask_dask.ingest.cells import Cells, are_missing, to_numbers

_LABEL = "give each row a label, or remove the row"
_FEATURE = "correct it, remove the row, or leave the column out with --drop"


def features(cells: Cells, names: Sequence[str], dtype: np.dtype) -> np.ndarray:
    """The first columns as numbers (n, d).

    Raises
    ------
    InputError
        A cell is not a finite number, or too large for the dtype.
    """
    X = np.empty((len(cells.lines), len(names)), dtype)
    for j, (name, column) in enumerate(zip(names, cells.columns, strict=False)):
        values = to_numbers(column)
        _refuse(cells, name, column, np.isnan(values), f"no finite number; {_FEATURE}")
        _refuse(cells, name, column, abs(values) > np.finfo(dtype).max, "beyond float32; use --dtype float64")
        inexact = f"a whole number beyond 2^53, which would be rounded; {_FEATURE}"
        _refuse(cells, name, column, are_inexact(column, values), inexact)
        X[:, j] = values
    return X


def weights(cells: Cells, name: str, column: pa.Array) -> np.ndarray:
    """Sample weights (n,).

    Raises
    ------
    InputError
        One is not a finite number from 0 on.
    """
    values = to_numbers(column)
    _refuse(cells, name, column, ~(values >= 0), "no weight; give a finite number of 0 or more")
    return values


def labels_as(column: pa.Array, dtype: np.dtype) -> np.ndarray:
    """A column of labels in the dtype that `label_kind` found (n,)."""
    if dtype.kind == "U":
        return np.array(column.cast(pa.string()).to_pylist(), dtype)
    whole = whole_numbers(column) if dtype.kind == "i" else None
    return to_numbers(column).astype(dtype) if whole is None else whole


@dataclass(frozen=True)
class LabelKind:
    """What labels are, 0 whole numbers, 1 other numbers, 2 text, and how long the longest is as text."""

    level: int = 0
    length: int = 1

    def __or__(self, other: "LabelKind") -> "LabelKind":
        return LabelKind(max(self.level, other.level), max(self.length, other.length))

    @property
    def dtype(self) -> np.dtype:
        """The dtype that holds them."""
        return np.dtype(("int64", "float64", f"<U{self.length}")[self.level])


def are_whole(values: np.ndarray) -> np.ndarray:
    """Whether each float64 is a whole number, and as one exact."""
    return (values == np.round(values)) & (abs(values) < 2**53)


def are_inexact(column: pa.Array, values: np.ndarray) -> np.ndarray:
    """Return which cells are written as whole numbers so large that float64, which `values` are, rounds them."""
    far = np.flatnonzero(abs(values) > 2**53)
    found = np.zeros(len(values), bool)
    if not pa.types.is_floating(column.type):
        found[far] = [str(column[i].as_py()).lstrip("+-").isdigit() for i in far]
    return found


def whole_numbers(column: pa.Array) -> np.ndarray | None:
    """Return cells as int64, exactly, None where one is not such a number.

    >>> whole_numbers(pa.array(["1234567890123456789", "2"])), whole_numbers(pa.array(["1.5"]))
    (array([1234567890123456789,                   2]), None)
    """
    if pa.types.is_floating(column.type):
        return None
    try:
        column = pc.utf8_ltrim(column, characters="+") if pa.types.is_string(column.type) else column
        return column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def label_kind(cells: Cells, name: str, column: pa.Array) -> LabelKind:
    """What a column of labels holds.

    Raises
    ------
    InputError
        A label is missing.
    """
    values, text = to_numbers(column), pc.fill_null(column.cast(pa.string()), "")
    _refuse(cells, name, column, are_missing(text), f"a missing label; {_LABEL}")
    if pa.types.is_floating(column.type):
        _refuse(cells, name, column, np.isnan(values), f"no finite number; {_LABEL}")
    large = are_inexact(column, values).any()
    if large:  # exact as int64, else as text
        level = 2 if whole_numbers(column) is None else 0
    else:
        level = 2 if np.isnan(values).any() else 0 if are_whole(values).all() else 1
    return LabelKind(level, max(1, pc.max(pc.utf8_length(text)).as_py() or 0))


def _refuse(cells: Cells, name: str, column: pa.Array, wrong: np.ndarray, what: str) -> None:
    """Name the first of the wrong cells, if there is one."""
    if len(rows := np.flatnonzero(wrong)):
        given = column[rows[0]].as_py()
        shown = "empty" if given in (None, "") else repr(given)
        raise InputError(f"{cells.place(rows[0])}: column {name!r} is {shown}, {what}.")

"""Rows of a file as columns of cells that know their place, and cells -> numbers."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ask_dask.ingest.sift import is_number


@dataclass(frozen=True)
class Cells:
    """Rows of a file, n of them: columns of n cells (text in a text file), and where each row is in the file.

    Attributes
    ----------
    file : str
    columns : tuple of pyarrow.Array
    lines : int64 (n,)
        From 1 in the file.
    unit : {"line", "row"}
    """

    file: str
    columns: tuple[pa.Array, ...]
    lines: np.ndarray
    unit: str = "line"

    def place(self, row: int) -> str:
        """Where a row is, for a message."""
        return f"{self.file}, {self.unit} {self.lines[row]}"

    def rows(self, start: int, stop: int | None = None) -> "Cells":
        """Rows start..stop."""
        rows = slice(start, stop)
        return replace(self, columns=tuple(column[rows] for column in self.columns), lines=self.lines[rows])


MISSING = ("", "?", "n/a", "na", "nan", "none", "null", "<na>", "nat", "\\n")
"""Marks of a missing value, in lower case, where a label or an id is meant."""


def are_missing(text: pa.Array) -> np.ndarray:
    """Return which cells of text are marks of a missing value.

    >>> are_missing(pa.array(["a", "NaN", "NA", "Nancy", ""]))
    array([False,  True,  True, False,  True])
    """
    return pc.is_in(pc.utf8_lower(text), value_set=pa.array(MISSING)).to_numpy(zero_copy_only=False)


def to_numbers(cells: pa.Array) -> np.ndarray:
    """Cells as float64, NaN where one is no finite decimal number.

    >>> to_numbers(pa.array(["1e3", "-2", "x", "", "inf"]))
    array([1000.,   -2.,   nan,   nan,   nan])
    """
    try:
        values = cells.cast(pa.float64(), safe=pa.types.is_string(cells.type)).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        values = np.array([float(c) if is_number((c or "").encode()) else np.nan for c in cells.to_pylist()])
    return np.where(np.isfinite(values), values, np.nan)


def to_integers(cells: pa.Array) -> np.ndarray | None:
    """Cells as int64 when each is a whole number as one writes it (so not 007), else None.

    >>> to_integers(pa.array(["7", "-1"])), to_integers(pa.array(["7", "007"]))
    (array([ 7, -1]), None)
    """
    try:
        values = cells.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return values.to_numpy() if values.cast(pa.string()).equals(cells) else None

"""Files of labels: one column, a label for each item in order, or two, an item's id and its label."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ask_dask.errors import InputError
from ask_dask.ingest.cells import Cells, are_missing, to_integers
from ask_dask.ingest.files import find
from ask_dask.ingest.separated import Reader, Rule

ONE = Rule("give one id a line", delimiters="")
"""A file of ids, one a line."""

LABELS = Rule("give one column, the labels in order, or two, id and label", (1, 2))
PAIRS = Rule("give two columns, id and label", (2,))

COUNTED = 1000
"""Distinct labels that are counted; with more of them there are no classes to speak of."""


@dataclass(frozen=True)
class Labels:
    """The labels of n items, and what a store keeps of their file.

    Attributes
    ----------
    ids : pyarrow.StringArray (n,), optional
        None where the labels are in order.
    values : int64 or text (n,)
    cells : Cells
        Where each is in the file.
    about : dict
    """

    ids: pa.Array | None
    values: np.ndarray
    cells: Cells
    about: dict[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        """Label -> items."""
        return label_counts(self.values)


def read_labels(url: str, rule: Rule = LABELS) -> Labels:
    """Read a file of labels: plain or compressed, path or URL.

    Raises
    ------
    InputError
        It cannot be read; the number of columns is none of the rule's; a label is empty; labels in order with a blank
        line among them; an item labelled twice. Names the line.
    """
    reader = Reader(find(url), rule)
    cells = reader.read_whole()
    require_filled(cells)
    _refuse_first_line(cells)
    ids = cells.columns[0] if len(cells.columns) == 2 else None
    if ids is None and reader.blank is not None and reader.blank < cells.lines[-1]:
        raise InputError(
            f"{cells.file}, line {reader.blank} is blank: give each item a label, or two columns, id and label."
        )
    if ids is not None:
        refuse_twice(cells, ids)
    return Labels(ids, label_array(cells.columns[-1]), cells, reader.about())


def read_ids(url: str) -> tuple[list[str], dict[str, Any]]:
    """Read a file of distinct ids, one a line, and what a store keeps of it.

    Raises
    ------
    InputError
        It cannot be read, or an id is there twice: names the line.
    """
    reader = Reader(find(url), ONE)
    cells = reader.read_whole()
    require_filled(cells)
    _refuse_first_line(cells)
    refuse_twice(cells, cells.columns[0])
    return cells.columns[0].to_pylist(), reader.about()


def label_array(values: pa.Array) -> np.ndarray:
    """Labels as int64 where all are whole numbers, else as text of fixed width.

    >>> label_array(pa.array(["2", "-1"])), label_array(pa.array(["2", "b"]))
    (array([ 2, -1]), array(['2', 'b'], dtype='<U1'))
    """
    integers = to_integers(pc.utf8_ltrim(values, characters="+"))
    return np.array(values.to_pylist()) if integers is None else integers


def label_counts(values: np.ndarray) -> dict[str, int]:
    """Label -> how many there are, in the labels' order.

    >>> label_counts(np.array([1, 0, 1]))
    {'0': 1, '1': 2}
    """
    return {str(value): int(count) for value, count in zip(*np.unique(values, return_counts=True), strict=True)}


def counted(counts: Counter[str] | None, values: np.ndarray) -> Counter[str] | None:
    """Counts with those of more labels; None once the labels are too many to be classes, and from then on.

    >>> counted(Counter({"0": 2}), np.array([1, 0]))
    Counter({'0': 3, '1': 1})
    """
    if counts is None:
        return None
    counts = counts + Counter(label_counts(values))
    return counts if len(counts) <= COUNTED else None


def _refuse_first_line(cells: Cells) -> None:
    """Raise InputError for a first line that names columns, or counts the lines after it."""
    first, rest = cells.rows(0, 1), cells.rows(1)
    if len(rest.lines) < 2:
        return
    numbers = [to_integers(column) for column in rest.columns]
    named = all(to_integers(column) is None for column in first.columns)
    if named and all(found is not None for found in numbers):
        shown = " and ".join(repr(column[0].as_py()) for column in first.columns)
        raise InputError(f"{cells.place(0)}: {shown} names a column, since all after it are numbers; remove that line.")
    count = to_integers(first.columns[0])
    if len(numbers) > 1 or numbers[0] is None or count is None or count[0] != len(rest.lines):
        return
    if count[0] > np.abs(numbers[0]).max():
        raise InputError(f"{cells.place(0)}: {count[0]} counts the lines after it; remove that line.")


def require_filled(cells: Cells) -> None:
    """Refuse an empty cell."""
    for number, column in enumerate(cells.columns, 1):
        missing = np.flatnonzero(are_missing(column))
        if len(missing):
            given = column[missing[0]].as_py()
            said = f"is {given!r}, a mark of a missing value" if given else "is empty"
            raise InputError(f"{cells.place(missing[0])}: column {number} {said}; fill it, or remove the line.")


def refuse_twice(cells: Cells, ids: pa.Array) -> None:
    """Refuse an id that is there twice."""
    codes = ids.dictionary_encode().indices.to_numpy()
    if len(codes) and codes.max() + 1 < len(codes):
        first: dict[int, int] = {}
        row = next(i for i, code in enumerate(codes.tolist()) if first.setdefault(code, i) != i)
        raise InputError(
            f"{cells.place(row)}: {ids[row].as_py()!r} is there twice, before in line "
            f"{cells.lines[first[int(codes[row])]]}; remove one of them."
        )

"""A piece of text -> arrays. pyarrow splits it, and every check and conversion is made once per distinct cell."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ask_dask.ingest.formats import Layout
from ask_dask.ingest.hashing import bucket_codes
from ask_dask.ingest.sift import Reject, explain, is_number, is_text, is_unsigned, parse_hour


@dataclass(frozen=True)
class Hashing:
    """How cells become buckets: their number, and the seed from which each column has its own."""

    n_buckets: int
    random_state: int

    def seed(self, column: int) -> int:
        """The seed of a categorical column's hash."""
        return self.random_state * 1000 + column


@dataclass(frozen=True)
class Rows:
    """The sound rows of a text, n of them, and the lines that were set aside.

    Attributes
    ----------
    arrays : dict
        "numeric" float32 (n, p), NaN where missing; "codes" uint32 (c, n), the buckets of the categorical columns (one
        column is one stretch of memory); "line" int32 (n,), from 0 in the text; and "y" int8 (n,), "id" uint64 (n,)
        where the file has them.
    rejects : list of Reject
    """

    arrays: dict[str, np.ndarray]
    rejects: list[Reject]


@dataclass(frozen=True)
class _Column:
    """n cells as distinct ones (k of them, bytes) and int32 (n,) indices into these."""

    cells: pa.Array
    index: np.ndarray

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> "_Column":
        column = column.combine_chunks()
        return cls(column.dictionary, column.indices.to_numpy())


class _UnevenError(Exception):
    """Some line has the wrong number of columns, is blank, or has a carriage return inside."""


def parse(text: bytes, layout: Layout, hashing: Hashing) -> Rows:
    r"""Read whole lines of a file (without a header).

    Examples
    --------
    >>> from ask_dask.ingest.formats import CRITEO, find_layout
    >>> text = b"1" + b"\t7" * 13 + b"\tab" * 26 + b"\n" + b"x\n"
    >>> rows = parse(text, find_layout(CRITEO, text, "a.txt"), Hashing(100, 0))
    >>> rows.arrays["y"], rows.arrays["numeric"].shape, rows.arrays["codes"].shape
    (array([1], dtype=int8), (1, 13), (26, 1))
    >>> rows.rejects
    [Reject(line=1, kind='wrong number of columns', reason='1 column where 40 are needed')]
    """
    try:
        table, line = _table(text, layout), None
    except _UnevenError:
        table, line = _even_table(text, layout)
    columns = {name: _Column.of(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    arrays, faulty = _convert(columns, layout, hashing, table.num_rows)
    if line is None and not faulty.any():
        return Rows(arrays | {"line": np.arange(table.num_rows, dtype=np.int32)}, [])
    line = (np.arange(table.num_rows) if line is None else line)[~faulty]
    arrays = {name: np.compress(~faulty, array, axis=int(name == "codes")) for name, array in arrays.items()}
    return Rows(arrays | {"line": line.astype(np.int32)}, _rejects(text, line, layout))


def _rejects(text: bytes, sound: np.ndarray, layout: Layout) -> list[Reject]:
    lines = _lines(text)
    aside = np.setdiff1d(np.arange(len(lines)), sound)
    return [Reject(int(number), *explain(lines[number], layout)) for number in aside]


def _lines(text: bytes) -> list[bytes]:
    return text.removesuffix(b"\n").split(b"\n") if text else []


def _even_table(text: bytes, layout: Layout) -> tuple[pa.Table, np.ndarray]:
    """The lines with the right number of columns, and their numbers."""
    delimiters, delimiter = len(layout.columns) - 1, layout.form.delimiter.encode()
    even = [
        (number, line)
        for number, line in enumerate(_lines(text))
        if line.count(delimiter) == delimiters and (b"\r" not in line or line.find(b"\r") == len(line) - 1)
    ]
    return _table(b"\n".join(line for _, line in even), layout), np.array([number for number, _ in even], np.int64)


def _table(text: bytes, layout: Layout) -> pa.Table:
    wanted, kind = layout.form.columns(layout.labelled), pa.dictionary(pa.int32(), pa.binary())
    types = pa.schema([(name, kind) for name in wanted])
    if not text:
        return types.empty_table()
    # pyarrow takes a lone carriage return for a line end, and skips blank lines.
    if b"\r" in text and text.count(b"\r") != text.count(b"\r\n") + text.endswith(b"\r"):
        raise _UnevenError
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(text),
            read_options=pa.csv.ReadOptions(
                use_threads=False, column_names=list(layout.columns), block_size=len(text) + 1
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=layout.form.delimiter, quote_char=False, double_quote=False, escape_char=False
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=types, include_columns=wanted, null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise _UnevenError from error
    if table.num_rows != text.count(b"\n") + (not text.endswith(b"\n")):
        raise _UnevenError
    return table


def _convert(
    columns: dict[str, _Column], layout: Layout, hashing: Hashing, n: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Arrays over n rows, and bool (n,): which rows have a faulty cell."""
    form, faulty = layout.form, np.zeros(n, bool)

    def spread(column: _Column, values: np.ndarray, wrong: np.ndarray) -> np.ndarray:
        if wrong.any():
            np.logical_or(faulty, wrong[column.index], out=faulty)
        return values[column.index]

    arrays = {"numeric": np.empty((n, len(form.numeric)), np.float32)}
    for j, name in enumerate(form.numeric):
        arrays["numeric"][:, j] = spread(columns[name], *_numbers(columns[name].cells))
    if layout.labelled:
        arrays["y"] = spread(columns[form.label], *_labels(columns[form.label].cells))
    if form.id:
        arrays["id"] = spread(columns[form.id], *_ids(columns[form.id].cells))
    if form.hour:
        times, wrong = _times(columns[form.hour].cells)
        spread(columns[form.hour], wrong, wrong)
        columns = columns | {name: _Column(cells, columns[form.hour].index) for name, cells in times.items()}
    arrays["codes"] = np.empty((len(form.categorical), n), np.uint32)
    for j, name in enumerate(form.categorical):
        codes = bucket_codes(columns[name].cells, hashing.n_buckets, hashing.seed(j))
        arrays["codes"][j] = spread(columns[name], codes, _not_text(columns[name].cells))
    return arrays, faulty


def _numbers(cells: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    empty = pc.equal(pc.binary_length(cells), 0)
    try:
        values = pc.if_else(empty, None, cells.cast(pa.string())).cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        values = np.array([float(cell) if is_number(cell) else np.nan for cell in cells.to_pylist()], np.float64)
    largest = np.finfo(np.float32).max
    return np.clip(values, -largest, largest), ~(np.isfinite(values) | empty.to_numpy(zero_copy_only=False))


def _ids(cells: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    try:
        values = cells.cast(pa.string()).cast(pa.uint64()).to_numpy()
        return values, np.zeros(len(values), bool)
    except pa.ArrowInvalid:
        wrong = np.array([not is_unsigned(cell) for cell in cells.to_pylist()], bool)
        values = [0 if bad else int(cell) for cell, bad in zip(cells.to_pylist(), wrong, strict=True)]
        return np.array(values, np.uint64), wrong


def _labels(cells: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([{b"0": 0, b"1": 1}.get(cell, -1) for cell in cells.to_pylist()], np.int8)
    return values, values < 0


def _times(hours: pa.Array) -> tuple[dict[str, pa.Array], np.ndarray]:
    times = [parse_hour(cell) for cell in hours.to_pylist()]
    parts = {"hour_of_day": "%H", "weekday": "%w"}
    cells = {name: [time.strftime(how).encode() if time else b"" for time in times] for name, how in parts.items()}
    wrong = np.array([time is None for time in times], bool)
    return {name: pa.array(values, pa.binary()) for name, values in cells.items()}, wrong


def _not_text(cells: pa.Array) -> np.ndarray:
    if (cells.buffers()[2] or b"") and not bytes(cells.buffers()[2]).isascii():
        return np.array([not is_text(cell) for cell in cells.to_pylist()], bool)
    return np.zeros(len(cells), bool)

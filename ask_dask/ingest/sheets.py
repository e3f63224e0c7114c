"""A table in a file, text with a header or Parquet: its columns by name, read a piece at a time."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ask_dask import store
from ask_dask.errors import InputError
from ask_dask.ingest.cells import Cells, to_numbers
from ask_dask.ingest.files import PIECE_BYTES, RawFile, find, read_head, unmark
from ask_dask.ingest.separated import Reader, Rule

RULE = Rule("give each row as many cells as the header has names", delimiters="\t,;", comments=b"", quotes=True)

BATCH_ROWS = 1 << 16
"""Most rows of Parquet that are read together; fewer of many columns, so that they take as much as a piece of text."""

READ_BYTES = 1 << 16
"""Bytes of a Parquet column that are read at a time; without such a limit all of a row group."""


class Sheet(Protocol):
    """A table in a file.

    Attributes
    ----------
    file : RawFile
    names : tuple of str
        Of its columns.
    index : tuple of str
        Columns that are the index of a data frame which was written.
    """

    file: RawFile
    names: tuple[str, ...]
    index: tuple[str, ...]

    def read(self, names: Sequence[str]) -> Iterator[Cells]:
        """Its rows, in order; these columns, in this order."""

    def about(self) -> dict[str, Any]:
        """What a store keeps of the file, once it was read."""


class TextSheet:
    """Text with a header, or without one: columns are then called 1, 2, ..."""

    index: tuple[str, ...] = ()

    def __init__(self, file: RawFile, header: bool = True) -> None:
        self.file, self.header = file, header
        lines = unmark(read_head(file)).splitlines()
        first = RULE.split(next((line for line in lines if line.strip()), b"").decode("utf-8", "replace"))
        self.names = tuple(first if header else map(str, range(1, len(first) + 1)))
        self._reader = Reader(file, RULE)

    def read(self, names: Sequence[str]) -> Iterator[Cells]:
        """Its rows, in order; these columns, in this order."""
        self._reader = Reader(self.file, RULE)
        for number, cells in enumerate(self._reader.read([self.names.index(name) for name in names])):
            yield cells.rows(0 if number or not self.header else 1)

    def about(self) -> dict[str, Any]:
        """What a store keeps of the file, once it was read."""
        about = self._reader.about()
        return about | {"rows": about["rows"] - self.header}


class ParquetSheet:
    """A Parquet file."""

    def __init__(self, file: RawFile) -> None:
        self.file = file
        with self._opened() as parquet:
            self.names = tuple(parquet.schema_arrow.names)
            self.index = _index(parquet.schema_arrow)
            self._rows = parquet.metadata.num_rows
            self._types = {field.name: field.type for field in parquet.schema_arrow}
            self._fingerprint = store.fingerprint(parquet.schema_arrow.to_string(), parquet.metadata.to_dict())

    def read(self, names: Sequence[str]) -> Iterator[Cells]:
        """Its rows, in order; these columns, in this order."""
        self._check_types(names)
        first = 1
        with self._opened() as parquet:
            rows = min(BATCH_ROWS, max(1, PIECE_BYTES // (8 * len(names))))
            for group in range(parquet.num_row_groups):  # a reader of several groups keeps those it has read
                for batch in parquet.iter_batches(rows, row_groups=[group], columns=list(names)):
                    columns = tuple(_plain(batch.column(name)) for name in names)
                    yield Cells(self.file.name, columns, np.arange(first, first + len(batch)), "row")
                    first += len(batch)

    def about(self) -> dict[str, Any]:
        """What a store keeps of the file."""
        return self.file.about(self._rows, self._fingerprint)

    def _check_types(self, names: Sequence[str]) -> None:
        for name in names:
            if not _is_plain(self._types[name]):
                what = f"column {name!r} holds {self._types[name]}, neither numbers nor text"
                raise InputError(f"{self.file.name}: {what}; leave it out with --drop.")

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        fs, path = store.opened(self.file.url)
        try:
            with fs.open(path, "rb") as raw, pq.ParquetFile(raw, buffer_size=READ_BYTES) as parquet:
                yield parquet
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.file.name} cannot be read as Parquet: {error}.") from error


def _index(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that pandas or dask wrote as the index of a data frame."""
    try:
        told = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    except (ValueError, AttributeError):
        told = []
    names = [name for name in told if isinstance(name, str)]
    return tuple(name for name in schema.names if name in names or re.fullmatch(INDEX, name))


INDEX = r"__index_level_\d+__|__null_dask_index__"
"""Names that pandas and dask give to an index without one."""


def open_sheet(url: str, header: bool = True) -> Sheet:
    """Return the table in a file: Parquet where its name ends in .parquet or .pq or its first bytes say so, else text.

    Raises
    ------
    InputError
        It cannot be read, two columns have one name, a column has none, or the names are numbers, so no header.
    """
    file = find(url)
    parquet = file.name.partition("?")[0].endswith((".parquet", ".pq")) or file.starts_with(b"PAR1")
    sheet: Sheet = ParquetSheet(file) if parquet else TextSheet(file, header)
    if not sheet.names:
        raise InputError(f"{file.name} has no header: give a file whose first line names the columns.")
    numbered = sheet.names != tuple(str(i) for i in range(len(sheet.names)))  # that much a data frame writes
    if header and numbered and not np.isnan(to_numbers(pa.array(sheet.names))).any():
        raise InputError(f"{file.name} has numbers where the names of its columns should be: give it a header, or "
                         "--no-header.")  # fmt: skip
    for name in sheet.names:
        if not name:
            where = f"{file.name}: column {sheet.names.index(name) + 1} has no name"
            said = "like the index of a data frame; name it in the header, or leave it out when you write the file"
            raise InputError(f"{where}, {said}.")
        if sheet.names.count(name) > 1:
            raise InputError(f"{file.name} has two columns {name!r}: give each its own name in the header.")
    return sheet


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return number or pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _plain(column: pa.Array) -> pa.Array:
    """Text as text, bool as 0 and 1, decimals as float64."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    return column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column

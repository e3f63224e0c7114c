"""Text with one row a line -> columns of cells, each row with its line; a line of the wrong width is refused.

For files whose every row must be right: edge lists, labels, tables, samples. Click logs set bad rows aside, see `sift`.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ask_dask.errors import InputError
from ask_dask.ingest import files as raw
from ask_dask.ingest.cells import Cells
from ask_dask.ingest.sift import is_text

_NO_DELIMITER = "\x1f"  # the whole line is one cell
_UNEVEN = re.compile(r"CSV parse error: Row #(\d+): Expected \d+ columns, got (\d+)")


@dataclass(frozen=True)
class Rule:
    """What the lines of a file may be.

    Attributes
    ----------
    needs : str
        What to give instead of a line of the wrong width, for the refusal.
    widths : tuple of int
        The numbers of columns that a file may have; empty for any. All lines of a file have as many as its first.
    delimiters : str
        Of these the most frequent in the first line is the file's; a space stands for runs of spaces, where there is
        no other. None: a line is one cell.
    comments : bytes
        A line that starts with one of these is ignored, as a blank line is.
    quotes : bool
        Whether a cell may be in double quotes.
    """

    needs: str
    widths: tuple[int, ...] = ()
    delimiters: str = "\t, "
    comments: bytes = b"#%"
    quotes: bool = False

    def delimiter(self, line: str) -> str:
        r"""The delimiter of a file with this first line.

        >>> rule = Rule("two columns")
        >>> rule.delimiter("a\tb c"), rule.delimiter("a, b"), rule.delimiter("a   b")
        ('\t', ',', ' ')
        """
        line = re.sub('"[^"]*"', "", line) if self.quotes else line
        best = max(self.delimiters.replace(" ", ""), key=line.count, default=_NO_DELIMITER)
        return best if best in line or " " not in self.delimiters else " "

    def split(self, line: str) -> list[str]:
        """The cells of a first line."""
        delimiter = self.delimiter(line)
        if delimiter == " ":
            return line.split()
        cells = line.split(delimiter)
        if self.quotes:
            with suppress(csv.Error):  # a cell beyond its limit, or a stray carriage return, which is refused elsewhere
                cells = next(csv.reader([line], delimiter=delimiter), [])
        return [cell.strip() for cell in cells]


@dataclass
class Reader:
    """A text file read once, a piece at a time, in bounded memory; what it says of itself after that is in `about`.

    Attributes
    ----------
    rows : int
        Rows read.
    blank : int, optional
        The first blank line.
    width : int
        Columns of each line, 0 before the first is read.
    """

    file: raw.RawFile
    rule: Rule
    rows: int = 0
    blank: int | None = None
    width: int = 0
    delimiter: str = ""
    _digest: Any = field(default_factory=lambda: blake2b(digest_size=16))

    def read(self, only: Sequence[int] | None = None) -> Iterator[Cells]:
        """The rows, in order; of the columns `only` these, in this order.

        Raises
        ------
        InputError
            The file cannot be read, or a line has the wrong number of columns or is no text: names the line.
        """
        first = 1
        for piece in raw.stream_pieces(self.file, raw.PIECE_BYTES):
            self._digest.update(piece)
            if first == 1 and raw.unmark(piece).startswith(b"%%MatrixMarket"):
                said = (
                    "is a Matrix Market file, whose size line is not data: write the lines after it into another file"
                )
                raise InputError(f"{self.file.name} {said}.")
            text, lines, blank = _data_lines(raw.unmark(piece) if first == 1 else piece, first, self.rule.comments)
            self.blank = blank if self.blank is None else self.blank
            first += piece.count(b"\n")
            if len(lines):
                self.rows += len(lines)
                yield self._cells(text, lines, only)

    def read_whole(self) -> Cells:
        """All rows of a file that fits in memory.

        Raises
        ------
        InputError
            As for `read`; also when the file has no row.
        """
        parts = list(self.read())
        if not parts:
            raise InputError(f"{self.file.name} has no rows: {self.rule.needs}.")
        columns = (pa.concat_arrays(column) for column in zip(*(part.columns for part in parts), strict=True))
        return Cells(self.file.name, tuple(columns), np.concatenate([part.lines for part in parts]))

    def about(self) -> dict[str, Any]:
        """What a store keeps of the file."""
        return self.file.about(self.rows, self._digest.hexdigest())

    def _cells(self, text: bytes, lines: np.ndarray, only: Sequence[int] | None) -> Cells:
        self._check_line_ends(text, lines)
        if not self.width:
            self._look(text, int(lines[0]))
        spaced, delimiter = b" " in text, self.delimiter
        if delimiter == " ":
            text, delimiter, spaced = _one_tab(text), "\t", False
        names = [str(i) for i in (range(self.width) if only is None else only)]
        table = self._table(text, lines, delimiter, names)
        columns = [self._text(table[name].combine_chunks(), lines) for name in names]
        return Cells(self.file.name, tuple(pc.ascii_trim_whitespace(c) if spaced else c for c in columns), lines)

    def _look(self, text: bytes, line: int) -> None:
        first = text.split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r")
        self.delimiter, self.width = self.rule.delimiter(first), len(self.rule.split(first))
        if self.rule.widths and self.width not in self.rule.widths:
            raise InputError(f"{self.file.name}, line {line} has {_columns(self.width)}: {self.rule.needs}.")

    def _table(self, text: bytes, lines: np.ndarray, delimiter: str, names: list[str]) -> pa.Table:
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(text),
                pa.csv.ReadOptions(
                    use_threads=False, column_names=[str(i) for i in range(self.width)], block_size=len(text) + 1
                ),
                pa.csv.ParseOptions(
                    delimiter=delimiter, quote_char='"' if self.rule.quotes else False, double_quote=self.rule.quotes,
                    escape_char=False, ignore_empty_lines=False,
                ),
                pa.csv.ConvertOptions(
                    column_types={name: pa.binary() for name in names}, include_columns=names, null_values=[],
                    strings_can_be_null=False,
                ),
            )  # fmt: skip
        except pa.ArrowInvalid as error:
            uneven = _UNEVEN.match(str(error))  # a handler of such rows would not be told those that are not UTF-8
            if not uneven:
                raise InputError(f"{self.file.name}, near line {lines[0]}: {error}; correct the file.") from error
            place, width = f"{self.file.name}, line {lines[int(uneven[1]) - 1]}", int(uneven[2])
            raise InputError(
                f"{place} has {_columns(width)} and the lines before it {self.width}: {self.rule.needs}."
            ) from error
        if table.num_rows != len(lines):
            raise InputError(
                f"{self.file.name}, after line {lines[0]}: a quoted cell runs over several lines; give each row one "
                "line."
            )
        return table

    def _check_line_ends(self, text: bytes, lines: np.ndarray) -> None:
        """pyarrow would take a lone carriage return for a line end."""
        if b"\r" in text and (stray := re.search(rb"\r(?!\n|\Z)", text)):
            line = lines[text.count(b"\n", 0, stray.start())]
            raise InputError(f"{self.file.name}, line {line}: a carriage return inside the line; remove it.")

    def _text(self, column: pa.Array, lines: np.ndarray) -> pa.Array:
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid as error:
            row = next(i for i, cell in enumerate(column.to_pylist()) if not is_text(cell))
            raise InputError(
                f"{self.file.name}, line {lines[row]}: not valid UTF-8; save the file as UTF-8."
            ) from error


def _columns(number: int) -> str:
    return f"{number} column{'s' * (number != 1)}"


def _one_tab(text: bytes) -> bytes:
    """The text with one tab where it had runs of spaces and tabs, and none at the ends of lines."""
    text = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", text)
    return re.sub(rb"[ \t]+", b"\t", text) if b"  " in text or b"\t" in text else text.replace(b" ", b"\t")


def _data_lines(text: bytes, first: int, comments: bytes) -> tuple[bytes, np.ndarray, int | None]:
    """The lines that hold data, their numbers (the text starts with line `first`), and the number of a blank line."""
    data = np.frombuffer(text, np.uint8)
    stops = np.flatnonzero(data == ord("\n")) + 1
    stops = stops if text.endswith(b"\n") or not text else np.r_[stops, len(text)]
    starts = np.r_[0, stops[:-1]] if len(stops) else stops
    keep, blank = np.ones(len(starts), bool), None
    for i in np.flatnonzero(np.isin(data[starts], np.frombuffer(b" \t\r\n" + comments, np.uint8))):
        line = text[starts[i] : stops[i]].strip(b" \r\n")
        if not line:
            blank = first + int(i) if blank is None else blank
        keep[i] = bool(line) and line.lstrip()[:1] not in [comments[j : j + 1] for j in range(len(comments))]
    lines = first + np.flatnonzero(keep)
    return text if keep.all() else data[np.repeat(keep, stops - starts)].tobytes(), lines, blank

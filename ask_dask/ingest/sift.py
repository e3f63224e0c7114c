"""What is wrong with a line, or a cell, that is not as it should be."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ask_dask.ingest.formats import Layout

_NUMBER = re.compile(rb"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*")
_UNSIGNED = re.compile(rb"0*[0-9]{1,20}")


@dataclass(frozen=True)
class Reject:
    """A line that was set aside.

    Attributes
    ----------
    line : int
        Its number, from 0 in the text that was parsed, from 1 in the file once all of the file is known.
    kind : str
        What sort of fault, to be counted.
    reason : str
        The fault in full, with column and value.
    """

    line: int
    kind: str
    reason: str


BLANK = ("blank line", "blank line")


def explain(line: bytes, layout: Layout) -> tuple[str, str]:
    r"""The kind of the first fault of a line, and the fault in full.

    >>> from ask_dask.ingest.formats import CRITEO, find_layout
    >>> explain(b"2" + b"\t" * 39 + b"\r\n", find_layout(CRITEO, b"\t" * 39, "a.txt"))
    ('bad label', "label is '2', not 0 or 1")
    """
    cells = line.removesuffix(b"\n").removesuffix(b"\r").split(layout.form.delimiter.encode())
    return next(_faults(cells, layout), ("unreadable", "the line cannot be read"))


def _faults(cells: list[bytes], layout: Layout) -> Iterator[tuple[str, str]]:
    form, wanted = layout.form, len(layout.columns)
    if cells == [b""]:
        yield BLANK
    if len(cells) != wanted:
        found = f"{len(cells)} column{'s' * (len(cells) != 1)} where {wanted} are needed"
        yield "wrong number of columns", found
        return
    for name, cell in zip(layout.columns, cells, strict=True):
        if b"\r" in cell:
            yield "stray carriage return", f"a carriage return inside column {name}"
        elif not is_text(cell):
            yield "not UTF-8", f"not valid UTF-8 at column {name}"
        elif name == form.label and cell not in (b"0", b"1"):
            yield f"bad {name}", f"{name} is {_shown(cell)}, not 0 or 1"
        elif name in form.numeric and cell and not is_number(cell):
            yield f"bad {name}", f"column {name} is {_shown(cell)}, not a finite number"
        elif name == form.id and not is_unsigned(cell):
            yield f"bad {name}", f"column {name} is {_shown(cell)}, not a whole number below 2**64"
        elif name == form.hour and parse_hour(cell) is None:
            yield f"bad {name}", f"column {name} is {_shown(cell)}, not a time as YYMMDDHH"


def parse_hour(cell: bytes) -> datetime | None:
    """The time that YYMMDDHH names, or None.

    >>> parse_hour(b"14102113").strftime("%A %H"), parse_hour(b"14103200")
    ('Tuesday 13', None)
    """
    try:
        return datetime.strptime("20" + cell.decode(), "%Y%m%d%H") if re.fullmatch(rb"[0-9]{8}", cell) else None
    except ValueError:
        return None


def is_text(cell: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_number(cell: bytes) -> bool:
    """Whether the bytes are a finite decimal number.

    >>> [is_number(cell) for cell in (b"-1", b"+2.5e3", b"nan", b"1e400", b"0x1", b"")]
    [True, True, False, False, False, False]
    """
    return bool(_NUMBER.fullmatch(cell)) and math.isfinite(float(cell))


def is_unsigned(cell: bytes) -> bool:
    """Whether the bytes are the digits of a whole number below 2**64."""
    return bool(_UNSIGNED.fullmatch(cell)) and int(cell) < 2**64


def _shown(cell: bytes) -> str:
    text = cell.decode()
    return repr(text if len(text) <= 40 else text[:37] + "...")

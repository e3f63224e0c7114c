"""Text with a label and index:value pairs a line (SVMLight, LIBSVM) -> sparse rows, a piece at a time.

scikit-learn parses the pieces. What it refuses it does not place, so the wrong line is then found by halving.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from typing import Any

import numpy as np
import scipy.sparse as sp

from ask_dask.errors import InputError
from ask_dask.ingest import files as raw

LINE_BYTES = 32 << 20
"""The longest line that is looked for: a row may have a value in each of a million columns."""

LARGEST_LABEL = 2.0**53
"""Whole numbers up to this size are float64 numbers, each."""

LARGEST = 2**31 - 1
"""The largest index that is read."""


@dataclass(frozen=True)
class Limits:
    """What the index:value pairs may be: the smallest and the largest index, and the dtype that holds the values."""

    first: int
    last: int
    dtype: np.dtype


@dataclass
class PairReader:
    """A file read once, a piece at a time, in bounded memory; what it says of itself after that is in `about`.

    Attributes
    ----------
    limits : Limits
        May be set anew between two pieces.
    rows : int
        Rows read.
    """

    file: raw.RawFile
    limits: Limits
    rows: int = 0
    _digest: Any = field(default_factory=lambda: blake2b(digest_size=16))

    def read(self) -> Iterator[tuple[sp.csr_matrix, np.ndarray]]:
        """Rows with the indices as they are in the file, and their labels float64 (n,); in order.

        Raises
        ------
        InputError
            The file cannot be read, or a line is not what it must be: names the line.
        """
        line = 1
        for piece in raw.stream_pieces(self.file, raw.PIECE_BYTES, LINE_BYTES):
            self._digest.update(piece)
            text = raw.unmark(piece) if line == 1 else piece
            try:
                X, y = _load(text, self.limits)
            except (ValueError, OverflowError) as error:
                raise self._refusal(text, line) from error
            line += piece.count(b"\n")
            self.rows += len(y)
            yield X, y

    def about(self) -> dict[str, Any]:
        """What a store keeps of the file."""
        return self.file.about(self.rows, self._digest.hexdigest())

    def _refusal(self, text: bytes, first: int) -> InputError:
        lines = text.split(b"\n")
        wrong = _first_wrong(lines, self.limits)
        return InputError(f"{self.file.name}, line {first + wrong}: {fault(lines[wrong], self.limits)}.")


def _load(text: bytes, limits: Limits) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows and labels of lines of text; ValueError or OverflowError when one is wrong."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(BytesIO(text), n_features=limits.last + 1, dtype=limits.dtype, zero_based=True)
    if not (np.isfinite(y).all() and np.isfinite(X.data).all()):
        raise ValueError("not finite")
    if (abs(y) > LARGEST_LABEL).any():
        raise ValueError("a label that is rounded")
    if X.nnz and X.indices.min() < limits.first:
        raise ValueError("index 0")
    return X, y


def _first_wrong(lines: list[bytes], limits: Limits) -> int:
    """The number of the first line that is refused, of some that are."""
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _load(b"\n".join(lines[low:middle]), limits)
            low = middle
        except (ValueError, OverflowError):
            high = middle
    return low


def fault(line: bytes, limits: Limits) -> str:
    """What is wrong with a line, and what to do.

    >>> fault(b"1 2:0.5 2:1 # twice", Limits(0, LARGEST, np.dtype("float64")))
    'index 2 comes after index 2; give the indices of a line in ascending order, each once'
    """
    label, *pairs = line.partition(b"#")[0].split()
    if not np.isfinite(_number(label)):
        return f"the label {_shown(label)} is no finite number; give each row one number, also for a class"
    if abs(_number(label)) > LARGEST_LABEL:
        return f"the label {_shown(label)} is beyond 2^53, where whole numbers are rounded; use smaller ones"
    if pairs and pairs[0].startswith(b"qid") and b":" in pairs[0]:
        pairs = pairs[1:]
    before = -1
    for pair in pairs:
        index, colon, value = pair.partition(b":")
        if not colon or (number := _whole(index)) is None:
            return f"{_shown(pair)} is no index:value pair; give each value as one, such as 3:0.5"
        if said := _fault_of_index(number, before, limits) or _fault_of_value(value, limits):
            return said
        before = number
    return "it is no label and index:value pairs; correct it"


def _fault_of_index(index: int, before: int, limits: Limits) -> str | None:
    if index < 0:
        return f"index {index} is below 0; correct it"
    if index < limits.first:
        return f"index {index} is below {limits.first}, the first; correct it, or give --zero-based"
    if index <= before:
        return f"index {index} comes after index {before}; give the indices of a line in ascending order, each once"
    if index > limits.last:
        more = "; correct it" if limits.last == LARGEST else "; correct it, or set --columns higher"
        return f"index {index} is above {limits.last}, the last{more}"
    return None


def _fault_of_value(value: bytes, limits: Limits) -> str | None:
    number = _number(value)
    if not np.isfinite(number):
        return f"the value {_shown(value)} is no finite number; correct it, or leave the pair out"
    if abs(number) > float(np.finfo(limits.dtype).max):
        return f"the value {_shown(value)} is beyond float32; use --dtype float64"
    return None


def _number(text: bytes) -> float:
    """The number that text is, NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return np.nan


def _whole(text: bytes) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))

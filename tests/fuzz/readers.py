"""What must hold of each text reader whatever it is given: it refuses, or every line is read or counted as rejected.

Each target takes the bytes of a file, and returns how many of its rows were read and how many were set aside; None
where the file was refused. Lines are counted here in another way than the readers count them.
"""

import bz2
import gzip
import lzma
from collections.abc import Callable

import fsspec
import numpy as np

from ask_dask.errors import InputError
from ask_dask.ingest import files as raw
from ask_dask.ingest import graph, points, separated, sheets, staging, table
from ask_dask.ingest.formats import AVAZU, CRITEO, Format, find_layout
from ask_dask.ingest.labels import read_ids, read_labels
from ask_dask.ingest.numbering import Numbering
from ask_dask.ingest.pairs import LARGEST, Limits, PairReader
from ask_dask.ingest.parse import Hashing

Counts = tuple[int, int]


class Group(dict):
    """As much of a group of zarr as is written to, in memory, since zarr takes most of the time."""

    def create_group(self, name: str, overwrite: bool = False) -> "Group":
        """A group in this one, new if asked."""
        if overwrite:
            self.pop(name, None)
        return self.setdefault(name, Group())

    def create_array(self, name: str, shape: tuple[int, ...], dtype: np.dtype, **_: object) -> np.ndarray:
        """An array of it, to be filled."""
        return self.setdefault(name, np.empty(shape, dtype))


MARK = b"\xef\xbb\xbf"


def given(data: bytes, name: str = "fuzz.txt", least: int = 48) -> str:
    """The URL of a file with these bytes, read in pieces of few lines."""
    raw.PIECE_BYTES = least + len(data) % 97
    fsspec.filesystem("memory").pipe_file(f"/{name}", data)
    return f"memory://{name}"


def lines(data: bytes, comments: bytes = b"") -> int:
    """Lines that are not blank and no comments; only blanks, tabs and carriage returns may stand before a comment."""
    marks = [bytes([mark]) for mark in comments]

    def counts(line: bytes) -> bool:
        is_comment = line[:1] in [b" ", b"\t", b"\r", *marks] and line.lstrip()[:1] in marks
        return bool(line.strip(b" \r")) and not is_comment

    return sum(map(counts, data.removeprefix(MARK).split(b"\n")))


def click_log(form: Format, data: bytes) -> Counts:
    """Rows may be faulty, and are then counted by kind."""
    file = raw.find(given(data, least=500))
    layout = find_layout(form, raw.read_head(file), file.name)
    staged = Group()
    reports = staging.stage(staged, file, 0, None, raw.PIECE_BYTES, layout, Hashing(64, 0))
    rejects, kinds = staging.file_rejects(reports)
    every = data.removesuffix(b"\n").split(b"\n")[int(form.header) :]
    wanted = every.copy()
    while wanted and wanted[-1].strip(b"\r") == b"":  # those at the end are no faults, but for odd carriage returns
        wanted.pop()
    rows = sum(report.rows for report in reports)
    assert len(wanted) <= rows + kinds.total() <= len(every), (rows, kinds, len(wanted), len(every))
    assert len({reject.line for reject in rejects}) == len(rejects) <= kinds.total()
    assert all(0 < reject.line <= len(every) + form.header for reject in rejects)
    for placed in staging.place(reports, 0, 0):
        arrays = staged[placed.name]
        assert len(arrays["line"]) == placed.stop - placed.start
        assert not np.isinf(arrays.get("numeric", np.zeros(0))).any() and arrays["codes"].max() < 64
    return rows, kinds.total()


def read_table(data: bytes) -> Counts:
    """Every cell is a number, the first column a label."""
    sheet = sheets.open_sheet(given(data, "fuzz.csv"))
    rows, kind = 0, table.LabelKind()
    for cells in sheet.read(sheet.names):
        kind |= table.label_kind(cells, sheet.names[0], cells.columns[0])
        X = table.features(cells, sheet.names, np.dtype("float64"))
        assert np.isfinite(X).all() and X.shape == (len(cells.lines), len(sheet.names))
        rows += len(X)
    wanted = lines(data) - 1
    assert rows == wanted == sheet.about()["rows"], (rows, wanted)
    return rows, 0


def edges(data: bytes) -> Counts:
    """Two columns of ids and perhaps weights."""
    numbering = Numbering()
    weights, _ = graph._read_edges([given(data)], numbering, None)
    found, wanted = numbering.edges(), lines(data, b"#%")
    assert len(found) == wanted and (weights is None or len(weights) == wanted), (len(found), wanted)
    assert found.min() >= 0 and (weights is None or (np.isfinite(weights) & (weights > 0)).all())
    return wanted, 0


def svmlight(data: bytes) -> Counts:
    """A label and pairs."""
    reader = PairReader(raw.find(given(data)), Limits(0, LARGEST, np.dtype("float32")))
    for X, y in reader.read():
        assert X.shape[0] == len(y) and np.isfinite(X.data).all() and np.isfinite(y).all()
    shown = data.removeprefix(MARK).split(b"\n")
    wanted = sum(bool(line.partition(b"#")[0].strip()) for line in shown)
    assert reader.rows == wanted, (reader.rows, wanted)
    return wanted, 0


def samples(data: bytes) -> Counts:
    """Ids and coordinates, with or without a header."""
    names, found, _ = points.read_points([given(data)], 3, 10, None)
    rows, wanted = sum(map(len, found)), lines(data, b"#%")
    assert rows in (wanted, wanted - 1) and len(names) == len(set(names)) == len(found), (rows, wanted)
    assert all(np.isfinite(part).all() for part in found)
    return rows, 0


def labels(data: bytes) -> Counts:
    """One column or two."""
    read, wanted = read_labels(given(data)), lines(data, b"#%")
    assert len(read.values) == wanted and (read.ids is None or len(set(read.ids.to_pylist())) == wanted)
    return wanted, 0


def ids(data: bytes) -> Counts:
    """An id a line."""
    read, wanted = read_ids(given(data))[0], lines(data, b"#%")
    assert len(read) == len(set(read)) == wanted, (read, wanted)
    return wanted, 0


def compressed(data: bytes) -> Counts:
    """A file that says that it is compressed, or a text that is: every line of what is in it, decompressed at once."""
    kind = data[0] if data else 0
    suffix, codec = (("gz", gzip), ("bz2", bz2), ("xz", lzma))[kind % 3]
    packed = codec.compress(data[1:]) if kind // 3 % 2 else data[1:]
    reader = separated.Reader(raw.find(given(packed, f"fuzz.{suffix}")), separated.Rule("anything"))
    rows, wanted = sum(len(cells.lines) for cells in reader.read()), lines(codec.decompress(packed), b"#%")
    assert rows == wanted, (rows, wanted)
    return rows, 0


READERS: dict[str, Callable[[bytes], Counts]] = {
    "criteo": lambda data: click_log(CRITEO, data),
    "avazu": lambda data: click_log(AVAZU, data),
    "table": read_table,
    "graph": edges,
    "svmlight": svmlight,
    "samples": samples,
    "labels": labels,
    "ids": ids,
    "compressed": compressed,
}


def attempt(reader: str, data: bytes) -> Counts | None:
    """What a reader makes of a file; None where it refuses it, in one sentence that says what to do."""
    try:
        return READERS[reader](data)
    except InputError as error:
        assert len(str(error)) > 20, error
        return None

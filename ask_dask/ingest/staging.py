"""Parsed pieces kept on disk until the whole is known: written once, then read by columns and by rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import zarr

from ask_dask import store
from ask_dask.encode import NumericSums, count_labels, encode_one_way
from ask_dask.ingest.files import RawFile, read_piece, stream_pieces
from ask_dask.ingest.formats import Layout
from ask_dask.ingest.hashing import assign_folds
from ask_dask.ingest.parse import Hashing, parse
from ask_dask.ingest.sift import BLANK, Reject

KEPT_REJECTS = 1000
"""Rejects of one piece that are described one by one; all are counted."""


@dataclass(frozen=True)
class PieceReport:
    """What became of one piece of a file.

    Attributes
    ----------
    name : str
        Its group in the staging area.
    lines, blank, rows : int
        Lines in it, blank ones at its end (whether these are faults depends on what follows), sound rows.
    labels : int64 (2,)
        Rows labelled 0 and 1.
    kinds : Counter
        Rejects by kind.
    rejects : list of Reject
        The first of them, numbered from 0 in the piece.
    digest : bytes
        Hash of the text; empty for no text.
    sums : NumericSums
    """

    name: str
    lines: int
    rows: int
    labels: np.ndarray
    sums: NumericSums
    blank: int = 0
    kinds: Counter = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    digest: bytes = b""


@dataclass(frozen=True)
class Placed:
    """A piece whose rows start..stop of the dataset are known; its first line is line `line` of file number `file`."""

    name: str
    file: int
    start: int
    stop: int
    line: int


def stage(
    staged: zarr.Group, file: RawFile, index: int, piece: int | None, piece_bytes: int, layout: Layout, hashing: Hashing
) -> list[PieceReport]:
    """Parse one piece of file number `index`, or (None) all of it in one pass, and keep the rows."""
    pieces: Iterable[tuple[int, bytes]] = enumerate(stream_pieces(file, piece_bytes))
    if piece is not None:
        pieces = [(piece, read_piece(file, piece, piece_bytes))]
    return [_stage(staged, f"{index}-{number}", text, number == 0, layout, hashing) for number, text in pieces]


def _stage(staged: zarr.Group, name: str, text: bytes, first: bool, layout: Layout, hashing: Hashing) -> PieceReport:
    skipped = int(first and layout.form.header)
    body, blank = _trim(text.partition(b"\n")[2] if skipped else text)
    parsed = parse(body, layout, hashing)
    parsed.arrays["line"] += skipped
    return keep(
        staged,
        name,
        parsed.arrays,
        lines=text.count(b"\n") + bool(text and not text.endswith(b"\n")),
        blank=blank,
        kinds=Counter(reject.kind for reject in parsed.rejects),
        rejects=[Reject(r.line + skipped, r.kind, r.reason) for r in parsed.rejects[:KEPT_REJECTS]],
        digest=blake2b(text, digest_size=16).digest() if text else b"",
    )


def keep(staged: zarr.Group, name: str, arrays: dict[str, np.ndarray], **of_text: Any) -> PieceReport:
    """Keep the rows of a piece, the arrays that `parse` gives; its report, with what is known of the text."""
    y, rows = arrays.get("y"), len(arrays["line"])
    if rows:
        group = staged.create_group(name, overwrite=True)  # a worker that died may have begun it
        for key, array in arrays.items():
            _write(group, key, array)
    return PieceReport(
        name=name,
        rows=rows,
        labels=np.bincount(y, minlength=2) if y is not None else np.zeros(2, np.int64),
        sums=NumericSums.of(arrays["numeric"]),
        **of_text,
    )


def _trim(text: bytes) -> tuple[bytes, int]:
    """The text without the blank lines at its end, and their number."""
    if not text.endswith((b"\n\n", b"\n\r\n")) and text not in (b"\n", b"\r\n"):
        return text, 0
    end = len(text.rstrip(b"\r\n"))
    end = text.find(b"\n", end) + 1 if end else 0
    return text[:end], text.count(b"\n", end)


def _write(group: zarr.Group, name: str, array: np.ndarray) -> None:
    # One file per array; the codes of one column (a row here) can be read alone.
    layout: dict[str, Any] = (
        {"chunks": (1, array.shape[1]), "shards": array.shape} if name == "codes" else {"chunks": array.shape}
    )
    if array.size:
        kept = group.create_array(name, shape=array.shape, dtype=array.dtype, compressors=store.QUICK, **layout)
        kept[...] = array


def place(reports: Sequence[PieceReport], file: int, start: int) -> Iterator[Placed]:
    """Where the rows of one file's pieces belong, given the first one's row in the dataset."""
    line = 1
    for report in reports:
        if report.rows:
            yield Placed(report.name, file, start, start + report.rows, line)
        start, line = start + report.rows, line + report.lines


def file_rejects(reports: Sequence[PieceReport]) -> tuple[list[Reject], Counter]:
    """The rejects of one file, numbered from 1 in it, and their number by kind; blank lines at its end are none."""
    rejects, kinds, line = [], Counter[str](), 1
    last = max((i for i, report in enumerate(reports) if report.lines > report.blank), default=-1)
    for i, report in enumerate(reports):
        rejects += [Reject(line + r.line, r.kind, r.reason) for r in report.rejects]
        kinds += report.kinds
        line += report.lines
        if i < last and report.blank:
            kinds[BLANK[0]] += report.blank
            rejects += [Reject(n, *BLANK) for n in range(line - report.blank, line)[:KEPT_REJECTS]]
    return rejects, kinds


def create_tables(staged: zarr.Group, shape: tuple[int, int, int]) -> zarr.Array:
    """Create an array for the log odds of rows by fold: float32 (c, n_folds, n_buckets), one file per column."""
    return staged.create_array(
        "fold_values",
        shape=shape,
        dtype=np.float32,
        chunks=(1, *shape[1:]),
        compressors=store.QUICK,
    )


def count_columns(
    staged: zarr.Group,
    values: zarr.Array,
    pieces: Sequence[Placed],
    columns: range,
    random_state: int,
    smoothing: float,
) -> list[dict[str, np.ndarray]]:
    """Count labels by fold and bucket for some columns, walking all staged pieces; fill their part of `values`.

    Returns
    -------
    list of dict
        Per column {"counts", "sums": uint32 (n_buckets,), "moments": float64 (2, 2), "folds": int64 (2, n_folds)};
        "folds" holds the rows and the positive rows of each fold.
    """
    n_folds, n_buckets = values.shape[1:]
    counts, sums = (np.zeros((len(columns), n_folds, n_buckets), np.uint32) for _ in range(2))
    for piece in pieces:
        codes = store.read(store.array(staged, f"{piece.name}/codes"), columns.start, columns.stop)
        y = store.read(store.array(staged, f"{piece.name}/y"))
        folds = assign_folds(piece.start, piece.stop, n_folds, random_state)
        for j in range(len(columns)):
            count_labels(counts[j], sums[j], codes[j], y, folds)
    tables = []
    for column, count, positive in zip(columns, counts, sums, strict=True):
        values[column], moments = encode_one_way(count, positive, smoothing)
        tables.append(
            {
                "counts": count.sum(axis=0, dtype=np.uint32),
                "sums": positive.sum(axis=0, dtype=np.uint32),
                "moments": moments,
                "folds": np.stack([table.sum(axis=1, dtype=np.int64) for table in (count, positive)]),
            }
        )
    return tables


def read_rows(staged: zarr.Group, pieces: Sequence[Placed], start: int, stop: int) -> dict[str, np.ndarray]:
    """Rows start..stop of the dataset: the staged arrays (codes transposed), "file" and absolute "line" numbers."""
    parts: list[dict[str, np.ndarray]] = []
    for piece in pieces:
        first, last = max(start - piece.start, 0), min(stop, piece.stop) - piece.start
        if first >= last:
            continue
        arrays = {name: _slice(array, first, last) for name, array in store.subgroup(staged, piece.name).arrays()}
        arrays["line"] = arrays["line"].astype(np.int64) + piece.line
        parts.append(arrays | {"file": np.full(last - first, piece.file, np.uint16)})
    rows = {name: np.concatenate([p[name] for p in parts], axis=-1 if name == "codes" else 0) for name in parts[0]}
    return rows | {"codes": rows["codes"].T, "numeric": rows.get("numeric", np.empty((stop - start, 0), np.float32))}


def _slice(array: zarr.Array, first: int, last: int) -> np.ndarray:
    rows = slice(first, last)
    return store.take(array, slice(None), rows) if array.name.endswith("/codes") else store.take(array, rows)

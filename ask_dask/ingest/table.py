"""Tables of numbers, text with a header or Parquet -> a dataset store."""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from ask_dask import budget, compute, store
from ask_dask.errors import InputError, mask
from ask_dask.ingest import files as raw
from ask_dask.ingest.labels import counted
from ask_dask.ingest.sheets import Sheet, open_sheet
from ask_dask.ingest.values import LabelKind, features, label_kind, labels_as, weights

log = logging.getLogger("ask_dask")


@dataclass(frozen=True)
class Columns:
    """What each column of a table is."""

    features: tuple[str, ...]
    labels: tuple[str, ...]
    weight: str | None

    @property
    def all(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*self.features, *self.labels, *([self.weight] if self.weight else []))


def ingest_table(
    files: Sequence[str | Path],
    to: str | Path,
    *,
    labels: Sequence[str] = (),
    weight: str | None = None,
    drop: Sequence[str] = (),
    dtype: str = "float64",
    header: bool = True,
    memory: int | None = None,
    overwrite: bool = False,
    facts: dict[str, Any] | None = None,
) -> None:
    """Turn tables into a dataset store: every column is a feature, but for labels, the weight and what is dropped.

    Text has a header and is separated by tabs, commas or semicolons (found for each file); cells may be quoted, blank
    lines are ignored. Parquet is known by its name, .parquet or .pq. Files are read twice, a piece at a time: first
    the labels, to know what they are, then the rows.

    Parameters
    ----------
    files : sequence of path or URL
        Read in this order; text plain or compressed. All have the same columns, in any order.
    to : path
        The store to be made; nothing is there until it is whole. It holds X (N, d), and where there are such columns y
        (N,) or (N, L) and weight float64 (N,). y is int64 where all labels are whole numbers, else float64 where all
        are numbers, else text.
    labels : sequence of str
        The label columns; none for rows to be predicted.
    weight : str, optional
        The column of sample weights, finite and 0 or more.
    drop : sequence of str
        Columns to leave out.
    dtype : {"float64", "float32"}
        Of X.
    header : bool
        Whether text begins with the names of its columns; without, they are called 1, 2, ...
    memory : int, optional
        Bytes that this may take; refused at once when the plan needs more.
    overwrite : bool
        Replace a store that is there.
    facts : dict, optional
        JSON values to keep in the store.

    Raises
    ------
    InputError
        No such column, or a cell that is missing or not a finite number: names the file, the line (Parquet: the row)
        and the column.
    StoreError
        `to` exists, or cannot be written.
    BudgetError
        `memory` is too little.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "t.csv").write_text("height,kind,width\\n1,cat,2\\n3,dog,4\\n")
    >>> ingest_table([folder / "t.csv"], folder / "t.zarr", labels=["kind"])
    >>> group = store.open_store(folder / "t.zarr", "dataset")
    >>> group["X"][:].tolist(), group["y"][:].tolist(), store.about(group)["feature_names"]
    ([[1.0, 2.0], [3.0, 4.0]], ['cat', 'dog'], ['height', 'width'])
    """
    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype is {dtype!r}: give 'float32' or 'float64'.")
    paths = [str(file) for file in ([files] if isinstance(files, str | Path) else files)]
    if not paths:
        raise InputError("No table was given: give one file or more.")
    sheets = [open_sheet(file, header) for path in paths for file in parts_of(path)]
    columns = _columns(sheets, tuple(labels), weight, tuple(drop))
    if memory is not None:
        budget.check(table_plan, len(columns.features), memory, "features")
    with store.create(to, "dataset", overwrite) as group:
        steps: list[dict[str, Any]] = []
        with compute.measured(steps, "look"):
            n, kind = _look(sheets, columns)
        with compute.measured(steps, "write"):
            arrays = _create(group, columns, n, kind, dtype)
            written = _write(arrays, _rows(sheets, columns, arrays))
        described = {
            "format": "table",
            "n_rows": n,
            "n_features": len(columns.features),
            "feature_names": list(columns.features),
            "label_names": list(columns.labels),
            "files": [sheet.about() for sheet in sheets],
            "encoder_fingerprint": store.fingerprint(*columns.features),
            "steps": steps,
        }
        store.describe(group, **(facts or {}) | written | described)


def table_plan(n_features: int) -> budget.Plan:
    """Memory that `ingest_table` takes: a piece of text and its cells, and rows on their way into a shard, which zarr
    holds twice more while it writes them.

    >>> print(table_plan(30))
    text 448.0 MiB, rows 256.0 MiB
    """
    rows = 4 * max(budget.SHARD_BYTES, 8 * n_features * budget.BLOCK_ROWS)
    return budget.Plan({"text": 14 * raw.PIECE_BYTES, "rows": rows})


def _columns(sheets: list[Sheet], labels: tuple[str, ...], weight: str | None, drop: tuple[str, ...]) -> Columns:
    """What each column is; refuses names that no column has, and files whose columns differ."""
    first = sheets[0]
    labels, drop = (_whole_names(names, first.names) for names in (labels, drop))
    named = (*labels, *([weight] if weight else []), *drop)
    for name in named:
        if name not in first.names:
            raise InputError(f"{first.file.name} has no column {name!r}: it has {_listed(first.names)}.")
        if named.count(name) > 1:
            raise InputError(f"Column {name!r} is named twice among labels, weight and dropped columns: name it once.")
    for sheet in sheets[1:]:
        if differing := set(sheet.names) ^ set(first.names):
            raise InputError(
                f"{sheet.file.name} and {first.file.name} differ in {_listed(sorted(differing))}: give files with the "
                "same columns."
            )
    index = [name for sheet in sheets for name in sheet.index if name not in named]
    if index:
        log.warning("%s: column %r is the index of a data frame and not a feature.", first.file.name, index[0])
    left = tuple(name for name in first.names if name not in named and name not in index)
    if old := [name for name in left if re.fullmatch(r"Unnamed: \d+", name)]:
        raise InputError(f"{first.file.name}: column {old[0]!r} is a data frame's index: leave it out with --drop.")
    if not left:
        raise InputError(f"No column of {first.file.name} is left for a feature: it has {_listed(first.names)}.")
    return Columns(left, labels, weight)


def _whole_names(given: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names as columns have them: one that holds commas comes in parts from the command line.

    >>> _whole_names(("a", "income", "USD"), ("a", "income, USD"))
    ('a', 'income, USD')
    """
    found, rest = [], list(given)
    while rest:
        lengths = range(len(rest), 0, -1)
        joined = ((n, comma.join(rest[:n])) for n in lengths for comma in (",", ", "))
        n, name = next(((n, name) for n, name in joined if name in names), (1, rest[0]))
        found.append(name)
        rest = rest[n:]
    return tuple(found)


def parts_of(path: str) -> list[str]:
    """Return the Parquet files of a folder in the order of their numbers, or the file itself."""
    place = store.located(path)
    if not place.is_dir():
        return [path]
    names = sorted(store.files(place), key=lambda name: [int(part) if part.isdigit() else part
                                                         for part in re.split(r"(\d+)", name)])  # fmt: skip
    found = [name for name in names if name.endswith((".parquet", ".pq")) and not name.startswith(("_", "."))]
    if any("/" in name for name in found):
        raise InputError(f"{mask(path)} has folders with Parquet files in it: give the files.")
    return [f"{path.rstrip('/')}/{name}" for name in found] or [path]


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names[:10]]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _look(sheets: list[Sheet], columns: Columns) -> tuple[int, np.dtype]:
    """The number of rows, and the dtype that holds all labels."""
    n, kind, wanted = 0, LabelKind(), columns.labels or columns.features[:1]
    for sheet in sheets:
        for cells in sheet.read(wanted):
            n += len(cells.lines)
            for name, column in zip(columns.labels, cells.columns, strict=False):
                kind |= label_kind(cells, name, column)
    if not n:
        raise InputError(f"{sheets[0].file.name} has no rows: give a table with rows.")
    return n, kind.dtype


def _create(group: zarr.Group, columns: Columns, n: int, kind: np.dtype, dtype: str) -> dict[str, zarr.Array]:
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {"X": ((n, len(columns.features)), np.dtype(dtype))}
    if columns.labels:
        shapes["y"] = ((n,) if len(columns.labels) == 1 else (n, len(columns.labels)), kind)
    if columns.weight:
        shapes["weight"] = ((n,), np.float64)
    return store.create_aligned(group, shapes)


def _rows(sheets: list[Sheet], columns: Columns, arrays: dict[str, zarr.Array]) -> Iterator[dict[str, np.ndarray]]:
    """All rows, a piece at a time, as they are stored."""
    d, q = len(columns.features), len(columns.labels)
    for sheet in sheets:
        for cells in sheet.read(columns.all):
            rows = {"X": features(cells, columns.features, arrays["X"].dtype)}
            if columns.labels:
                y = [labels_as(column, arrays["y"].dtype) for column in cells.columns[d : d + q]]
                rows["y"] = y[0] if q == 1 else np.stack(y, axis=1)
            if columns.weight:
                rows["weight"] = weights(cells, columns.weight, cells.columns[-1])
            yield rows


def _write(arrays: dict[str, zarr.Array], pieces: Iterator[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Write all rows, whole shards at a time; the fingerprint of what was written, and the counts of labels."""
    X, parts, start = arrays["X"], [], 0
    counts: Counter[str] | None = Counter() if "y" in arrays and _are_classes(arrays["y"]) else None
    for rows in _rebatched(pieces, arrays, (X.shards or X.chunks)[0]):
        stop = start + len(rows["X"])
        if stop > X.shape[0]:
            break
        for name, array in arrays.items():
            array[start:stop] = rows[name]
        parts += [store.fingerprint(*(rows[name] for name in arrays))]
        if counts is not None:
            counts = counted(counts, rows["y"])
        start = stop
    else:
        if start == X.shape[0]:
            return {"fingerprint": store.fingerprint(*parts), "label_counts": dict(counts) if counts else None}
    raise InputError("A file changed while it was read: wait until it is complete, and start again.")


def _are_classes(y: zarr.Array) -> bool:
    return y.ndim == 1 and y.dtype.kind != "f"


def _rebatched(
    pieces: Iterator[dict[str, np.ndarray]], arrays: dict[str, zarr.Array], height: int
) -> Iterator[dict[str, np.ndarray]]:
    """Yield all rows in batches of `height`, the last one smaller; each batch overwrites the one before."""
    batch = {name: np.empty((height, *array.shape[1:]), array.dtype) for name, array in arrays.items()}
    filled = 0
    for piece in pieces:
        start, n = 0, len(piece["X"])
        while start < n:
            stop = min(n, start + height - filled)
            for name, values in piece.items():
                batch[name][filled : filled + stop - start] = values[start:stop]
            start, filled = stop, filled + stop - start
            if filled == height:
                yield batch
                filled = 0
    if filled:
        yield {name: values[:filled] for name, values in batch.items()}

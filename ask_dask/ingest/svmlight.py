"""SVMLight and LIBSVM text -> a dataset store of sparse rows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from ask_dask import budget, compute, store
from ask_dask.errors import InputError
from ask_dask.ingest import files as raw
from ask_dask.ingest.labels import counted
from ask_dask.ingest.pairs import LARGEST, Limits, PairReader
from ask_dask.ingest.values import LabelKind, are_whole
from ask_dask.sparse import SparseRows, SparseWriter, growing


def ingest_svmlight(
    files: Sequence[str | Path],
    to: str | Path,
    *,
    columns: int | None = None,
    zero_based: bool | None = None,
    dtype: str = "float64",
    memory: int | None = None,
    overwrite: bool = False,
    facts: dict[str, Any] | None = None,
) -> None:
    """Turn SVMLight or LIBSVM text into a dataset store whose rows stay sparse.

    A line is a label, perhaps qid:number, which is ignored, and index:value pairs with ascending indices; what follows
    a # is a comment, and blank lines are ignored. Files are read once, a piece at a time.

    Parameters
    ----------
    files : sequence of path or URL
        Read in this order, plain or compressed.
    to : path
        The store to be made; nothing is there until it is whole. It holds the group X, the rows in CSR as
        `ask_dask.sparse.SparseRows` reads them, and y (N,), int64 where all labels are whole numbers, else float64.
    columns : int, optional
        How many columns there are; by default as many as the largest index needs.
    zero_based : bool, optional
        Whether the first column has index 0 rather than 1; by default, whether any index is 0.
    dtype : {"float64", "float32"}
        Of the values.
    memory : int, optional
        Bytes that this may take; refused at once when the plan needs more.
    overwrite : bool
        Replace a store that is there.
    facts : dict, optional
        JSON values to keep in the store.

    Raises
    ------
    InputError
        A line is not what it must be: names the file and the line. No rows, or no values and so no columns.
    StoreError
        `to` exists, or cannot be written.
    BudgetError
        `memory` is too little.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "t.txt").write_text("+1 1:0.5 3:2\\n-1 2:1 # a comment\\n")
    >>> ingest_svmlight([folder / "t.txt"], folder / "t.zarr")
    >>> group = store.open_store(folder / "t.zarr", "dataset")
    >>> SparseRows(group["X"])[:].toarray().tolist(), group["y"][:].tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1, -1])
    """
    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype is {dtype!r}: give 'float32' or 'float64'.")
    if columns is not None and not 1 <= columns <= LARGEST:
        raise InputError(f"columns={columns} must be a number from 1 to {LARGEST}.")
    found = [raw.find(str(file)) for file in ([files] if isinstance(files, str | Path) else files)]
    if not found:
        raise InputError("No file was given: give one file or more.")
    if memory is not None:
        budget.check(svmlight_plan, 1, memory, "files")
    with store.create(to, "dataset", overwrite) as group:
        steps: list[dict[str, Any]] = []
        with compute.measured(steps, "read"):
            rows = _Rows(group, columns, zero_based, np.dtype(dtype))
            about = [rows.read(file) for file in found]
            X = rows.close(found)
        with compute.measured(steps, "labels"):
            labels = _write_labels(group, X)
        described = {
            "format": "svmlight",
            "n_rows": X.shape[0],
            "n_features": X.shape[1],
            "n_values": X.nnz,
            "zero_based": not rows.first,
            "files": about,
            "label_counts": labels.pop("counts"),
            "encoder_fingerprint": store.fingerprint("svmlight", X.shape[1], rows.first),
            "fingerprint": store.fingerprint(rows.writer.fingerprint, X.shape[1], labels["fingerprint"]),
            "steps": steps,
        }
        store.describe(group, **(facts or {}) | described)


def svmlight_plan(n_files: int = 1) -> budget.Plan:
    """Memory that `ingest_svmlight` takes, one file after another: a piece of text and its entries, and shards.

    >>> print(svmlight_plan())
    text 448.0 MiB, rows 384.0 MiB
    """
    return budget.Plan({"text": 14 * raw.PIECE_BYTES, "rows": 6 * budget.SHARD_BYTES})


class _Rows:
    """What is read so far, on its way into a store.

    Attributes
    ----------
    first : {0, 1}
        The index of the first column. Where it is to be found out it is 1 until an index 0 is there.
    """

    def __init__(self, group: zarr.Group, columns: int | None, zero_based: bool | None, dtype: np.dtype) -> None:
        self.group, self.columns, self.unsure = group, columns, zero_based is None
        self.first, self.largest = 0 if zero_based else 1, 0
        self.dtype = dtype
        self.writer = SparseWriter(group.create_group("X"), dtype)
        (self.labels,) = growing(group, read=np.float64)

    @property
    def limits(self) -> Limits:
        """What the next piece may hold."""
        least = 0 if self.unsure else self.first
        return Limits(least, LARGEST if self.columns is None else self.columns - 1 + self.first, self.dtype)

    def read(self, file: raw.RawFile) -> dict[str, Any]:
        """Append the rows of a file; what a store keeps of it."""
        reader = PairReader(file, self.limits)
        for X, y in reader.read():
            if X.nnz:
                self._look(int(X.indices.min()), int(X.indices.max()))
                reader.limits = self.limits
            self.writer.add(X.data, X.indices - self.first, np.diff(X.indptr))
            self.labels.add(y)
        return reader.about()

    def _look(self, smallest: int, largest: int) -> None:
        self.largest = max(self.largest, largest)
        if self.unsure and self.first and not smallest:
            self.first = 0
            self.writer.shift(1)

    def close(self, found: list[raw.RawFile]) -> SparseRows:
        """Write what is left; the rows."""
        if not self.writer.n_rows:
            raise InputError(f"{found[0].name} has no rows: give a file with rows.")
        if self.largest > self.limits.last:  # an index 0 came after it, and so it is one too many
            for file in found:
                list(PairReader(file, self.limits).read())
        columns = self.columns or self.largest + 1 - self.first
        if not columns:
            raise InputError(f"{found[0].name} has no index:value pair: give --columns, how many columns there are.")
        self.writer.close(columns)
        self.labels.close()
        return SparseRows(self.group["X"])  # type: ignore[arg-type]


def _write_labels(group: zarr.Group, X: SparseRows) -> dict[str, Any]:
    """Labels as they were read -> y, whole numbers where all are, cut as the rows are; their fingerprint and counts."""
    read = store.array(group, "read")
    kind = LabelKind(0 if all(are_whole(values).all() for _, values in _parts(read)) else 1).dtype
    y = store.create_aligned(group, {"y": (read.shape, kind)}, like=X)["y"]
    prints, counts = [], Counter[str]() if kind.kind == "i" else None
    for rows, values in _parts(read, y.shards[0]):  # type: ignore[index]
        y[rows] = values.astype(kind)
        prints.append(store.fingerprint(values.astype(kind)))
        counts = counted(counts, values.astype(kind))
    del group["read"]
    return {"fingerprint": store.fingerprint(*prints), "counts": dict(counts) if counts else None}


def _parts(array: zarr.Array, height: int | None = None) -> Iterator[tuple[slice, np.ndarray]]:
    height = height or (array.shards or array.chunks)[0]
    for start in range(0, array.shape[0], height):
        yield slice(start, min(start + height, array.shape[0])), store.read(array, start, start + height)

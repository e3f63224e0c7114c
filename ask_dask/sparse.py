"""Sparse rows (CSR) in a store: written as they come, read a range of rows at a time, never dense.

The arrays `data` and `indices` hold the entries of all rows one after another, `indptr` where each row starts, so any
range of rows is found by a seek and reads only the chunks that hold it.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
import zarr

from ask_dask import budget, store
from ask_dask.errors import StoreError


def row_bytes(X: Any) -> int:
    """Bytes that a row of an input takes in memory; of a sparse one, those of a row of average length.

    >>> row_bytes(np.zeros((5, 3))), row_bytes(sp.eye(4, 1_000_000, format="csr"))
    (24, 20)
    """
    if not is_sparse(X):
        return int(X.shape[1]) * X.dtype.itemsize
    return 8 + X.nnz * (X.dtype.itemsize + 4) // max(X.shape[0], 1)


def is_sparse(X: Any) -> bool:
    """Whether X is sparse, in memory or in a store."""
    return sp.issparse(X) or isinstance(X, SparseRows)


def checked(place: str, parts: tuple[np.ndarray, ...], shape: tuple[int, ...], what: str = "") -> sp.csr_matrix:
    """The CSR matrix of (data, indices, indptr) that a store holds.

    Compiled code trusts their numbers, and writes where they point, so a stranger's must be looked at.

    Raises
    ------
    StoreError
        They are not those of a matrix of this shape.
    """
    try:
        if parts[0].dtype.kind not in "biuf":
            raise ValueError(f"its data are of dtype {parts[0].dtype}")
        matrix = sp.csr_matrix(parts, shape=shape)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise StoreError(f"{place} is damaged ({what}{error}): make the store again.") from error
    return matrix


class SparseRows:
    """A sparse matrix in a store, read-only: X[start:stop] and X[rows] are blocks of rows in memory.

    Attributes
    ----------
    shape : (N, d)
    dtype : float32 or float64
    nnz : int
        Stored entries.
    chunks, shards : (rows, d)
        As a zarr array has them: what is read at once, and the unit of work, of rows of average length.

    Raises
    ------
    StoreError
        The group is not one that `SparseWriter` wrote, or is damaged.

    Examples
    --------
    >>> import zarr
    >>> group = zarr.group()
    >>> writer = SparseWriter(group, np.float64)
    >>> writer.add(np.array([5.0, 7.0]), np.array([2, 0]), np.array([1, 0, 1]))
    >>> writer.close(n_columns=3)
    >>> X = SparseRows(group)
    >>> X.shape, X.nnz, X[1:3].toarray().tolist(), X[[2, 0]].toarray().tolist()
    ((3, 3), 2, [[0.0, 0.0, 0.0], [7.0, 0.0, 0.0]], [[7.0, 0.0, 0.0], [0.0, 0.0, 5.0]])
    """

    ndim = 2

    def __init__(self, group: zarr.Group) -> None:
        self._place, self.store_path = store.place(group), group.store_path
        self._data, self._indices, self._indptr = (store.array(group, name) for name in ("data", "indices", "indptr"))
        n_columns = store.about(group).get("n_columns")
        if not isinstance(n_columns, int) or self._data.shape != self._indices.shape or not len(self._indptr.shape):
            raise self._damaged("its arrays do not belong together")
        self.shape = (self._indptr.shape[0] - 1, n_columns)
        self.dtype, self.nnz = self._data.dtype, int(self._data.shape[0])
        self.chunks = (budget.chunk_rows(row_bytes(self)), n_columns)
        self.shards = (budget.shard_rows(row_bytes(self)), n_columns)

    def __getitem__(self, rows: Any) -> sp.csr_matrix:
        if not isinstance(rows, slice):
            return self._take(np.asarray(rows))
        start, stop, step = rows.indices(self.shape[0])
        return self._read(start, max(start, stop)) if step == 1 else self._take(np.arange(start, stop, step))

    def _read(self, start: int, stop: int) -> sp.csr_matrix:
        indptr = store.read(self._indptr, start, stop + 1)
        first, last = int(indptr[0]), int(indptr[-1])
        if not 0 <= first <= last <= self.nnz:
            raise self._damaged(f"rows {start} to {stop} are not in it")
        parts = store.read(self._data, first, last), store.read(self._indices, first, last), indptr - first
        return checked(self._place, parts, (stop - start, self.shape[1]), f"rows {start} to {stop}, ")

    def _take(self, rows: np.ndarray) -> sp.csr_matrix:
        """Rows in any order, from one shard after another."""
        n = self.shape[0]
        if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
            raise TypeError(f"Rows are taken by a slice or by whole numbers (n,), not {rows.dtype} {rows.shape}.")
        if rows.size and not -n <= rows.min() <= rows.max() < n:
            raise IndexError(f"There are {n} rows, and row {rows.min()} or {rows.max()} is none of them.")
        rows = np.where(rows < 0, rows + n, rows).astype(np.int64)
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        cuts = np.flatnonzero(np.diff(ordered // self.shards[0])) + 1
        parts = [self._read(part[0], part[-1] + 1)[part - part[0]] for part in np.split(ordered, cuts) if len(part)]
        return sp.vstack(parts, format="csr")[np.argsort(order)] if parts else self._read(0, 0)

    def _damaged(self, why: str) -> StoreError:
        return StoreError(f"{self._place} is damaged ({why}): make the store again.")


def rows_of(group: zarr.Group, name: str = "X") -> zarr.Array | SparseRows:
    """The rows of a dataset store, dense or sparse.

    Raises
    ------
    StoreError
        The store lacks them, or they are damaged.
    """
    found = group.get(name)
    return SparseRows(found) if isinstance(found, zarr.Group) else store.array(group, name)


def read(X: zarr.Array | SparseRows, start: int, stop: int) -> np.ndarray | sp.csr_matrix:
    """Rows start..stop of what `rows_of` found.

    Raises
    ------
    StoreError
        A chunk is damaged.
    """
    return X[start:stop] if isinstance(X, SparseRows) else store.read(X, start, stop)


class Growing:
    """A one-dimensional array of a store that is appended to, written in whole shards as they fill.

    Memory does not grow with its length: at most a shard is held between two calls.

    Attributes
    ----------
    length : int
        Of what was added.
    fingerprints : list of str
        Of its shards, so independent of how it was added; complete once closed.

    Examples
    --------
    >>> (ends,) = growing(zarr.group(), ends=np.int64)
    >>> ends.add(np.array([1, 2]))
    >>> ends.add(np.array([3]))
    >>> ends.close()
    >>> ends.array[:]
    array([1, 2, 3])
    """

    def __init__(self, array: zarr.Array) -> None:
        self.array, self.length = array, 0
        self.fingerprints: list[str] = []
        self._held: list[np.ndarray] = []
        self._height = (array.shards or array.chunks)[0]

    @property
    def _written(self) -> int:
        return self._height * len(self.fingerprints)

    def add(self, values: np.ndarray) -> None:
        """Append values (n,)."""
        self._held.append(values.astype(self.array.dtype, copy=False))
        self.length += len(values)
        if self.length - self._written >= self._height:
            held = np.concatenate(self._held)
            full = len(held) // self._height * self._height
            for start in range(0, full, self._height):
                self._write(held[start : start + self._height])
            self._held = [held[full:].copy()]

    def _write(self, values: np.ndarray) -> None:
        start = self._written
        if self.array.shape[0] < start + len(values):
            self.array.resize((start + len(values),))
        self.array[start : start + len(values)] = values
        self.fingerprints.append(store.fingerprint(values))

    def shift(self, by: int) -> None:
        """Add a number to all that was added."""
        self._held = [part + self.array.dtype.type(by) for part in self._held]
        for number, start in enumerate(range(0, self._written, self._height)):
            values = store.read(self.array, start, start + self._height) + self.array.dtype.type(by)
            self.array[start : start + self._height] = values
            self.fingerprints[number] = store.fingerprint(values)

    def close(self) -> None:
        """Write what is left, and cut the array to its length."""
        rest = np.concatenate(self._held) if self._held else np.empty(0, self.array.dtype)
        if len(rest):
            self._write(rest)
        self._held = []
        self.array.resize((self.length,))


def growing(group: zarr.Group, **dtypes: Any) -> list[Growing]:
    """Empty arrays {name: dtype} of one length, whatever it comes to be."""
    height = budget.shard_rows(max(np.dtype(kind).itemsize for kind in dtypes.values()))
    arrays = store.create_aligned(group, {name: ((height,), kind) for name, kind in dtypes.items()})
    return [Growing(array) for array in arrays.values()]


class SparseWriter:
    """Rows (CSR) -> a group that `SparseRows` reads, in memory that does not grow with their number."""

    def __init__(self, group: zarr.Group, dtype: Any) -> None:
        self._group = group
        self._data, self._indices = growing(group, data=dtype, indices=np.int32)
        (self._indptr,) = growing(group, indptr=np.int64)
        self._indptr.add(np.zeros(1))

    @property
    def n_rows(self) -> int:
        """Rows added so far."""
        return self._indptr.length - 1

    def add(self, data: np.ndarray, indices: np.ndarray, lengths: np.ndarray) -> None:
        """Append rows: their entries and columns (e,), and how many each row has (n,)."""
        self._indptr.add(self._data.length + np.cumsum(lengths))
        self._data.add(data)
        self._indices.add(indices)

    def shift(self, by: int) -> None:
        """Move all rows added so far by so many columns."""
        self._indices.shift(by)

    def close(self, n_columns: int) -> None:
        """Write what is left."""
        for part in (self._data, self._indices, self._indptr):
            part.close()
        store.describe(self._group, n_columns=n_columns)

    @property
    def fingerprint(self) -> str:
        """Of what was written, once closed."""
        parts = (self._data, self._indices, self._indptr)
        return store.fingerprint(*(print_ for part in parts for print_ in part.fingerprints))

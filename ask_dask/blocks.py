"""C = K[:, J] and R = K[I, :] as lazily evaluated row blocks: the walk over shards of rows that everything shares.

An input (NumPy, SciPy sparse, dask, zarr, sparse rows in a store) becomes a list of shards, each one delayed block of
a few ten thousand rows; a task works on one whole shard, in blocks of `budget.BLOCK_ROWS` rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
import zarr
from dask.delayed import Delayed

from ask_dask import budget, compute, landmarks, sparse, store
from ask_dask.errors import InputError
from ask_dask.kernels.base import Block, Kernel, LandmarkKernel, products
from ask_dask.kernels.points import as_floats
from ask_dask.sparse import SparseRows

PARTS = 16
"""Shards of an input that has few, so that workers share them; a power of two, since sums are made in pairs."""

FEWEST = 4
"""Shards that are made where rows allow it, though sums of more rows would be faster."""


@dataclass(frozen=True)
class Shard:
    """Rows start..stop of an input, as a delayed block."""

    start: int
    stop: int
    block: Delayed


def shards(X: Any, rows: int | None = None, per_row: int | None = None) -> list[Shard]:
    """Cut an input into shards.

    Parameters
    ----------
    X : ndarray, scipy.sparse, dask array, zarr array or SparseRows, shape (N, d)
    rows : int, optional
        Rows per shard, by default `height(X, per_row)`.
    per_row : as in `height`

    Examples
    --------
    >>> [(s.start, s.stop) for s in shards(np.zeros((5, 2)), rows=2)]
    [(0, 2), (2, 4), (4, 5)]
    >>> len(shards(np.zeros((5000, 2)), per_row=20))
    1
    """
    rows = rows or height(X, per_row)
    if isinstance(X, da.Array):
        X = X.rechunk({0: rows, 1: -1})
        stops = np.cumsum(X.chunks[0])
        return [
            Shard(int(stop - size), int(stop), block)
            for stop, size, block in zip(stops, X.chunks[0], X.to_delayed(optimize_graph=True).ravel(), strict=True)
        ]
    bounds = [(start, min(start + rows, X.shape[0])) for start in range(0, X.shape[0], rows)]
    if isinstance(X, zarr.Array | SparseRows):
        load = compute.task(sparse.read)
        return [Shard(start, stop, load(X, start, stop)) for start, stop in bounds]
    return [Shard(start, stop, _constant(X[start:stop])) for start, stop in bounds]


def height(X: Any, per_row: int | None = None, summed: int = 1) -> int:
    """Return the rows of a shard: about 64 MiB of rows, or fewer where that would be few shards.

    The number of workers and the chunks of a store do not matter, since sums over shards would otherwise depend on
    them.

    Parameters
    ----------
    X : as in `shards`
    per_row : int, optional
        Kernel entries that are computed of each row: a shard has enough of them to be worth a task.
    summed : int
        Rows whose sum takes no longer to add than to make. Shards have as many where `FEWEST` of them do.

    Examples
    --------
    >>> height(np.zeros((100_000, 2))), height(np.zeros((100_000, 2)), summed=20_000), height(np.zeros((3000, 2)))
    (6250, 25000, 2048)
    """
    n, most = X.shape[0], most_rows(X)
    if n > PARTS * most:
        return most
    worth, parts = max(budget.BLOCK_ROWS, budget.TASK_ENTRIES // per_row if per_row else 1), PARTS
    while parts > FEWEST and n < parts * summed:
        parts //= 2
    return min(most, max(worth, -(-n // parts)))


def most_rows(X: Any) -> int:
    """Return the rows that a task may hold: about 64 MiB.

    >>> most_rows(np.zeros((5, 64))) * 64 * 8 >> 20
    64
    """
    return budget.shard_rows(sparse.row_bytes(X))


def cut(X: Any, n_landmarks: int) -> dict[str, Any]:
    """How a pass cuts the rows of an input, in numbers and in words.

    >>> cut(np.zeros((500, 2)), 1000)
    {'shards': 1, 'shard_rows': 500, 'block_rows': 512, 'cut': '1 shard of 500 rows, in blocks of 512'}
    """
    rows, block = min(X.shape[0], height(X)), budget.cache_rows(n_landmarks)
    count = -(-X.shape[0] // rows)
    words = f"{count:,} shard{'s' * (count > 1)} of {rows:,} rows, in blocks of {block:,}"
    return {"shards": count, "shard_rows": rows, "block_rows": block, "cut": words}


def _constant(value: Any) -> Delayed:
    return compute.shared(value)


def map_rows(X: Any, function: Callable[[Block], np.ndarray], n_columns: int, label: str | None) -> Any:
    """`function(block)` of every row: (N, n_columns), a lazy dask array for dask and rows in a store, else an ndarray.

    `function` must give each row alone, since the blocks it sees depend on the chunking.
    """
    if isinstance(X, zarr.Array):
        X = da.from_array(store.Readable(X), chunks=(height(X), -1), name=False, inline_array=True)
    dtype = np.result_type(X.dtype, np.float32)
    if isinstance(X, SparseRows):
        return lazy_rows(X, function, n_columns)
    if isinstance(X, da.Array):
        X = X.rechunk({1: -1})
        chunks, meta = (X.chunks[0], (n_columns,)), np.empty((0, 0), dtype)
        return X.map_blocks(partial(_located, function=function), dtype=dtype, chunks=chunks, meta=meta)
    task = compute.task(_checked)
    parts = compute.run([task(shard.block, function, shard.start) for shard in shards(X)], label)
    return np.concatenate(parts) if parts else np.empty((0, n_columns), dtype)


def lazy_rows(X: Any, function: Callable[[Block], np.ndarray], n_columns: int, per_row: int | None = None) -> da.Array:
    """`function(block)` of every row of any input, as a dask array (N, n_columns) that is not computed yet.

    `per_row` is as in `shards`.
    """
    task, shared = compute.task(_checked), _constant(function)
    dtype = np.result_type(X.dtype, np.float32)
    rows = None
    if isinstance(X, SparseRows):  # few bytes a row: what is made of a shard of them may be far larger than a shard
        rows = min(height(X), budget.shard_rows(n_columns * dtype.itemsize))
    parts = [
        da.from_delayed(task(shard.block, shared, shard.start), (shard.stop - shard.start, n_columns), dtype)
        for shard in shards(X, rows, per_row)
    ]
    if len(parts) == 1:
        return parts[0]
    return da.concatenate(parts) if parts else da.empty((0, n_columns), dtype=dtype)


def write_rows(group: zarr.Group, name: str, X: Any, function: Callable[[Block], np.ndarray], n_columns: int) -> str:
    """Write `function(block)` of every row into a new array (N, n_columns), a task a shard; return its fingerprint."""
    dtype = np.result_type(X.dtype, np.float32)
    out = store.create_aligned(group, {name: ((X.shape[0], n_columns), dtype)}, most=height(X))[name]
    task = compute.task(_write_shard)
    shared = compute.shared((out, function))
    tasks = [task(shared, shard.block, shard.start) for shard in shards(X, (out.shards or out.chunks)[0])]
    return store.fingerprint(*compute.run(tasks, name))


def _write_shard(shared: tuple[zarr.Array, Callable[[Block], np.ndarray]], block: Block, start: int) -> str:
    out, function = shared
    values = _checked(block, function, start).astype(out.dtype, copy=False)
    out[start : start + len(values)] = values
    return store.fingerprint(values)


def _located(block: Block, function: Callable[[Block], np.ndarray], block_info: Any = None) -> np.ndarray:
    return _checked(block, function, block_info[0]["array-location"][0][0])


def _checked(block: Block, function: Callable[[Block], np.ndarray], first_row: int) -> np.ndarray:
    require_finite(block, first_row)
    return function(block)


def take_rows(X: Any, rows: np.ndarray) -> Block:
    """Rows of an input in the order asked, as a plain block: one task per shard that holds any of them."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return X[rows]
    order = np.argsort(rows, kind="stable")
    ordered, parts = rows[order], []
    stored = isinstance(X, zarr.Array | SparseRows)
    task = compute.task(_take_stored if stored else _take)
    for shard in shards(X):
        first, last = np.searchsorted(ordered, (shard.start, shard.stop))
        if first < last:
            here = ordered[first:last]
            parts.append(task(X, here) if stored else task(shard.block, here - shard.start))
    return _stacked(compute.run(parts, "landmarks"))[np.argsort(order)]


def _take(block: Block, rows: np.ndarray) -> Block:
    return block[rows]


def _take_stored(X: zarr.Array | SparseRows, rows: np.ndarray) -> Block:
    """Increasing rows of what lies in a store: of a shard, only the chunks that hold any are read."""
    height = X.chunks[0]
    chunks, firsts = np.unique(rows // height, return_index=True)
    starts = chunks * height
    return _stacked([
        sparse.read(X, int(start), min(int(start) + height, X.shape[0]))[here - start]
        for start, here in zip(starts, np.split(rows, firsts[1:]), strict=True)
    ])  # fmt: skip


def _stacked(parts: Sequence[Block]) -> Block:
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def row_blocks(block: Block, rows: int = budget.CACHE_ROWS) -> Iterator[slice]:
    """Slices that cut a shard's rows into kernel blocks that stay in cache.

    >>> [s.stop for s in row_blocks(np.zeros((5, 1)), 2)]
    [2, 4, 5]
    """
    n = block.shape[0]
    for start in range(0, n, rows):
        yield slice(start, min(start + rows, n))


def require_finite(block: Block, rows: int | np.ndarray) -> None:
    """Raise InputError naming the row and column of the first NaN, infinity or number whose square overflows.

    `rows` holds the row numbers of the block in the input, or is the first of consecutive ones.
    """
    values = (block.data if sp.issparse(block) else block).ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(values, values)):
            return
    largest = np.sqrt(np.finfo(values.dtype).max / (4 * block.shape[1]))
    bad = np.flatnonzero(~(np.abs(values) < largest))
    if len(bad):
        row, column = _place(block, int(bad[0]))
        value = values[bad[0]]
        found = "NaN" if np.isnan(value) else "infinity" if np.isinf(value) else f"{value:g}, too large to be squared"
        number = rows[row] if isinstance(rows, np.ndarray) else rows + row
        raise InputError(
            f"Input X contains {found}, first in row {number}, column {column}: impute, scale or remove such rows."
        )


def _place(block: Block, entry: int) -> tuple[int, int]:
    """Row and column of an entry of a block's values."""
    if not sp.issparse(block):
        return divmod(entry, block.shape[1])
    return int(np.searchsorted(block.indptr, entry, "right")) - 1, int(block.indices[entry])


def asymmetry(kernel: Kernel, X: Any, n_rows: int = 2000, random_state: int = 0) -> float:
    """||K - K'|| / ||K|| (Frobenius) of K = k(X, X) on a seeded sample of rows: 0 when symmetric, at most 2.

    A kernel without negative values has at most sqrt(2), where no pair of points is similar both ways. One that is
    normalised over the data takes the sample as its targets.

    Parameters
    ----------
    X : numpy, scipy.sparse, dask, zarr or SparseRows, (N, d)

    Examples
    --------
    >>> from ask_dask.kernels import RBF, SNE
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> round(asymmetry(RBF(), X), 3), round(asymmetry(SNE(), X), 3)
    (0.0, 0.006)
    """
    points = take_rows(X, landmarks.uniform(X.shape[0], min(n_rows, X.shape[0]), random_state))
    return relative_asymmetry(kernel(points, points))


def relative_asymmetry(K: np.ndarray) -> float:
    """||K - K'|| / ||K|| of a matrix, 0 for a zero one."""
    K = K.astype(np.float64, copy=False)
    norm = np.linalg.norm(K)
    return float(np.linalg.norm(K - K.T) / norm) if norm else 0.0


def features(
    block: Block, columns: Callable[[Block], np.ndarray], coefficients: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Kernel columns of a block of rows times coefficients, less offsets.

    Parameters
    ----------
    block : (n, d)
    columns : callable
        `source` or `target` of a LandmarkKernel.
    coefficients : (m, r) float64
    offsets : (r,)

    Returns
    -------
    (n, r) array, in the precision of the block and float32 at least
    """
    out = np.empty((block.shape[0], coefficients.shape[1]), np.result_type(block.dtype, np.float32))
    with compute.one_blas_thread():
        for rows in row_blocks(block, budget.cache_rows(len(coefficients))):
            out[rows] = compute.product(columns(block[rows]), coefficients) - offsets
    return out


def discriminants(
    block: Block, kernel: LandmarkKernel, source: np.ndarray, target: np.ndarray, intercepts: np.ndarray
) -> np.ndarray:
    """f_s and f_t of a block of rows side by side.

    Parameters
    ----------
    block : (n, d)
    source, target : (|J|, q) and (|I|, q) float64
        Coefficients of k(x, z_j) in f_s and of k(x_i, x) in f_t.
    intercepts : (2, q)

    Returns
    -------
    (n, 2 q) array: f_s then f_t
    """
    q = source.shape[1]
    out = np.empty((block.shape[0], 2 * q), np.result_type(block.dtype, np.float32))
    with compute.one_blas_thread():
        for rows in row_blocks(block, budget.cache_rows(max(len(source), len(target)))):
            f_source, f_target = products(kernel, block[rows], source, target)
            out[rows, :q] = f_source + intercepts[0]
            out[rows, q:] = f_target + intercepts[1]
    return out


KEPT = ("C", "R_columns")
"""Arrays of a store of blocks, (N, |J|) and (M, |I|)."""


class LandmarkBlocks:
    """Blocks C = K[:, J], R = K[I, :] and W = K[I, J] of a kernel matrix K = k(X, Z) at landmarks, as dask arrays.

    C and R are evaluated when they are computed, a shard of rows at a time, or read from where `to_zarr` has kept them.
    Both have the same bits. The asymmetric Nystroem approximation of K is C pinv(W) R.

    Parameters
    ----------
    kernel : Kernel
    X : numpy, scipy.sparse, dask or zarr, (N, d)
        Sources.
    Z : the same, (M, d), optional
        Targets; None is X.
    landmarks : int, (n,) row numbers, or a pair of either, default 1000
        Row landmarks I of X and column landmarks J of Z. A number is drawn uniformly. One value serves both, and where
        Z is None both are then the same rows.
    random_state : int, default 0

    Attributes
    ----------
    C : dask array (N, |J|)
    R : dask array (|I|, M)
        Both in the precision of their rows, float32 at least; their chunks are the shards of X and Z.
    W : (|I|, |J|) float64
    row_landmarks, column_landmarks : int64 arrays
        I and J.

    Raises
    ------
    InputError
        X or Z holds NaN or infinity, or there are no such landmarks.

    See Also
    --------
    AsymmetricNystroem : the features that follow from these blocks.
    KSVD : the singular vectors of the approximation.

    Examples
    --------
    >>> from ask_dask.kernels import SNE
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> blocks = LandmarkBlocks(SNE(1.0), X, landmarks=20)
    >>> blocks.C.shape, blocks.R.shape, blocks.W.shape
    ((500, 20), (20, 500), (20, 20))
    >>> (blocks.C.T @ blocks.C).compute().shape
    (20, 20)
    """

    def __init__(self, kernel: Kernel, X: Any, Z: Any = None, landmarks: Any = 1000, random_state: int = 0) -> None:
        X = X if is_lazy(X) else as_floats(X)
        Z = X if Z is None else Z if is_lazy(Z) else as_floats(Z)
        if X.ndim != 2 or Z.ndim != 2 or X.shape[1] != Z.shape[1] or not (X.shape[0] and Z.shape[0]):
            raise InputError(
                f"X is of shape {X.shape} and Z of {Z.shape}: give rows, (N, d) and (M, d), of equal width."
            )
        pair = landmarks if isinstance(landmarks, tuple) else (landmarks, landmarks)
        if len(pair) != 2:
            raise InputError(f"landmarks has {len(pair)} parts: give a pair, those of X and those of Z.")
        self.row_landmarks, self.column_landmarks = (
            _chosen(given, side.shape[0], random_state + (role if Z is not X else 0))
            for role, (given, side) in enumerate(zip(pair, (X, Z), strict=True))
        )
        rows = take_rows(X, self.row_landmarks)
        same = Z is X and np.array_equal(self.row_landmarks, self.column_landmarks)
        columns = rows if same else take_rows(Z, self.column_landmarks)
        targets = take_rows(Z, np.arange(Z.shape[0])) if kernel.needs_targets else None
        at, exact = kernel.at(rows, columns, Z.shape[0], targets), rows.astype(np.float64)
        self.W = kernel.at(exact, exact if same else columns.astype(np.float64), Z.shape[0], targets).source(exact)
        self._bind(((X, at.source, len(self.column_landmarks)), (Z, at.target, len(self.row_landmarks))))

    def _bind(self, sides: tuple[tuple[Any, Callable[[Block], np.ndarray], int], ...]) -> None:
        """Keep for each role its rows, the function that turns a block of them into columns, and how many columns."""
        self._sides = sides
        self.C, columns = (lazy_rows(*side) for side in sides)
        self.R = columns.T

    def to_zarr(self, path: Any, overwrite: bool = False) -> "LandmarkBlocks":
        """Keep the blocks in a store, R by its columns, and return them as they are read from there.

        Raises
        ------
        StoreError
            Something is there already, or the place cannot be written.
        """
        with store.create(path, "blocks", overwrite) as group:
            prints = [write_rows(group, name, *side) for name, side in zip(KEPT, self._sides, strict=True)]
            for name in ("W", "row_landmarks", "column_landmarks"):
                store.write_array(group, name, getattr(self, name))
            store.describe(group, fingerprint=store.fingerprint(*prints, self.W))
        return self.from_zarr(path)

    @classmethod
    def from_zarr(cls, path: Any) -> "LandmarkBlocks":
        """Return the blocks that `to_zarr` has kept.

        Raises
        ------
        StoreError
            The store is missing or damaged.
        """
        group, found = store.open_store(path, "blocks"), cls.__new__(cls)
        for name in ("W", "row_landmarks", "column_landmarks"):
            setattr(found, name, store.read(store.array(group, name)))
        kept = (store.array(group, name) for name in KEPT)
        found._bind(tuple((array, _as_it_is, array.shape[1]) for array in kept))
        return found


def _as_it_is(block: Block) -> Block:
    return block


def is_lazy(X: Any) -> bool:
    """Return whether X stays out of memory: a dask array, a zarr array or sparse rows in a store."""
    return isinstance(X, da.Array | zarr.Array | SparseRows)


def _chosen(given: Any, n: int, random_state: int) -> np.ndarray:
    """Return row numbers: those given, or as many as asked, drawn uniformly."""
    if np.ndim(given) == 0:
        if not isinstance(given, int | np.integer) or isinstance(given, bool) or given < 1:
            raise InputError(f"landmarks={given!r}: give a whole number above 0, row numbers, or a pair of either.")
        return landmarks.uniform(n, min(int(given), n), random_state)
    numbers = np.asarray(given)
    whole = numbers.ndim == 1 and len(numbers) > 0 and numbers.dtype.kind in "iu"
    if not whole or numbers.min() < 0 or numbers.max() >= n:
        raise InputError(f"landmarks are row numbers from 0 to {n - 1}: give a list of them, or how many there are.")
    return numbers.astype(np.int64)

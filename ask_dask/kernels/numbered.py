"""Kernels over points without coordinates: X holds their numbers, shape (n, 1), and the kernel a matrix over all.

So splitting, cross-validation, landmarks and the prediction of points that were not trained on work as for any other X.
The matrix stays what it is (dense, scipy.sparse, dask or zarr): only the blocks asked for are made dense.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import zarr

from ask_dask import compute, store
from ask_dask.errors import InputError
from ask_dask.kernels.base import Block, Kernel


@dataclass(frozen=True, eq=False)
class Precomputed(Kernel):
    """k(i, j) = K[i, j] for points that are row and column numbers of a matrix.

    Parameters
    ----------
    K : (N, M) ndarray, scipy.sparse, dask or zarr array, or edge list
        An edge list is an (E, 2) or (E, 3) array of (row, column[, value]); entries that are not listed are 0.

    Raises
    ------
    InputError
        K is not a matrix of numbers; a point's number outside it; a NaN or infinity in a block that is used.

    Examples
    --------
    >>> k = Precomputed(np.array([[1.0, 0.5], [0.0, 1.0]]))
    >>> k(np.array([[1], [0]]), np.array([[1]]))
    array([[1. ],
           [0.5]])
    """

    K: Any = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "K", as_matrix(self.K))

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.K.shape

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        rows, columns = numbers(X, self.K.shape[0]), numbers(Z, self.K.shape[1])
        block = take(self.K, rows, columns).astype(_dtype(X), copy=False)
        if not np.isfinite(block).all():
            row, column = np.argwhere(~np.isfinite(block))[0]
            raise InputError(
                f"K[{rows[row]}, {columns[column]}] is {block[row, column]}: every entry of a kernel must be finite."
            )
        return block

    def sparse(self, X: Block, Z: Block) -> Any:
        """The block as CSR where K is sparse."""
        if not sp.issparse(self.K):
            return None
        block = self.K[numbers(X, self.K.shape[0])][:, numbers(Z, self.K.shape[1])]
        return block if np.isfinite(block.data).all() else None  # the dense block then says which entry is not


@dataclass(frozen=True, eq=False)
class DirectedGraph(Kernel):
    """Similarity of the nodes of a directed graph, from its adjacency.

    "in-degree": k(i, j) = w(j -> i) / sum over l of w(l -> i), He et al., Learning with Asymmetric Kernels, section
    4.2, as its authors' data have it; "out-degree": k(i, j) = w(i -> j) / sum over l of w(i -> l), the probability of a
    step from i to j (and, of a matrix of co-occurrence counts, the conditional probability of j given i); None:
    w(i -> j).

    Parameters
    ----------
    adjacency : (N, N) ndarray, scipy.sparse, dask or zarr array, or edge list (E, 2) or (E, 3)
        adjacency[i, j] is the weight of the edge i -> j. It is kept sparse.
    self_loops : bool, default True
        Add an edge of weight 1 from each node to itself.
    normalise : {"in-degree", "out-degree", None}

    Raises
    ------
    InputError
        A weight that is negative or not finite, an adjacency that is not square, a node's number outside it.

    Examples
    --------
    >>> edges = np.array([[0, 1], [2, 1], [1, 2]])
    >>> X = np.arange(3)[:, None]
    >>> DirectedGraph(edges)(X, X).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.33, 0.33, 0.33],
           [0.  , 0.5 , 0.5 ]])
    """

    adjacency: Any = field(repr=False)
    self_loops: bool = True
    normalise: Literal["in-degree", "out-degree"] | None = "in-degree"

    def __post_init__(self) -> None:
        if self.normalise not in ("in-degree", "out-degree", None):
            raise InputError(f"DirectedGraph: normalise={self.normalise!r} must be 'in-degree', 'out-degree' or None.")
        adjacency = _sparse(as_matrix(self.adjacency))
        if adjacency.shape[0] != adjacency.shape[1]:
            raise InputError(
                f"DirectedGraph: the adjacency is {adjacency.shape[0]} x {adjacency.shape[1]} and must be square: one "
                "row and one column for each node."
            )
        wrong = np.flatnonzero(~(np.isfinite(adjacency.data) & (adjacency.data >= 0)))
        if len(wrong):
            row = int(np.searchsorted(adjacency.indptr, wrong[0], side="right")) - 1
            raise InputError(
                f"DirectedGraph: the weight of the edge {row} -> {adjacency.indices[wrong[0]]} is "
                f"{adjacency.data[wrong[0]]}: weights must be finite numbers, 0 or more."
            )
        object.__setattr__(self, "adjacency", adjacency)
        object.__setattr__(self, "_matrix", Precomputed(self._similarity(adjacency)))

    def _similarity(self, adjacency: sp.csr_matrix) -> sp.csr_matrix:
        if self.self_loops:
            adjacency = adjacency + sp.eye_array(adjacency.shape[0], format="csr")
        weights = sp.csr_matrix(adjacency.T if self.normalise == "in-degree" else adjacency)
        if self.normalise is None:
            return weights
        degree = np.asarray(weights.sum(1)).ravel()
        return sp.csr_matrix(
            sp.diags_array(np.divide(1, degree, out=np.zeros_like(degree), where=degree > 0)) @ weights
        )

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.adjacency.shape

    @property
    def matrix(self) -> sp.csr_matrix:
        """The kernel over all nodes, (N, N)."""
        return self._matrix.K  # type: ignore[attr-defined]

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        return self._matrix(X, Z)  # type: ignore[attr-defined]

    def sparse(self, X: Block, Z: Block) -> Any:
        """The block as CSR."""
        return self._matrix.sparse(X, Z)  # type: ignore[attr-defined]


def numbers(X: Block, n_points: int) -> np.ndarray:
    """The point numbers (n,) int64 that X (n, 1) holds.

    Raises
    ------
    InputError
        More than one column, not whole numbers, or outside 0 .. n_points - 1: names the row.
    """
    if sp.issparse(X):
        X = X.toarray()
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != 1:
        raise InputError(f"X has shape {X.shape}, and this kernel takes the numbers of its points, shape (n, 1).")
    found = X[:, 0].astype(np.int64)
    wrong = np.flatnonzero((found != X[:, 0]) | (found < 0) | (found >= n_points))
    if len(wrong):
        raise InputError(
            f"X names the point {X[wrong[0], 0]:.16g} (row {wrong[0]} of those given), and the kernel has the points 0 "
            f"to {n_points - 1}: give whole numbers in this range."
        )
    return found


def as_matrix(K: Any) -> Any:
    """A matrix of numbers as it is (sparse: CSR), or the one that an edge list describes.

    Raises
    ------
    InputError
        No two dimensions, an edge list with one column, a negative or fractional number of a point.
    """
    if sp.issparse(K):
        return sp.csr_matrix(K)
    if compute.is_dask(K) or isinstance(K, zarr.Array):
        K_ndim: int = K.ndim
        if K_ndim != 2:
            raise InputError(f"A kernel matrix has two dimensions and this one has {K_ndim}.")
        return K
    K = np.asarray(K)
    if K.ndim != 2 or K.dtype.kind not in "iufb" or 0 in K.shape:
        raise InputError(f"A kernel needs a matrix of numbers or an edge list, and got shape {K.shape} of {K.dtype}.")
    if K.shape[1] > 3 or K.shape[0] == K.shape[1]:
        return K
    if K.shape[1] == 1:
        raise InputError("An edge list needs two columns (from, to), or three with a weight, and this one has one.")
    return _of_edges(K)


def _of_edges(edges: np.ndarray) -> sp.csr_matrix:
    ends = edges[:, :2].astype(np.int64)
    wrong = np.flatnonzero((ends != edges[:, :2]).any(1) | (ends < 0).any(1))
    if len(wrong):
        raise InputError(f"Row {wrong[0]} of the edge list is {edges[wrong[0]]}: points are whole numbers from 0 on.")
    n = int(ends.max()) + 1
    weights = edges[:, 2].astype(np.float64) if edges.shape[1] == 3 else np.ones(len(edges))
    matrix = sp.csr_matrix((weights, (ends[:, 0], ends[:, 1])), shape=(n, n))
    if edges.shape[1] == 2:
        matrix.data[:] = 1.0  # an edge listed twice is one edge
    return matrix


def _sparse(K: Any) -> sp.csr_matrix:
    """Any matrix as CSR in float64, a band of rows at a time."""
    if compute.is_dask(K) or isinstance(K, zarr.Array):
        height = max(1, (1 << 23) // max(1, K.shape[1]))
        starts = range(0, K.shape[0], height)
        return sp.csr_matrix(
            sp.vstack([sp.csr_matrix(_rows(K, start, start + height)) for start in starts]), dtype=float
        )
    return sp.csr_matrix(K, dtype=np.float64)


def _rows(K: Any, start: int, stop: int) -> np.ndarray:
    return store.read(K, start, stop) if isinstance(K, zarr.Array) else _dense(K[start:stop])


def take(K: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """K[rows][:, columns], dense; consecutive numbers, as in tiles, are cut out without a search."""
    if sp.issparse(K):
        return K[rows][:, columns].toarray()
    cut = _cut(rows), _cut(columns)
    if isinstance(K, zarr.Array):
        return store.take(K, *cut)
    slices = sum(isinstance(side, slice) for side in cut)
    if slices == 2 or (slices and isinstance(K, np.ndarray)):
        return _dense(K[cut])
    if compute.is_dask(K):
        return _dense(K[rows][:, columns])
    return K[np.ix_(rows, columns)]


def _cut(found: np.ndarray) -> Any:
    """Consecutive numbers as a slice: where one side is one, numpy takes the other's entries several times faster."""
    consecutive = len(found) > 0 and found[-1] - found[0] == len(found) - 1 and bool((np.diff(found) == 1).all())
    return slice(found[0], found[-1] + 1) if consecutive else found


def _dense(block: Any) -> np.ndarray:
    return block if isinstance(block, np.ndarray) else compute.here(block)


def _dtype(X: Block) -> Any:
    return X.dtype if X.dtype.kind == "f" else np.float64

"""A directed graph rebuilt from the embedding of its nodes, and how far that is from the graph."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from ask_dask.errors import InputError

ORDERS = ("euclidean", "dot")


def reconstructed(left: np.ndarray, right: np.ndarray, degrees: np.ndarray, order: str = "euclidean") -> sp.csr_matrix:
    """Adjacency in which node i points to the degrees[i] nodes nearest to it in the embedding, never to itself.

    Tao, Tonin et al., Learning in Feature Spaces via Coupled Covariances; Tsitsulin et al., VERSE (WWW 2018). Nodes at
    one distance are interchangeable: rounding decides among them.

    Parameters
    ----------
    left, right : (n, d)
        Nodes as sources and as targets; the same array twice where nodes have one place only.
    degrees : (n,) whole numbers, 0 to n - 1
    order : {"euclidean", "dot"}, default "euclidean"
        Nearest by distance, or by the largest inner product.

    Returns
    -------
    (n, n) CSR of ones, float64

    Raises
    ------
    InputError
        Shapes that differ, NaN or infinity, degrees that no graph without self loops has, another order.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [1.9]])
    >>> reconstructed(line, line, np.array([1, 1, 0])).toarray()
    array([[0., 1., 0.],
           [0., 0., 1.],
           [0., 0., 0.]])
    """
    from sklearn.neighbors import NearestNeighbors

    left, right, degrees = (np.asarray(given) for given in (left, right, degrees))
    _check(left, right, degrees, order)
    n, most = len(left), int(degrees.max(initial=0))
    sources = np.flatnonzero(degrees)
    if not most:
        return sp.csr_matrix((n, n))
    if order == "dot":
        left, right = _dot_as_distance(left, right)
    search = NearestNeighbors(n_neighbors=min(most + 1, n), algorithm="brute").fit(right)
    found = search.kneighbors(left[sources], return_distance=False)
    # the node itself, if it is there, goes behind the others, which keep their order
    found = np.take_along_axis(found, np.argsort(found == sources[:, None], axis=1, kind="stable"), axis=1)
    kept = np.arange(found.shape[1]) < degrees[sources, None]
    pairs = np.repeat(sources, degrees[sources]), found[kept]
    return sp.csr_matrix((np.ones(len(found[kept])), pairs), shape=(n, n))


def norms(A: sp.spmatrix, B: sp.spmatrix) -> tuple[float, float]:
    """Induced norms of A - B: l1, its largest sum of absolute values of a column, and l2, its largest singular value.

    Parameters
    ----------
    A, B : (n, m) scipy.sparse

    Raises
    ------
    InputError
        Shapes that differ.

    Examples
    --------
    >>> norms(sp.csr_matrix([[0.0, 1.0], [0.0, 1.0]]), sp.csr_matrix((2, 2))) == (2.0, np.sqrt(2.0))
    True
    """
    if A.shape != B.shape:
        raise InputError(f"Graphs of {A.shape} and {B.shape} nodes cannot be compared: give both over the same nodes.")
    difference = sp.csc_matrix(A - B, dtype=np.float64)
    difference.eliminate_zeros()
    if not difference.nnz:
        return 0.0, 0.0
    largest = float(abs(difference).sum(0).max())
    if min(difference.shape) < 3:  # svds wants more
        return largest, float(np.linalg.norm(difference.toarray(), 2))
    return largest, float(svds(difference, 1, return_singular_vectors=False, rng=np.random.default_rng(0))[0])


def _check(left: np.ndarray, right: np.ndarray, degrees: np.ndarray, order: str) -> None:
    n = len(left)
    if left.ndim != 2 or left.shape != right.shape or degrees.shape != (n,):
        raise InputError(f"left {left.shape}, right {right.shape} and degrees {degrees.shape} must be (n, d), (n, d) "
                         "and (n,), a row for each node.")  # fmt: skip
    if order not in ORDERS:
        raise InputError(f"order={order!r} must be one of {', '.join(ORDERS)}.")
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise InputError("The embedding holds NaN or infinity: leave such nodes out, or embed them again.")
    whole = np.issubdtype(degrees.dtype, np.integer)
    if not whole or degrees.min(initial=0) < 0 or degrees.max(initial=0) > max(n - 1, 0):
        raise InputError(f"degrees must be whole numbers from 0 to {n - 1}, the other nodes: count edges without self "
                         "loops.")  # fmt: skip


def _dot_as_distance(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points whose distances order as inner products do: one more column makes all of right equally long."""
    squares = (right**2).sum(1)
    rest = np.sqrt(np.maximum(squares.max() - squares, 0))
    return np.c_[left, np.zeros(len(left))], np.c_[right, rest]

"""Landmarks of a sparse kernel over numbered points, such as a graph: those whose neighbours are the most points."""

import heapq
from typing import Any

import numpy as np
import scipy.sparse as sp

from ask_dask.errors import InputError
from ask_dask.kernels.base import Block
from ask_dask.landmarks.sampled import Seed, require_enough

DISCOUNT = 0.3
"""What a point still counts that one landmark covers; its square with two, and so on."""


def coverage(
    kernel: Any, X: Block, Z: Block, n_landmarks: tuple[int, int], random_state: Seed
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the landmarks that give most points of the whole kernel a kernel value that is not 0.

    Of a sparse matrix C holds nothing of a row that is 0 at every column landmark, and a landmark with many neighbours
    may have those of another. Counted are all points that the kernel numbers, of which those to predict are some;
    labels are not. One after the other, each landmark adds most to the sum over points of 1 + d + d^2 + ... (as many
    terms as landmarks cover the point), of which this order has at least 1 - 1/e of the most that is possible. Every
    prefix is the choice for that count. Where X is Z both sides have the same landmarks, each covering its row and its
    column.

    Parameters
    ----------
    kernel : Kernel over numbered points, with a sparse matrix
    X, Z : (n, 1) and (m, 1) blocks
        Candidates: numbers of points.
    n_landmarks : pair of int
        Rows and columns to choose.
    random_state
        Not used: there is nothing to draw.

    Returns
    -------
    rows, columns : (n_landmarks[0],) and (n_landmarks[1],) int64, each distinct

    Raises
    ------
    InputError
        Too few candidates; a kernel that is dense or whose points have coordinates.

    Notes
    -----
    Nemhauser, Wolsey and Fisher, An analysis of approximations for maximizing submodular set functions, 1978; lazily,
    after Minoux, 1978.

    Examples
    --------
    >>> from ask_dask.kernels import DirectedGraph
    >>> nodes = np.arange(6)[:, None]
    >>> star_and_pair = DirectedGraph(np.array([[0, 1], [0, 2], [3, 0], [4, 5]]))
    >>> coverage(star_and_pair, nodes, nodes, (2, 2), random_state=0)[0]
    array([0, 4])
    """
    for count, points in zip(n_landmarks, (X, Z), strict=True):
        require_enough(count, points.shape[0])
    n, m = getattr(kernel, "shape", None) or (0, 0)
    at_rows, at_columns = (kernel.sparse(X, _all(m)), kernel.sparse(_all(n), Z)) if n else (None, None)
    if at_rows is None or at_columns is None:
        raise InputError(
            "Coverage is of landmarks of a sparse kernel matrix over numbered points, such as a graph: use another way."
        )
    if X is Z and n == m:
        order = _covering(at_rows.T + at_columns, max(n_landmarks))
        return order[: n_landmarks[0]], order[: n_landmarks[1]]
    return _covering(at_rows.T, n_landmarks[0]), _covering(at_columns, n_landmarks[1])


def _all(n: int) -> np.ndarray:
    return np.arange(n)[:, None]


def _covering(values: Any, count: int) -> np.ndarray:
    """Columns of (points, candidates) in the order in which they cover most."""
    columns = sp.csc_array(values)
    columns.eliminate_zeros()
    worth = np.ones(columns.shape[0])  # of each point, to the next landmark that covers it
    covered = [columns.indices[a:b] for a, b in zip(columns.indptr[:-1], columns.indptr[1:], strict=True)]
    heap = [(-float(len(points)), j) for j, points in enumerate(covered)]
    heapq.heapify(heap)
    chosen: list[int] = []
    while len(chosen) < count:
        _, j = heap[0]
        gain = float(worth[covered[j]].sum())  # it only falls, so what is in the heap is at least this
        heapq.heapreplace(heap, (-gain, j))
        if heap[0][1] == j:
            heapq.heappop(heap)
            chosen.append(j)
            worth[covered[j]] *= DISCOUNT
    return np.array(chosen, np.int64)

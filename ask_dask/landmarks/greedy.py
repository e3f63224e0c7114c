"""Landmarks chosen one after the other, each the column (or row) farthest from the span of those before it."""

import numpy as np
import scipy.linalg

from ask_dask.kernels.base import Block
from ask_dask.landmarks.entries import Entries, KernelLike, require_not_zero
from ask_dask.landmarks.sampled import Seed, fill_uniformly, require_enough


def greedy(
    kernel: KernelLike, X: Block, Z: Block, n_landmarks: tuple[int, int], random_state: Seed
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the pivots of a QR factorisation of K = k(X, Z) for columns, and of K' for rows.

    It evaluates and factorises the whole candidate matrix: n m entries and about 4 n m min(n, m) operations, so it
    is for a few thousand candidates. Every prefix is the choice for that count. Where K has a lower rank than asked
    for, the rest is drawn uniformly.

    Parameters
    ----------
    kernel : Kernel or function k(X, Z)
    X, Z : (n, d) and (m, d) blocks
        Candidates.
    n_landmarks : pair of int
        Rows and columns to choose.

    Returns
    -------
    rows, columns : (n_landmarks[0],) and (n_landmarks[1],) int64, each distinct

    Raises
    ------
    InputError
        Too few candidates; a kernel that is zero, NaN or infinite.

    Notes
    -----
    Businger and Golub, Linear least squares solutions by Householder transformations, 1965; Voronin and Martinsson,
    Efficient algorithms for CUR and interpolative matrix decompositions, 2017.

    Examples
    --------
    >>> K = np.array([[3.0, 3.0, 0.0], [3.0, 3.0, 0.1]])
    >>> greedy(lambda X, Z: K, np.eye(2), np.eye(3), (2, 2), random_state=0)[1]
    array([0, 2])
    """
    entries, rng = Entries(kernel, X, Z), np.random.default_rng(random_state)
    for count, available in zip(n_landmarks, entries.shape, strict=True):
        require_enough(count, available)
    K = entries.rows(np.arange(entries.shape[0]))
    require_not_zero(np.abs(K).max())
    rows, columns = (
        fill_uniformly(_pivots(A, entries.eps), A.shape[1], count, rng)
        for A, count in zip((K.T, K), n_landmarks, strict=True)
    )
    return rows, columns


def _pivots(A: np.ndarray, eps: float) -> np.ndarray:
    """Columns of A in the order of pivoted QR, as many as its rank."""
    R, order = scipy.linalg.qr(A, mode="r", pivoting=True, check_finite=False)
    left = np.abs(np.diagonal(R))
    return order[: np.count_nonzero(left > max(A.shape) * eps * left[0])]

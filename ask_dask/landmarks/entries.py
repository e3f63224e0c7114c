"""Rows, columns and diagonal of K = k(X, Z) on candidate blocks, for the ways that look at kernel values."""

from collections.abc import Callable

import numpy as np

from ask_dask.errors import InputError
from ask_dask.kernels.base import Block, Kernel

KernelLike = Kernel | Callable[[Block, Block], np.ndarray]
"""A Kernel, or any function k(X, Z) whose entries depend on their own two points alone."""

DIAGONAL_ROWS = 32
"""Rows of the small square blocks that give the diagonal: few calls, and few entries thrown away."""


class Entries:
    """Entries of k(X, Z), some rows or columns at a time, in float64.

    A kernel that is normalised over the data takes the candidates Z as its targets, so that a row or a column alone
    has the values that it has within the whole matrix.

    Parameters
    ----------
    kernel : Kernel or function k(X, Z)
    X, Z : (n, d) and (m, d) blocks
        Candidate rows (sources) and columns (targets); one object where they are the same points.

    Attributes
    ----------
    shape : (n, m)
    eps : float
        Resolution of the dtype of the kernel's values.

    Examples
    --------
    >>> entries = Entries(lambda X, Z: X @ Z.T, np.eye(3), np.eye(3))
    >>> entries.rows(np.array([1]))
    array([[0., 1., 0.]])
    """

    def __init__(self, kernel: KernelLike, X: Block, Z: Block) -> None:
        self.shape: tuple[int, int] = (X.shape[0], Z.shape[0])
        self.paired = X is Z
        self.eps = float(np.finfo(np.float64).eps)
        self._X, self._Z = X, Z
        if isinstance(kernel, Kernel):
            bound = kernel.at(X, Z, Z.shape[0], Z if kernel.needs_targets else None)
            self._row_block: Callable[[Block], np.ndarray] = bound.source
            self._column_block: Callable[[Block], np.ndarray] = lambda points: bound.target(points).T
            self._tile = bound.tile
        else:
            self._row_block = lambda points: kernel(points, Z)
            self._column_block = lambda points: kernel(X, points)
            self._tile = lambda rows, columns: kernel(X[rows], Z[columns])

    def rows(self, positions: np.ndarray) -> np.ndarray:
        """k(X[positions], Z), shape (len(positions), m)."""
        return self._checked(self._row_block(self._X[positions]))

    def columns(self, positions: np.ndarray) -> np.ndarray:
        """k(X, Z[positions]), shape (n, len(positions))."""
        return self._checked(self._column_block(self._Z[positions]))

    def diagonal(self) -> np.ndarray:
        """k(x_i, z_i) of the positions that both sides have, shape (min(n, m),)."""
        blocks = [slice(start, start + DIAGONAL_ROWS) for start in range(0, min(self.shape), DIAGONAL_ROWS)]
        return np.concatenate([np.diagonal(self._checked(self._tile(block, block))) for block in blocks])

    def _checked(self, K: np.ndarray) -> np.ndarray:
        K = np.asarray(K)
        if not np.isfinite(K).all():
            raise InputError("The kernel is NaN or infinite at some candidates: check its parameters and the points.")
        if K.dtype.kind == "f":
            self.eps = max(self.eps, float(np.finfo(K.dtype).eps))
        return K.astype(np.float64, copy=False)


def require_not_zero(largest: float) -> None:
    """Raise InputError where the largest kernel value that was looked at is zero."""
    if not largest > 0:
        raise InputError(
            "The kernel is zero at every pair of candidates looked at, so nothing tells landmarks apart: check its "
            "bandwidth, or use how='uniform'."
        )

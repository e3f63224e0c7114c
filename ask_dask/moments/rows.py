"""Rows of a shard turned into moments: kernel blocks are evaluated, brought into their frame and multiplied."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ask_dask import blocks, budget, compute
from ask_dask.kernels.base import Block, Columns
from ask_dask.moments.frame import PIVOTS, Frame
from ask_dask.moments.sums import Moments, Side


@dataclass(frozen=True)
class Rows:
    """Labels, folds and weights of rows, which a pass takes beside their features; all arrays are cut as the rows are.

    Attributes
    ----------
    y : (N,) class numbers, (N, L) numbers, or (N, L) scipy.sparse CSR
        Labels as they are kept.
    outputs : callable
        Some rows of y -> the (n, q) numbers that are learned, such as +1 and -1.
    folds : (N,) integer array
    weights : (N,) float64 array, optional
        Weight of each row's squared errors; None is 1 for all.
    """

    y: Any
    outputs: Callable[[Any], np.ndarray]
    folds: np.ndarray
    weights: np.ndarray | None = None

    def __getitem__(self, rows: Any) -> "Rows":
        weights = None if self.weights is None else self.weights[rows]
        return Rows(self.y[rows], self.outputs, self.folds[rows], weights)

    @property
    def Y(self) -> np.ndarray:
        """(n, q) float64"""
        return np.asarray(self.outputs(self.y), np.float64)


def frames_of(kernel: Columns, typical: Block, most: int = PIVOTS) -> tuple[Frame, ...]:
    """Return the frame of each role's kernel columns, one where it serves both roles.

    Parameters
    ----------
    typical : (s, d) block
        A few rows like those that are to be summed; of none (s = 0) the frames change nothing.
    most : int
        Most pivots of a frame.
    """
    C, R = kernel.both(typical)
    return tuple(Frame.of(block, most) for block in ((C,) if C is R else (C, R)))


def of_rows(X: Block, rows: Rows, kernel: Columns, n_folds: int, frames: tuple[Frame, ...] | None = None) -> Moments:
    """Return the moments of one shard of rows.

    Rows are taken fold by fold, so that each product goes to one fold. Products are summed in the kernel's own
    precision inside a block and in float64 across blocks.

    Parameters
    ----------
    X : (n, d) block
    rows : Rows
        Those of this shard; folds are 0 .. n_folds - 1.
    frames : tuple of Frame, optional
        One for each side (`frames_of`); without any, columns are summed as they are.
    """
    frames = frames_of(kernel, X[:0]) if frames is None else frames
    order = np.argsort(rows.folds, kind="stable")
    X, rows = X[order], rows[order]
    edges = np.searchsorted(rows.folds, np.arange(n_folds + 1))
    q, m = rows[:1].Y.shape[1], len(frames[0].offset)
    count, sum_y, yy = np.zeros(n_folds), np.zeros((n_folds, q)), np.zeros((n_folds, q))
    with compute.one_blas_thread():
        sums = [_Sums(frame, q, n_folds) for frame in frames]
        for f, fold in enumerate(map(slice, edges[:-1], edges[1:])):
            points, here = X[fold], rows[fold]
            for part in blocks.row_blocks(points, budget.cache_rows(m)):
                y = here[part].Y
                weights = np.ones(len(y)) if here.weights is None else here.weights[part]
                count[f] += weights.sum()
                sum_y[f] += weights @ y
                yy[f] += weights @ y**2
                for side, block in zip(sums, kernel.both(points[part]), strict=False):
                    side.add(f, block, y, None if here.weights is None else weights)
            for side in sums:
                side.flush(f)
    return Moments(count, sum_y, yy, tuple(side.found() for side in sums))


class _Sums:
    """A Side under construction.

    Kernel blocks of a few hundred rows, which stay in cache, fill a buffer of GRAM_ROWS rows; SYRK takes it whole.
    """

    def __init__(self, frame: Frame, q: int, n_folds: int) -> None:
        self.frame, m = frame, len(frame.offset)
        self.dtype = np.dtype(np.float32 if frame.eps > np.finfo(np.float64).eps else np.float64)
        self.sums, self.gram, self.cross = np.zeros((n_folds, m)), np.zeros((n_folds, m, m)), np.zeros((n_folds, m, q))
        self.product = np.empty((m, m), self.dtype)
        self.buffer, self.y = np.empty((budget.GRAM_ROWS, m), self.dtype), np.ones((budget.GRAM_ROWS, 1 + q))
        self.filled = 0

    def add(self, f: int, block: np.ndarray, Y: np.ndarray, weights: np.ndarray | None) -> None:
        """Add rows to fold f; with weights both factors of every product carry their roots."""
        if self.filled + len(block) > len(self.buffer):
            self.flush(f)
        rows = slice(self.filled, self.filled + len(block))
        self.frame.columns(block, out=self.buffer[rows])
        self.y[rows, 0], self.y[rows, 1:] = 1, Y
        if weights is not None:
            root = np.sqrt(weights)[:, None]
            self.buffer[rows] *= root
            self.y[rows] *= root
        self.filled += len(block)

    def flush(self, f: int) -> None:
        """Add the buffer's rows to fold f."""
        if not self.filled:
            return
        block, y = self.buffer[: self.filled], self.y[: self.filled].astype(self.buffer.dtype)
        # numpy sees that both factors are one and calls SYRK; unlike SciPy's wrapper it lets other threads run
        self.gram[f] += np.matmul(block.T, block, out=self.product)
        products = y.T @ block
        self.sums[f] += products[0]
        self.cross[f] += products[1:].T
        self.filled = 0

    def found(self) -> Side:
        """Return the side."""
        return Side(self.frame, self.sums, self.gram, self.cross)

"""Rows of a shard turned into moments: kernel blocks are evaluated, brought into their frame and multiplied."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ask_dask import blocks, budget, compute
from ask_dask.kernels.base import Block, Columns
from ask_dask.moments.frame import PIVOTS, Frame
from ask_dask.moments.sums import Moments

Diagonal = Callable[[Block], np.ndarray]
"""The rows of a block -> k(x, x) of each, (n,)."""


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


def of_rows(X: Block, rows: Rows, kernel: Columns, n_folds: int, frames: tuple[Frame, ...] | None = None,
            diagonal: Diagonal | None = None) -> Moments:  # fmt: skip
    """Return the moments of a block of rows, as `of_shards` does; without frames, columns are summed as they are."""
    return of_shards([X], rows, kernel, n_folds, frames_of(kernel, X[:0]) if frames is None else frames, diagonal)


def of_shards(
    X: Sequence[Block], rows: Rows, kernel: Columns, n_folds: int, frames: tuple[Frame, ...],
    diagonal: Diagonal | None = None,
) -> Moments:  # fmt: skip
    """Return the moments of neighbouring shards.

    Rows are taken fold by fold, so that each product goes to one fold. Products are summed in the kernel's own
    precision inside a block, in float64 across blocks, and in pairs across shards (`compute.add_in_pairs`).

    Parameters
    ----------
    X : sequence of (n, d) blocks
    rows : Rows
        Those of all shards; folds are 0 .. n_folds - 1.
    frames : tuple of Frame
        One for each side (`frames_of`).
    diagonal : callable, optional
        k(x, x) of the rows of a block, where its sum is wanted.
    """
    q, starts = rows[:1].Y.shape[1], np.cumsum([0, *(block.shape[0] for block in X)])
    shards = [_by_fold(block, rows[start : start + block.shape[0]]) for block, start in zip(X, starts, strict=False)]
    found = Moments.empty(n_folds, q, frames)
    sums = [_Sums(frame, q) for frame in frames]
    with compute.one_blas_thread():
        for f in range(n_folds):
            compute.add_in_pairs(
                [partial(_sum_fold, *shard, f, kernel, diagonal, sums) for shard in shards], found.arrays(f)
            )
    return found


def _by_fold(X: Block, rows: Rows) -> tuple[Block, Rows]:
    order = np.argsort(rows.folds, kind="stable")
    return X[order], rows[order]


def _sum_fold(
    X: Block, rows: Rows, f: int, kernel: Columns, diagonal: Diagonal | None, sums: Sequence["_Sums"],
    out: Sequence[np.ndarray],
) -> None:  # fmt: skip
    """Write the sums over fold f of rows in the order of their folds: those of `Moments.arrays`."""
    fold = slice(*np.searchsorted(rows.folds, (f, f + 1)))
    X, rows = X[fold], rows[fold]
    count, sum_y, yy, kk, *of_sides = out
    for array in (count, sum_y, yy, kk):
        array.fill(0)
    for i, side in enumerate(sums):
        side.begin(X.shape[0], *of_sides[3 * i : 3 * i + 3])
    for part in blocks.row_blocks(X, budget.cache_rows(len(sums[0].frame.offset))):
        y = rows[part].Y
        weights = np.ones(len(y)) if rows.weights is None else rows.weights[part]
        count += weights.sum()
        sum_y += weights @ y
        yy += weights @ y**2
        if diagonal:
            kk += weights @ diagonal(X[part])
        for side, block in zip(sums, kernel.both(X[part]), strict=False):
            side.add(block, y, None if rows.weights is None else weights)
    for side in sums:
        side.flush()


class _Sums:
    """The sums of one fold's rows for one side, under construction.

    Kernel blocks of a few hundred rows, which stay in cache, fill a buffer; SYRK takes it whole. The rows of a fold are
    shared among as many products as have about GRAM_ROWS rows each, since one of few rows takes nearly as long.
    """

    def __init__(self, frame: Frame, q: int) -> None:
        self.frame, m = frame, len(frame.offset)
        self.dtype = np.dtype(np.float32 if frame.eps > np.finfo(np.float64).eps else np.float64)
        self.product = np.empty((m, m), self.dtype)
        self.step, most = budget.cache_rows(m), budget.tall_rows(m)
        self.buffer, self.y = np.empty((most, m), self.dtype), np.ones((most, 1 + q))

    def begin(self, n: int, sums: np.ndarray, gram: np.ndarray, cross: np.ndarray) -> None:
        """Begin sums of n rows, which go into these arrays."""
        self.out, self.filled, self.empty = (sums, gram, cross), 0, True
        share = -(-n // max(1, round(n / budget.GRAM_ROWS)))
        self.most = -(-share // self.step) * self.step
        if not n:
            for array in self.out:
                array.fill(0)

    def add(self, block: np.ndarray, Y: np.ndarray, weights: np.ndarray | None) -> None:
        """Add rows; with weights both factors of every product carry their roots."""
        if self.filled + len(block) > self.most:
            self.flush()
        rows = slice(self.filled, self.filled + len(block))
        self.frame.columns(block, out=self.buffer[rows])
        self.y[rows, 0], self.y[rows, 1:] = 1, Y
        if weights is not None:
            root = np.sqrt(weights)[:, None]
            self.buffer[rows] *= root
            self.y[rows] *= root
        self.filled += len(block)

    def flush(self) -> None:
        """Add the buffer's rows to the sums."""
        if not self.filled:
            return
        block, y = self.buffer[: self.filled], self.y[: self.filled].astype(self.buffer.dtype)
        # numpy sees that both factors are one and calls SYRK; unlike SciPy's wrapper it lets other threads run
        products, gram = y.T @ block, np.matmul(block.T, block, out=self.product)
        for out, found in zip(self.out, (products[0], gram, products[1:].T), strict=True):
            np.copyto(out, found) if self.empty else np.add(out, found, out=out)
        self.filled, self.empty = 0, False

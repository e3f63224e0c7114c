"""One pass over the kernel blocks -> sufficient statistics, per fold; add, subtract, and cut to nested landmarks.

Everything is kept in landmark coordinates (Grams of C and R', not of the features made from them), so that moments of
the first p landmarks are sub-matrices, and the training moments of a fold are the total minus that fold.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import dask
import numpy as np

from ask_dask import blocks, budget, compute
from ask_dask.kernels.base import Block, LandmarkKernel


@dataclass(frozen=True)
class Side:
    """Moments of one role's kernel columns (C for the source, R' for the target), taken around an origin."""

    origin: np.ndarray
    """(m,) subtracted from every row first; the same in moments that are added"""
    sums: np.ndarray
    """(F, m)"""
    gram: np.ndarray
    """(F, m, m)"""
    cross: np.ndarray
    """(F, m, q), products with Y"""


@dataclass(frozen=True)
class Moments:
    """Counts, sums, Grams and cross products over rows, kept per fold (float64).

    F folds, m landmarks, q outputs. A symmetric kernel with I = J has one side that serves both roles: one Gram is
    computed and kept.
    """

    count: np.ndarray
    """(F,) rows"""
    sum_y: np.ndarray
    """(F, q)"""
    sides: tuple[Side, ...]
    """(source, target), or one for both roles"""

    def __add__(self, other: "Moments") -> "Moments":
        return self._with(np.add, other)

    def __sub__(self, other: "Moments") -> "Moments":
        return self._with(np.subtract, other)

    def _with(self, function: Any, *others: "Moments") -> "Moments":
        each = (self, *others)
        sides = tuple(_each(function, *parts) for parts in zip(*(m.sides for m in each), strict=True))
        return Moments(function(*(m.count for m in each)), function(*(m.sum_y for m in each)), sides)

    def fold(self, f: int) -> "Moments":
        """The moments of one fold, shapes (1, ...)."""
        return self._with(lambda a: a[f : f + 1])

    def total(self) -> "Moments":
        """Over all folds, shapes (1, ...)."""
        return self._with(lambda a: a.sum(0, keepdims=True))

    def prefix(self, n: int) -> "Moments":
        """Of the first n row and column landmarks."""
        sides = tuple(Side(s.origin[:n], s.sums[:, :n], s.gram[:, :n, :n], s.cross[:, :n]) for s in self.sides)
        return Moments(self.count, self.sum_y, sides)


def _each(function: Any, *sides: Side) -> Side:
    arrays = (function(*(getattr(side, name) for side in sides)) for name in ("sums", "gram", "cross"))
    return Side(sides[0].origin, *arrays)


def gather(
    X: Any,
    codes: np.ndarray,
    n_outputs: int,
    folds: np.ndarray,
    n_folds: int,
    kernel: LandmarkKernel,
    typical: Block | None = None,
) -> Moments:
    """One pass over an input, a task a shard, partial sums added in a tree as they appear.

    Parameters
    ----------
    X : numpy, scipy.sparse, dask or zarr, (N, d)
    codes : (N,) integer array
        Class of each row; output k is +1 for class k and -1 for others (for one output: +1 for class 1).
    folds : (N,) integer array
    typical : as in `of_rows`

    Raises
    ------
    InputError
        X holds a NaN or infinity: names the row and column.
    """
    shared = dask.delayed((kernel, typical), traverse=False, pure=False)
    task = dask.delayed(_of_shard, pure=False)
    parts = [
        task(shard.block, codes[shard.start : shard.stop], folds[shard.start : shard.stop], shared, n_folds, n_outputs,
             shard.start)
        for shard in blocks.shards(X)
    ]  # fmt: skip
    return compute.run_sum(parts, "moments")


def _of_shard(
    X: Block, codes: np.ndarray, folds: np.ndarray, shared: tuple[Any, Any], n_folds: int, q: int, first_row: int
) -> Moments:
    kernel, typical = shared
    blocks.require_finite(X, first_row)
    Y = np.where(codes[:, None] == (np.arange(q) if q > 1 else [1]), 1.0, -1.0)
    return of_rows(X, Y, folds, kernel, n_folds, typical)


def of_rows(
    X: Block, Y: np.ndarray, folds: np.ndarray, kernel: LandmarkKernel, n_folds: int, typical: Block | None = None
) -> Moments:
    """Moments of one shard of rows.

    Rows are taken fold by fold, so that each product goes to one fold. Products are summed in the kernel's own
    precision inside a block and in float64 across blocks.

    Parameters
    ----------
    X : (n, d) block
    Y : (n, q) array
    folds : (n,) integer array, values 0 .. n_folds - 1
    typical : (k, d) block, optional
        A few rows whose mean kernel columns are the origin (else 0): the Grams of kernels far from zero mean would lose
        their small centred part to rounding.
    """
    order = np.argsort(folds, kind="stable")
    X, Y, edges = X[order], Y[order].astype(np.float64), np.searchsorted(folds[order], np.arange(n_folds + 1))
    with compute.one_blas_thread():
        C, R = kernel.both(X[:0] if typical is None else typical)
        sums = [_Sums(block, Y.shape[1], n_folds) for block in ((C,) if C is R else (C, R))]
        for f, fold in enumerate(map(slice, edges[:-1], edges[1:])):
            for rows in blocks.row_blocks(X[fold], budget.CACHE_ROWS):
                for side, block in zip(sums, kernel.both(X[fold][rows]), strict=False):
                    side.add(f, block, Y[fold][rows])
            for side in sums:
                side.flush(f)
    count, sum_y = np.diff(edges).astype(np.float64), np.stack([Y[a:b].sum(0) for a, b in pairwise(edges)])
    return Moments(count, sum_y, tuple(Side(s.origin.astype(np.float64), s.sums, s.gram, s.cross) for s in sums))


class _Sums:
    """A Side under construction.

    Kernel blocks of a few hundred rows, which stay in cache, fill a buffer of BLOCK_ROWS rows; SYRK takes it whole.
    """

    def __init__(self, typical: np.ndarray, q: int, n_folds: int) -> None:
        m, dtype = typical.shape[1], typical.dtype
        self.origin = typical.mean(0) if len(typical) else np.zeros(m, dtype)
        self.sums, self.gram, self.cross = np.zeros((n_folds, m)), np.zeros((n_folds, m, m)), np.zeros((n_folds, m, q))
        self.product = np.empty((m, m), dtype)
        self.buffer, self.y, self.filled = (
            np.empty((budget.BLOCK_ROWS, m), dtype),
            np.ones((budget.BLOCK_ROWS, 1 + q)),
            0,
        )

    def add(self, f: int, block: np.ndarray, Y: np.ndarray) -> None:
        if self.filled + len(block) > len(self.buffer):
            self.flush(f)
        rows = slice(self.filled, self.filled + len(block))
        np.subtract(block, self.origin, out=self.buffer[rows])
        self.y[rows, 1:] = Y
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

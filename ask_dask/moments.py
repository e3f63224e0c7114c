"""One pass over the kernel blocks -> sufficient statistics, per fold; add, subtract, and cut to nested landmarks.

Everything is kept in landmark coordinates (Grams of C and R', not of the features made from them), so that moments of
the first p landmarks are sub-matrices, and the training moments of a fold are the total minus that fold.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np

from ask_dask import blocks, budget, compute
from ask_dask.kernels.base import Block, Columns
from ask_dask.store import Checkpoint, Parts


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
    """(F,) rows, or the sum of their weights"""
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

    def vector(self) -> np.ndarray:
        """All of it one after another, of each Gram the upper triangle."""
        sides = [part for s in self.sides for part in (s.origin, s.sums, _triangle(s.gram), s.cross)]
        return np.concatenate([part.ravel() for part in (self.count, self.sum_y, *sides)])

    @property
    def sizes(self) -> tuple[int, ...]:
        """F, q, and each side's m."""
        return (*self.sum_y.shape, *(len(side.origin) for side in self.sides))

    @classmethod
    def of_vector(cls, vector: np.ndarray, sizes: Sequence[int]) -> "Moments":
        """From what `vector` and `sizes` gave."""
        n_folds, q, *of_sides = sizes
        shapes: list[tuple[int, ...]] = [(n_folds,), (n_folds, q)]
        for m in of_sides:
            shapes += [(m,), (n_folds, m), (n_folds, m * (m + 1) // 2), (n_folds, m, q)]
        cut = np.split(vector, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        count, sum_y, *rest = (part.reshape(shape) for part, shape in zip(cut, shapes, strict=True))
        each = (rest[start : start + 4] for start in range(0, len(rest), 4))
        sides = (Side(origin, sums, _symmetric(half, len(origin)), cross) for origin, sums, half, cross in each)
        return cls(count, sum_y, tuple(sides))

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


def _triangle(gram: np.ndarray) -> np.ndarray:
    """(F, m, m), symmetric -> (F, m (m + 1) / 2), row by row from the diagonal on."""
    return np.concatenate([gram[:, i, i:] for i in range(gram.shape[1])], axis=1)


def _symmetric(triangle: np.ndarray, m: int) -> np.ndarray:
    """What `_triangle` was of."""
    gram = np.empty((len(triangle), m, m))
    for i, row in enumerate(np.split(triangle, np.cumsum(range(m, 1, -1)), axis=1)):
        gram[:, i, i:] = gram[:, i:, i] = row
    return gram


@dataclass(frozen=True)
class Rows:
    """What the pass needs to know of each row beside its features; every array is cut where the rows are.

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


def gather(
    X: Any,
    rows: Rows,
    n_folds: int,
    kernel: Columns,
    typical: Block | None = None,
    checkpoint: Checkpoint | None = None,
    per_row: int | None = None,
) -> Moments:
    """One pass over an input, a task a shard, partial sums added in the order of the shards.

    Parameters
    ----------
    X : numpy, scipy.sparse, dask or zarr, (N, d)
    typical : as in `of_rows`
    checkpoint : Checkpoint, optional
        What is known of the sum is written there now and then, beside it what each worker has computed, and what is
        there from an interrupted pass goes on.
    per_row : as in `blocks.shards`

    Raises
    ------
    InputError
        X holds a NaN or infinity: names the row and column.
    """
    known, height = _load(checkpoint) if checkpoint else ({}, None)
    shards = blocks.shards(X, height, per_row)  # as they were cut, which may depend on the number of workers

    keep = _Kept(checkpoint.parts, shards[0].stop, len(shards)) if checkpoint and checkpoint.parts else None

    def told(known: compute.Sums) -> None:
        if checkpoint:
            parts = [number for start, (stop, _) in known.items() for number in range(start, stop)]
            checkpoint.offer(lambda: _arrays(known), parts=parts, **_facts(known, shards[0].stop, len(shards)))

    shared = dask.delayed((kernel, typical, keep), traverse=False, pure=False)
    task = dask.delayed(_kept_part, pure=False, traverse=False)
    parts = [task(i, s.block, rows[s.start : s.stop], shared, n_folds, s.start) for i, s in enumerate(shards)]
    with checkpoint.kept() if checkpoint else nullcontext():
        return compute.run_sum(parts, "moments", known=known, told=told, rows=X.shape[0])


@dataclass(frozen=True)
class _Kept:
    """How the moments of a shard are kept: where, rows of a shard, and the number of shards."""

    parts: Parts
    height: int
    total: int


def _kept_part(number: int, X: Block, rows: Rows, shared: tuple[Any, ...], n_folds: int, first_row: int) -> Moments:
    """The moments of one shard, which stay where this runs even if nobody gets to know of them."""
    kernel, typical, keep = shared
    started = time.monotonic()
    found = _of_shard(X, rows, (kernel, typical), n_folds, first_row)
    if keep:
        seconds, known = time.monotonic() - started, {number: (number + 1, found)}
        keep.parts.keep(number, lambda: _arrays(known), seconds, **_facts(known, keep.height, keep.total))
    return found


def _arrays(known: compute.Sums) -> dict[str, np.ndarray]:
    """What a checkpoint keeps of each sum."""
    return {f"sum_{start}": moments.vector() for start, (_, moments) in known.items()}


def _facts(known: compute.Sums, height: int, total: int) -> dict[str, Any]:
    """And what it says of them: which shards each is of, rows of a shard, sizes, and how far all are."""
    shards = [(start, stop) for start, (stop, _) in known.items()]
    sizes = next(moments.sizes for _, moments in known.values())
    done = sum(stop - start for start, stop in shards)
    return {"step": "moments", "done": done, "total": total, "unit": "shards", "height": height, "sizes": sizes,
            "shards": shards}  # fmt: skip


def _load(checkpoint: Checkpoint) -> tuple[compute.Sums, int | None]:
    """The sums of a checkpoint and of its parts, and rows of a shard; none without any."""
    sums: compute.Sums = {}
    height = None
    for found, facts in checkpoint.with_parts(compute.workers()):
        height = height or facts["height"]
        if facts["height"] != height:  # of a job before, whose worker was late
            continue
        for start, stop in facts["shards"]:
            if not any(first <= start < last for first, (last, _) in sums.items()):  # the checkpoint has it by now
                sums[start] = stop, Moments.of_vector(found[f"sum_{start}"], facts["sizes"])
    return sums, height


def _of_shard(X: Block, rows: Rows, shared: tuple[Any, Any], n_folds: int, first_row: int) -> Moments:
    kernel, typical = shared
    blocks.require_finite(X, first_row)
    return of_rows(X, rows, kernel, n_folds, typical)


def of_rows(X: Block, rows: Rows, kernel: Columns, n_folds: int, typical: Block | None = None) -> Moments:
    """Moments of one shard of rows.

    Rows are taken fold by fold, so that each product goes to one fold. Products are summed in the kernel's own
    precision inside a block and in float64 across blocks.

    Parameters
    ----------
    X : (n, d) block
    rows : Rows
        Of this shard; folds are 0 .. n_folds - 1.
    typical : (k, d) block, optional
        A few rows whose mean kernel columns are the origin (else 0): the Grams of kernels far from zero mean would lose
        their small centred part to rounding.
    """
    order = np.argsort(rows.folds, kind="stable")
    X, rows = X[order], rows[order]
    edges = np.searchsorted(rows.folds, np.arange(n_folds + 1))
    q = rows[:1].Y.shape[1]
    count, sum_y = np.zeros(n_folds), np.zeros((n_folds, q))
    with compute.one_blas_thread():
        C, R = kernel.both(X[:0] if typical is None else typical)
        sums = [_Sums(block, q, n_folds) for block in ((C,) if C is R else (C, R))]
        for f, fold in enumerate(map(slice, edges[:-1], edges[1:])):
            points, here = X[fold], rows[fold]
            for part in blocks.row_blocks(points, budget.cache_rows(C.shape[1])):
                y, weights = here[part].Y, None if here.weights is None else here.weights[part]
                count[f] += len(y) if weights is None else weights.sum()
                sum_y[f] += y.sum(0) if weights is None else weights @ y
                for side, block in zip(sums, kernel.both(points[part]), strict=False):
                    side.add(f, block, y, weights)
            for side in sums:
                side.flush(f)
    return Moments(count, sum_y, tuple(Side(s.origin.astype(np.float64), s.sums, s.gram, s.cross) for s in sums))


class _Sums:
    """A Side under construction.

    Kernel blocks of a few hundred rows, which stay in cache, fill a buffer of GRAM_ROWS rows; SYRK takes it whole.
    """

    def __init__(self, typical: np.ndarray, q: int, n_folds: int) -> None:
        m, dtype = typical.shape[1], typical.dtype
        self.origin = typical.mean(0) if len(typical) else np.zeros(m, dtype)
        self.sums, self.gram, self.cross = np.zeros((n_folds, m)), np.zeros((n_folds, m, m)), np.zeros((n_folds, m, q))
        self.product = np.empty((m, m), dtype)
        self.buffer, self.y = np.empty((budget.GRAM_ROWS, m), dtype), np.ones((budget.GRAM_ROWS, 1 + q))
        self.filled = 0

    def add(self, f: int, block: np.ndarray, Y: np.ndarray, weights: np.ndarray | None) -> None:
        """Rows of fold f; with weights both factors of every product carry their roots."""
        if self.filled + len(block) > len(self.buffer):
            self.flush(f)
        rows = slice(self.filled, self.filled + len(block))
        np.subtract(block, self.origin, out=self.buffer[rows])
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

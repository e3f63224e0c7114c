"""Sufficient statistics of rows: counts, sums, Grams and cross products, kept for each fold."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ask_dask.moments.frame import Frame

OWN = ("count", "sum_y", "yy", "kk")
"""Sums that belong to no role."""


@dataclass(frozen=True)
class Side:
    """Moments of one role's kernel columns (C for the source, R' for the target), in a frame.

    Attributes
    ----------
    frame : Frame
        The same in moments that are added.
    sums : (F, m)
    gram : (F, m, m)
    cross : (F, m, q)
        Products with Y.
    """

    frame: Frame
    sums: np.ndarray
    gram: np.ndarray
    cross: np.ndarray


@dataclass(frozen=True)
class Moments:
    """Counts, sums, Grams and cross products over rows, kept for each fold in float64.

    F folds, m columns, q outputs. A symmetric kernel with I = J has one side that serves both roles: one Gram is
    computed and kept.

    Attributes
    ----------
    count : (F,)
        Rows, or the sum of their weights.
    sum_y, yy : (F, q)
        Sums of Y and of its squares.
    kk : (F,)
        Sums of k(x, x), or 0 where nobody wants them.
    sides : tuple of Side
        Source and target, or one: for both roles, or the source's where only that is wanted.
    """

    count: np.ndarray
    sum_y: np.ndarray
    yy: np.ndarray
    kk: np.ndarray
    sides: tuple[Side, ...]

    @classmethod
    def empty(cls, n_folds: int, q: int, frames: Sequence[Frame]) -> "Moments":
        """Return moments of q outputs whose numbers are still to be written."""
        sizes = [(frame, len(frame.offset)) for frame in frames]
        sides = (Side(frame, *(np.empty((n_folds, m, *more)) for more in ((), (m,), (q,)))) for frame, m in sizes)
        own = {name: np.empty((n_folds, *more)) for name, more in zip(OWN, ((), (q,), (q,), ()), strict=True)}
        return cls(**own, sides=tuple(sides))

    def __add__(self, other: "Moments") -> "Moments":
        return self._with(np.add, other)

    def __sub__(self, other: "Moments") -> "Moments":
        return self._with(np.subtract, other)

    def _with(self, function: Any, *others: "Moments") -> "Moments":
        each = (self, *others)
        sides = tuple(_each(function, *parts) for parts in zip(*(m.sides for m in each), strict=True))
        own = {name: function(*(getattr(m, name) for m in each)) for name in OWN}
        return Moments(**own, sides=sides)

    def arrays(self, f: int) -> list[np.ndarray]:
        """Return views of the numbers of one fold: those of `OWN`, then sums, Gram and cross products of each side."""
        own = (getattr(self, name) for name in OWN)
        of_sides = (array for side in self.sides for array in (side.sums, side.gram, side.cross))
        return [array[f : f + 1] if array.ndim == 1 else array[f] for array in (*own, *of_sides)]

    def vector(self) -> np.ndarray:
        """Return all numbers one after another; of each Gram the upper triangle."""
        parts = [getattr(self, name) for name in OWN]
        for side in self.sides:
            frame = side.frame
            parts += [np.array([frame.eps]), frame.offset, frame.pivots.astype(np.float64), frame.weights]
            parts += [side.sums, _triangle(side.gram), side.cross]
        return np.concatenate([part.ravel() for part in parts])

    @property
    def sizes(self) -> tuple[int, ...]:
        """F, q, and for each side its columns and pivots."""
        return (*self.sum_y.shape, *(size for side in self.sides for size in side.frame.weights.shape[::-1]))

    @classmethod
    def of_vector(cls, vector: np.ndarray, sizes: Sequence[int]) -> "Moments":
        """Return the moments whose `vector` and `sizes` are given."""
        n_folds, q, *of_sides = sizes
        shapes: list[tuple[int, ...]] = [(n_folds,), (n_folds, q), (n_folds, q), (n_folds,)]
        for m, k in zip(of_sides[::2], of_sides[1::2], strict=True):
            shapes += [(1,), (m,), (k,), (k, m), (n_folds, m), (n_folds, m * (m + 1) // 2), (n_folds, m, q)]
        cut = np.split(vector, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        found = [part.reshape(shape) for part, shape in zip(cut, shapes, strict=True)]
        own, rest = dict(zip(OWN, found, strict=False)), found[len(OWN) :]
        return cls(**own, sides=tuple(_side(rest[start : start + 7]) for start in range(0, len(rest), 7)))

    def combine(self, weights: np.ndarray) -> "Moments":
        """Return the moments of a training set, shapes (1, ...), which gives each cell a weight, (F,).

        Folds that are left out have the weight 0 and others 1. Cells are only ever added, so that nothing cancels.
        """
        kept = np.flatnonzero(weights)
        return self._with(lambda a: _weighted([a[i] for i in kept], [weights[i] for i in kept])[None])

    def fold(self, f: int) -> "Moments":
        """Return the moments of one cell, shapes (1, ...)."""
        return self._with(lambda a: a[f : f + 1])

    def total(self) -> "Moments":
        """Return the moments of all cells together, shapes (1, ...)."""
        return self.combine(np.ones(len(self.count)))

    def without(self, f: int) -> "Moments":
        """Return the moments of all cells but one, shapes (1, ...)."""
        return self.combine(np.arange(len(self.count)) != f)

    def prefix(self, n: int) -> "Moments":
        """Return the moments of the first n row and column landmarks."""
        return replace(self, sides=tuple(_pick(side, np.arange(min(n, side.frame.n))) for side in self.sides))

    def pick(self, index: np.ndarray) -> "Moments":
        """Return the moments of some of the landmarks, by their places in increasing order."""
        return replace(self, sides=tuple(_pick(side, index) for side in self.sides))


def _weighted(parts: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    out = weights[0] * parts[0]
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        out = np.add(out, part if weight == 1 else weight * part, out=out if np.ndim(out) else None)
    return out


def _each(function: Any, *sides: Side) -> Side:
    frame = sides[0].frame
    if any(side.frame != frame for side in sides[1:]):
        raise ValueError("Moments in different frames cannot be combined: gather them with the same frames.")
    return Side(frame, *(function(*(getattr(side, name) for side in sides)) for name in ("sums", "gram", "cross")))


def _pick(side: Side, index: np.ndarray) -> Side:
    frame, kept = side.frame.pick(index)
    return Side(frame, side.sums[:, kept], side.gram[:, kept][:, :, kept], side.cross[:, kept])


def _side(parts: Sequence[np.ndarray]) -> Side:
    eps, offset, pivots, weights, sums, half, cross = parts
    frame = Frame(len(offset), offset, pivots.astype(np.int64), weights, float(eps[0]))
    return Side(frame, sums, _symmetric(half, len(offset)), cross)


def _triangle(gram: np.ndarray) -> np.ndarray:
    """Return the upper triangles of (F, m, m), row by row from the diagonal on: (F, m (m + 1) / 2)."""
    return np.concatenate([gram[:, i, i:] for i in range(gram.shape[1])], axis=1)


def _symmetric(triangle: np.ndarray, m: int) -> np.ndarray:
    """Return the symmetric matrices (F, m, m) whose `_triangle` is given."""
    gram = np.empty((len(triangle), m, m))
    for i, row in enumerate(np.split(triangle, np.cumsum(range(m, 1, -1)), axis=1)):
        gram[:, i, i:] = gram[:, i:, i] = row
    return gram

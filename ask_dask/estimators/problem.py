"""What a fit is given and what it gives, whichever way it is solved."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ask_dask import blocks, nystrom
from ask_dask.estimators.outputs import Outputs
from ask_dask.estimators.selection import Weights
from ask_dask.kernels.base import Block, Kernel, LandmarkKernel
from ask_dask.moments import Rows

TYPICAL_ROWS = 256
"""Landmarks whose mean kernel columns are subtracted while moments are summed."""


@dataclass(frozen=True)
class Placed:
    """A kernel at landmarks, and the points that it needs.

    Attributes
    ----------
    row_points, column_points : (n, d) and (m, d) blocks
        One object where I = J.
    n_rows : int
        Training targets that the column landmarks stand for.
    targets : (N, d) block or None
        All training rows, for an exact normaliser.
    """

    kernel: Kernel
    row_points: Block
    column_points: Block
    n_rows: int
    targets: Block | None = None

    @classmethod
    def of(cls, kernel: Kernel, X: Any, row_points: Block, column_points: Block) -> "Placed":
        """Read all rows of X where the kernel needs them."""
        targets = blocks.take_rows(X, np.arange(X.shape[0])) if kernel.needs_targets else None
        return cls(kernel, row_points, column_points, X.shape[0], targets)

    def at_some(self, rows: np.ndarray, columns: np.ndarray, targets: np.ndarray) -> "Placed":
        """Return the kernel at some of the landmarks, by their places, and normalised over some of the targets."""
        row_points = self.row_points[rows]
        column_points = row_points if self.column_points is self.row_points else self.column_points[columns]
        known = None if self.targets is None else self.targets[targets]
        return replace(self, row_points=row_points, column_points=column_points, targets=known)

    def normalised_without(self, held_out: np.ndarray) -> "Placed":
        """Return the kernel at the same landmarks, normalised over the targets that are not held out, (N,) bool."""
        return replace(self, targets=None if self.targets is None else self.targets[np.flatnonzero(~held_out)])

    @cached_property
    def at(self) -> LandmarkKernel:
        """The kernel at the landmarks."""
        return self.kernel.at(self.row_points, self.column_points, self.n_rows, self.targets)

    @property
    def typical(self) -> Block:
        """A few rows, around whose kernel columns moments are summed."""
        return self.row_points[:TYPICAL_ROWS]

    def core(self, n: int | None = None) -> np.ndarray:
        """W at the first n landmarks, or at all, in float64 whatever the precision of the blocks: S^-1/2 amplifies its
        rounding."""
        rows = self.row_points.astype(np.float64)
        columns = rows if self.column_points is self.row_points else self.column_points.astype(np.float64)
        n = n or max(rows.shape[0], columns.shape[0])
        return self.kernel.at(rows, columns, self.n_rows, self.targets).prefix(n).source(rows[:n])

    @property
    def symmetric(self) -> bool:
        """Return whether f_s = f_t: the kernel is symmetric and each landmark is one of both roles."""
        return self.kernel.symmetric and self.column_points is self.row_points

    def feature_map(self, n: int) -> nystrom.FeatureMap:
        """Return the feature maps of the first n landmarks."""
        return nystrom.feature_map(self.core(n), nystrom.resolution(self.row_points.dtype), self.symmetric)


@dataclass(frozen=True)
class Problem:
    """Everything that is decided before the first pass over the data.

    Attributes
    ----------
    X : numpy, scipy.sparse, dask or zarr, (N, d)
    n_folds : int
        0 without cross-validation.
    landmarks : pair of int64 arrays
        Row numbers of the row and column landmarks.
    scored : (n,) increasing row numbers
        Rows that are scored when held out.
    steps : list
        Seconds and memory of each step are appended.
    """

    X: Any
    placed: Placed
    outputs: Outputs
    weights: Weights
    folds: np.ndarray
    n_folds: int
    gammas: tuple[float, ...]
    damping: float
    ridge: float
    seed: int
    landmarks: tuple[np.ndarray, np.ndarray]
    scored: np.ndarray
    steps: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> Rows:
        """The labels, folds and weights as a pass over the rows takes them."""
        folds = self.folds if self.n_folds else np.zeros_like(self.folds)
        return self.outputs.rows(folds, self.weights.fit)

    def left_without(self, fold: int) -> np.ndarray:
        """Return the places of the landmarks that are not in a fold, in either role."""
        out, lost = self.folds == fold, np.zeros(max(map(len, self.landmarks)), bool)
        for side in self.landmarks:
            lost[: len(side)] |= out[side]
        return np.flatnonzero(~lost)

    def without(self, fold: int, exact: bool) -> "tuple[Problem, np.ndarray]":
        """Return the problem of a training set whose held-out rows are unknown, and which landmarks are left in it.

        Neither a landmark nor a target of a normaliser is in the fold.

        Parameters
        ----------
        exact : bool
            Every row is a landmark: the rows of the fold are taken out, else they get the weight zero.
        """
        out, (I, J) = self.folds == fold, self.landmarks  # noqa: E741
        kept, rows = self.left_without(fold), np.flatnonzero(~out)
        placed = self.placed.at_some(kept[kept < len(I)], kept[kept < len(J)], rows)
        if exact:
            fit = None if self.weights.fit is None else self.weights.fit[rows]
            more: dict[str, Any] = {"X": placed.row_points, "outputs": self.outputs.some(rows)}
        else:
            fit, more = np.where(out, 0.0, 1.0 if self.weights.fit is None else self.weights.fit), {}
        n = len(rows) if exact else len(out)
        inside = replace(
            self, placed=placed, weights=Weights(fit), folds=np.zeros(n, self.folds.dtype), n_folds=0,
            scored=np.zeros(0, int), landmarks=(I[kept[kept < len(I)]], J[kept[kept < len(J)]]), **more,
        )  # fmt: skip
        return inside, kept

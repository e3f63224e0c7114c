"""A kernel placed at row and column landmarks: what every pass, core matrix and feature map starts from."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ask_dask import blocks, nystrom
from ask_dask.kernels.base import Block, Columns, Kernel, LandmarkKernel

TYPICAL_ROWS = 256
"""Landmarks whose mean kernel columns are subtracted while moments are summed."""


@dataclass(frozen=True)
class Basis:
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
    def of(cls, kernel: Kernel, X: Any, row_points: Block, column_points: Block) -> "Basis":
        """Read all rows of X where the kernel needs them."""
        targets = blocks.take_rows(X, np.arange(X.shape[0])) if kernel.needs_targets else None
        return cls(kernel, row_points, column_points, X.shape[0], targets)

    def at_some(self, rows: np.ndarray, columns: np.ndarray, targets: np.ndarray) -> "Basis":
        """Return the kernel at some of the landmarks, by their places, and normalised over some of the targets."""
        row_points = self.row_points[rows]
        column_points = row_points if self.column_points is self.row_points else self.column_points[columns]
        known = None if self.targets is None else self.targets[targets]
        return replace(self, row_points=row_points, column_points=column_points, targets=known)

    def normalised_without(self, held_out: np.ndarray) -> "Basis":
        """Return the kernel at the same landmarks, normalised over the targets that are not held out, (N,) bool."""
        return replace(self, targets=None if self.targets is None else self.targets[np.flatnonzero(~held_out)])

    @cached_property
    def at(self) -> LandmarkKernel:
        """The kernel at the landmarks."""
        return self.kernel.at(self.row_points, self.column_points, self.n_rows, self.targets)

    def columns(self, target: bool) -> Columns:
        """Return the kernel columns that a pass sums: those of both roles, or of the source alone."""
        return self.at if target else _Source(self.at)

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
class _Source:
    """The source's columns of a kernel at landmarks, where a pass takes those of both roles."""

    at: LandmarkKernel

    def both(self, X: Block) -> tuple[np.ndarray, np.ndarray]:
        C = self.at.source(X)
        return C, C

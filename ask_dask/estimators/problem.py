"""What a fit is given and what it gives, whichever way it is solved."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ask_dask import blocks, nystrom
from ask_dask.estimators.outputs import Outputs
from ask_dask.estimators.selection import Weights
from ask_dask.kernels.base import Block, Kernel, LandmarkKernel
from ask_dask.moments import Rows
from ask_dask.solve import Solution

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

    def feature_map(self, n: int) -> nystrom.FeatureMap:
        """Of the first n landmarks."""
        return nystrom.feature_map(self.core(n), nystrom.resolution(self.row_points.dtype))


@dataclass(frozen=True)
class Problem:
    """Everything that is decided before the first pass over the data.

    Attributes
    ----------
    X : numpy, scipy.sparse, dask or zarr, (N, d)
    n_folds : int
        0 without cross-validation.
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
    scored: np.ndarray
    steps: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> Rows:
        """As the pass over the data takes them."""
        return self.outputs.rows(self.folds, self.weights.fit)


@dataclass(frozen=True)
class Fitted:
    """The models of one (landmark count, gamma) pair.

    Attributes
    ----------
    everything : Solution
        Of all rows.
    fold_mean : Solution or None
        The mean of the models of the folds.
    singular_values : (r,) array
        Of the centred kernel matrix, or of its approximation.
    solver : dict
        How it was solved, ready for JSON; "name" is "landmarks", "dense" or "minres".
    """

    everything: Solution
    fold_mean: Solution | None
    singular_values: np.ndarray
    solver: dict[str, Any]

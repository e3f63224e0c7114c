"""The problem of a fit: everything that is decided before the first pass."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ask_dask.basis import Basis
from ask_dask.fit.outputs import Outputs
from ask_dask.fit.selection import Weights
from ask_dask.moments import Rows
from ask_dask.solve import AsKLSSolve, Solve


@dataclass(frozen=True)
class Problem:
    """Everything that is decided before the first pass over the data.

    Attributes
    ----------
    X : numpy, scipy.sparse, dask or zarr, (N, d)
    n_folds : int
        0 without cross-validation.
    solve : Solve
        The method.
    landmarks : pair of int64 arrays
        Row numbers of the row and column landmarks.
    scored : (n,) increasing row numbers
        Rows that are scored when held out.
    unlike_new : row numbers, or None
        Rows that are not scored when held out, since they are not like new ones; None where all are.
    steps : list
        Seconds and memory of each step are appended.
    """

    X: Any
    basis: Basis
    outputs: Outputs
    weights: Weights
    folds: np.ndarray
    n_folds: int
    solve: Solve
    seed: int
    landmarks: tuple[np.ndarray, np.ndarray]
    scored: np.ndarray
    unlike_new: np.ndarray | None = None
    steps: list[dict[str, Any]] = field(default_factory=list)

    @property
    def askls(self) -> AsKLSSolve:
        """The method of a problem that is AsK-LS, as every problem is that is solved without moments."""
        assert isinstance(self.solve, AsKLSSolve)
        return self.solve

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
        basis = self.basis.at_some(kept[kept < len(I)], kept[kept < len(J)], rows)
        if exact:
            fit = None if self.weights.fit is None else self.weights.fit[rows]
            more: dict[str, Any] = {"X": basis.row_points, "outputs": self.outputs.some(rows)}
        else:
            fit, more = np.where(out, 0.0, 1.0 if self.weights.fit is None else self.weights.fit), {}
        n = len(rows) if exact else len(out)
        inside = replace(
            self, basis=basis, weights=Weights(fit), folds=np.zeros(n, self.folds.dtype), n_folds=0,
            scored=np.zeros(0, int), landmarks=(I[kept[kept < len(I)]], J[kept[kept < len(J)]]), **more,
        )  # fmt: skip
        return inside, kept

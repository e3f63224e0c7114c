"""AsK-LS exactly, every row a landmark: from the whole kernel matrix, or from its tiles by iteration."""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any

import dask
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ask_dask import blocks, budget, compute, landmarks, moments
from ask_dask.estimators.problem import Fitted, Placed, Problem
from ask_dask.estimators.selection import HeldOut
from ask_dask.kernels.base import Block, LandmarkKernel
from ask_dask.solve import (
    Convergence,
    DenseSystem,
    IterativeSystem,
    LandmarkSystem,
    Preconditioner,
    Solution,
    Tiles,
    mean_solution,
)
from ask_dask.store import Checkpoint


class Dense:
    """The solutions of every gamma from the whole kernel matrix: one decomposition a training set."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.n = problem, len(problem.folds)
        self.pairs = [(self.n, gamma) for gamma in problem.gammas]
        with compute.measured(problem.steps, "kernel matrix"):
            self.K = Tiles(problem.placed.at, self.n).matrix()
        self.Y = problem.outputs.Y(slice(None))

    def held_out(self) -> HeldOut:
        """Discriminants of every row from the models that have not seen its label."""
        p, task = self.problem, dask.delayed(self._fold, pure=False)
        with compute.measured(p.steps, "solve"):
            found = compute.run([task(f) for f in range(p.n_folds)], "solving", "decompositions", local=True)
        self.solutions = [solutions for solutions, _ in found]
        f = np.empty((len(p.gammas), self.n, 2 * self.Y.shape[1]))
        for fold, (_, values) in enumerate(found):
            f[:, p.folds == fold] = values
        return HeldOut(p.scored, f[:, p.scored])

    def _fold(self, fold: int) -> tuple[list[Solution], np.ndarray]:
        """The solutions of every gamma without a fold, at all points, and the discriminants of the fold's rows."""
        test, train = (np.flatnonzero(self.problem.folds == fold), np.flatnonzero(self.problem.folds != fold))
        with compute.one_blas_thread():
            path = self._system(train).path(self.problem.gammas, self.problem.damping)
            C, R = self.K[np.ix_(test, train)], self.K[np.ix_(train, test)].T
            values = [np.hstack([C @ s.source + s.intercepts[0], R @ s.target + s.intercepts[1]]) for s in path]
        return [_spread(s, train, self.n) for s in path], np.stack(values)

    def _system(self, rows: np.ndarray) -> DenseSystem:
        weights = self.problem.weights.fit
        K = self.K if len(rows) == self.n else self.K[np.ix_(rows, rows)]
        return DenseSystem(K, self.Y[rows], None if weights is None else weights[rows])

    def fitted(self, pair: int) -> Fitted:
        """The models at one gamma."""
        gamma = self.problem.gammas[pair]
        with compute.measured(self.problem.steps, "solve on all rows"):
            system = self._system(np.arange(self.n))
            everything = system.solve(gamma, self.problem.damping)
        mean = mean_solution([fold[pair] for fold in self.solutions]) if self.problem.n_folds else None
        return Fitted(everything, mean, system.singular_values, {"name": "dense"})

    def finished(self) -> None:
        """Nothing was kept on the way."""


class Iterative:
    """The solutions of every gamma by MINRES on kernel tiles, all training sets together.

    Parameters
    ----------
    problem : Problem
    n_landmarks : int
        Of the Nystrom approximation that preconditions; 0 is none.
    tol, max_iter : float, int
        Relative residual to reach, and most iterations.
    checkpoint : Checkpoint, optional
    """

    def __init__(
        self, problem: Problem, n_landmarks: int, tol: float, max_iter: int, checkpoint: Checkpoint | None = None
    ) -> None:
        self.problem, self.n, self.checkpoint = problem, len(problem.folds), checkpoint
        self.pairs = [(self.n, gamma) for gamma in problem.gammas]
        with compute.measured(problem.steps, "preconditioner"):
            self.nystrom = _nystrom(problem, n_landmarks) if n_landmarks else None
        with compute.measured(problem.steps, "minres"):
            self.system = IterativeSystem(
                Tiles(problem.placed.at, self.n), problem.outputs.Y(slice(None)), _training_sets(problem),
                problem.gammas, problem.damping, self.nystrom,
            )  # fmt: skip
            with checkpoint.kept() if checkpoint else nullcontext():
                self.found = self.system.solve(tol, max_iter, checkpoint)
        if not self.found.converged:
            warnings.warn(_why_not(self.found, tol, problem.gammas), ConvergenceWarning, stacklevel=4)

    def held_out(self) -> HeldOut:
        """Discriminants of every row from the models that have not seen its label."""
        p, rows = self.problem, self.problem.scored
        f = np.empty((len(p.gammas), len(rows), self.system.discriminants(0, 0).shape[1]))
        for fold in range(p.n_folds):
            here = np.flatnonzero(p.folds[rows] == fold)
            for g in range(len(p.gammas)):
                f[g, here] = self.system.discriminants(fold, g)[rows[here]]
        return HeldOut(rows, f)

    def fitted(self, pair: int) -> Fitted:
        """The models at one gamma; singular values are those of the approximation, and the one found near 1/gamma."""
        sigma = self.nystrom.systems[-1].singular_values if self.nystrom else np.zeros(0)
        nearest = self.system.nearest_singular_values[pair]
        if nearest is not None:
            sigma = np.sort(np.append(sigma, nearest))[::-1]
        folds = [self.system.solution(f, pair, sigma) for f in range(self.problem.n_folds)]
        everything = self.system.solution(self.problem.n_folds, pair, sigma)
        solver: dict[str, Any] = {"name": "minres"} | asdict(self.found)
        return Fitted(everything, mean_solution(folds) if folds else None, sigma, solver)

    def finished(self) -> None:
        """Remove the checkpoint, unless more iterations may go on from it."""
        if self.checkpoint and self.found.converged:
            self.checkpoint.remove()


def _training_sets(problem: Problem) -> np.ndarray:
    """(N, F) weights: each fold left out, then all rows."""
    weights = np.ones(len(problem.folds)) if problem.weights.fit is None else problem.weights.fit
    without = [weights * (problem.folds != f) for f in range(problem.n_folds)]
    return np.column_stack([*without, weights])


def _nystrom(problem: Problem, n_landmarks: int) -> Preconditioner:
    """The approximation at a uniform sample of landmarks, and its system for each training set."""
    points, n = problem.X, len(problem.folds)
    chosen = points[landmarks.uniform(n, n_landmarks, problem.seed)]
    placed = Placed.of(problem.placed.kernel, points, chosen, chosen)
    found = moments.gather(points, problem.rows, max(1, problem.n_folds), placed.at, placed.typical)
    maps, total = placed.feature_map(n_landmarks), found.total()
    training = [total - found.fold(f) for f in range(problem.n_folds)] + [total]
    columns = partial(_columns, placed.at, n_landmarks)
    C, R = np.hsplit(blocks.map_rows(points, columns, 2 * n_landmarks, "preconditioner"), 2)
    return Preconditioner(C, R, [LandmarkSystem(part, maps) for part in training])


def _columns(at: LandmarkKernel, m: int, X: Block) -> np.ndarray:
    """[C, R] of some rows, (n, 2 m) float64, of which few are worked on at a time."""
    found = np.empty((X.shape[0], 2 * m))
    for part in blocks.row_blocks(X, budget.cache_rows(m)):
        found[part] = np.hstack(at.both(X[part]))
    return found


def _spread(solution: Solution, rows: np.ndarray, n: int) -> Solution:
    """A solution at some rows as one at all, with zeros elsewhere."""
    source, target = (np.zeros((n, part.shape[1])) for part in (solution.source, solution.target))
    source[rows], target[rows] = solution.source, solution.target
    return Solution(source, target, solution.intercepts, solution.condition_number)


def _why_not(found: Convergence, tol: float, gammas: Sequence[float]) -> str:
    return (
        f"minres stopped after {found.iterations} iterations at a relative residual of {found.relative_residual:.1e}, "
        f"where {tol:g} was wanted: singular values of the kernel lie close around 1/gamma (gamma up to "
        f"{max(gammas):g}) where the preconditioner does not know them; raise max_iter or the preconditioner's "
        "landmarks, lower gamma, or set damping."
    )

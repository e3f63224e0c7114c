"""AsK-LS exactly, every row a landmark: from the whole kernel matrix, or from its tiles by iteration."""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ask_dask import blocks, budget, compute, landmarks, moments
from ask_dask.basis import Basis
from ask_dask.fit.problem import Problem
from ask_dask.fit.selection import HeldOut
from ask_dask.fit.solved import Solved, spread
from ask_dask.kernels.base import Block, LandmarkKernel
from ask_dask.moments import Centred
from ask_dask.solve import (
    Convergence,
    DenseSystem,
    IterativeSystem,
    LandmarkSystem,
    Model,
    Preconditioner,
    Solution,
    Tiles,
)
from ask_dask.store import Checkpoint


def dense(problem: Problem) -> Solved:
    """Return the solutions of every gamma from the whole kernel matrix: one decomposition a training set."""
    n, p = len(problem.folds), problem
    with compute.measured(p.steps, "kernel matrix"):
        K = Tiles(p.basis.at, n).matrix()
    Y, weights = p.outputs.Y(slice(None)), p.weights.fit

    def system(rows: np.ndarray) -> DenseSystem:
        inside = K if len(rows) == n else K[np.ix_(rows, rows)]
        return DenseSystem(inside, Y[rows], None if weights is None else weights[rows], p.basis.symmetric)

    def without(fold: int) -> tuple[list[Solution], np.ndarray]:
        """Solve without a fold, at all points, and return the discriminants of the fold's rows too."""
        test, train = np.flatnonzero(p.folds == fold), np.flatnonzero(p.folds != fold)
        with compute.one_blas_thread():
            path = system(train).path(p.askls.grid, p.askls.damping)
            C, R = K[np.ix_(test, train)], K[np.ix_(train, test)].T
            values = [np.hstack([C @ s.source + s.intercepts[0], R @ s.target + s.intercepts[1]]) for s in path]
        return [spread(s, train, n) for s in path], np.stack(values)

    with compute.measured(p.steps, "solve"):
        jobs = [compute.task(without)(fold) for fold in range(p.n_folds)]
        found = compute.run(jobs, "solving", "decompositions", local=True) if jobs else []
    with compute.measured(p.steps, "solve on all rows"):
        whole = system(np.arange(n))
        models = [Model(s, whole.singular_values, whole.poles, {"name": "dense"})
                  for s in whole.path(p.askls.grid, p.askls.damping)]  # fmt: skip
    pairs = [(n, gamma) for gamma in p.askls.grid]
    if not found:
        return Solved(pairs, models, [])
    f = np.empty((len(p.askls.grid), n, 2 * Y.shape[1]))
    for fold, (_, values) in enumerate(found):
        f[:, p.folds == fold] = values
    return Solved(pairs, models, [solutions for solutions, _ in found], HeldOut(p.scored, f[:, p.scored]))


def iterative(
    problem: Problem, n_landmarks: int, tol: float, max_iter: int, checkpoint: Checkpoint | None = None
) -> Solved:
    """Return the solutions of every gamma by MINRES on kernel tiles, all training sets together.

    The singular values of a model are those of the preconditioner, and the one found near 1/gamma.

    Parameters
    ----------
    problem : Problem
    n_landmarks : int
        Landmarks of the Nystrom approximation that preconditions; 0 is none.
    tol, max_iter : float, int
        Relative residual to reach, and most iterations.
    checkpoint : Checkpoint, optional
    """
    p, n = problem, len(problem.folds)
    with compute.measured(p.steps, "preconditioner"):
        nystrom = _nystrom(p, n_landmarks) if n_landmarks else None
    with compute.measured(p.steps, "minres"):
        Y = p.outputs.Y(slice(None))
        system = IterativeSystem(
            Tiles(p.basis.at, n),
            Y,
            _training_sets(p),
            p.askls.grid,
            p.askls.damping,
            nystrom,
            symmetric=p.basis.symmetric,
        )
        with checkpoint.kept() if checkpoint else nullcontext():
            found = system.solve(tol, max_iter, checkpoint)
    if not found.converged:
        warnings.warn(_why_not(found, tol, p.askls.grid), ConvergenceWarning, stacklevel=4)
    models: list[Model] = []
    folds: list[list[Solution]] = [[] for _ in range(p.n_folds)]
    known = nystrom.systems[-1].singular_values if nystrom else np.zeros(0)
    for g in range(len(p.askls.grid)):
        nearest = system.nearest_singular_values[g]
        sigma = known if nearest is None else np.sort(np.append(known, nearest))[::-1]
        solver: dict[str, Any] = {"name": "minres"} | asdict(found)
        poles = np.zeros(0) if p.basis.symmetric else sigma
        models.append(Model(system.solution(p.n_folds, g, sigma), sigma, poles, solver))
        for fold, solutions in enumerate(folds):
            solutions.append(system.solution(fold, g, sigma))
    f = np.empty((len(p.askls.grid), len(p.scored), 2 * Y.shape[1]))
    for fold in range(p.n_folds):
        here = np.flatnonzero(p.folds[p.scored] == fold)
        for g in range(len(p.askls.grid)):
            f[g, here] = system.discriminants(fold, g)[p.scored[here]]
    pairs = [(n, gamma) for gamma in p.askls.grid]
    kept = checkpoint if found.converged else None  # more iterations may go on from it
    return Solved(pairs, models, folds, HeldOut(p.scored, f) if folds else None, checkpoint=kept)


def _training_sets(problem: Problem) -> np.ndarray:
    """(N, F) weights: each fold left out, then all rows."""
    weights = np.ones(len(problem.folds)) if problem.weights.fit is None else problem.weights.fit
    without = [weights * (problem.folds != f) for f in range(problem.n_folds)]
    return np.column_stack([*without, weights])


def _nystrom(problem: Problem, n_landmarks: int) -> Preconditioner:
    """The approximation at a uniform sample of landmarks, and its system for each training set."""
    points, n = problem.X, len(problem.folds)
    chosen = points[landmarks.uniform(n, n_landmarks, problem.seed)]
    basis = Basis.of(problem.basis.kernel, points, chosen, chosen)
    found = moments.gather(points, problem.rows, max(1, problem.n_folds), basis.at, basis.typical)
    maps = basis.feature_map(n_landmarks)
    training = [*map(found.without, range(problem.n_folds)), found.total()]
    columns = partial(_columns, basis.at, n_landmarks)
    C, R = np.hsplit(blocks.map_rows(points, columns, 2 * n_landmarks, "preconditioner"), 2)
    return Preconditioner(C, R, [LandmarkSystem(Centred.of(part, maps)) for part in training])


def _columns(at: LandmarkKernel, m: int, X: Block) -> np.ndarray:
    """[C, R] of some rows, (n, 2 m) float64, of which few are worked on at a time."""
    found = np.empty((X.shape[0], 2 * m))
    for part in blocks.row_blocks(X, budget.cache_rows(m)):
        found[part] = np.hstack(at.both(X[part]))
    return found


def _why_not(found: Convergence, tol: float, gammas: Sequence[float]) -> str:
    return (
        f"minres stopped after {found.iterations} iterations at a relative residual of {found.relative_residual:.1e}, "
        f"where {tol:g} was wanted: singular values of the kernel lie close around 1/gamma (gamma up to "
        f"{max(gammas):g}) where the preconditioner does not know them; raise max_iter or the preconditioner's "
        "landmarks, lower gamma, or set damping."
    )

"""AsK-LS on many landmarks, without their moments: every step of MINRES is one pass over the rows."""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ask_dask import blocks, compute, landmarks
from ask_dask.fit.problem import Problem
from ask_dask.fit.solved import Solved, held_out_of
from ask_dask.nystrom import FeatureMap
from ask_dask.solve import BlockwiseSystem, Convergence, Model, Passes, Sums, balanced, unresolved
from ask_dask.store import Checkpoint

SAMPLED = 3
"""Rows for each landmark in the sample that preconditions."""


def blockwise(
    problem: Problem,
    counts: Sequence[int],
    tol: float,
    max_iter: int,
    sampled: int | None = None,
    checkpoint: Checkpoint | None = None,
) -> Solved:
    """Return the solutions of every (landmark count, gamma) pair; a landmark count after the other.

    The singular values of a model are those of the sample, and the one found near 1/gamma.

    Parameters
    ----------
    problem : Problem
    counts : increasing numbers of landmarks, the last one that of the problem's landmarks
    tol, max_iter : float, int
        Relative residual to reach, and most iterations of each landmark count.
    sampled : int, optional
        Rows of the sample that preconditions, by default three a landmark; with 0 the core matrix does.
    checkpoint : Checkpoint, optional
        Of the last count's iterate.
    """
    p, models, every = problem, [], []
    folds: list[list[Any]] = [[] for _ in range(p.n_folds)]
    for n in counts:
        kept = checkpoint if n == counts[-1] else None
        system, maps = _system(p, n, sampled)
        measured = compute.measured(p.steps, "minres", **blocks.cut(p.X, n))
        with measured, kept.kept() if kept else nullcontext():
            found = system.solve(tol, max_iter, kept)
        every.append(found)
        for g in range(len(p.askls.grid)):
            sigma = system.singular_values(g)
            solver = {"name": "landmarks", "precision": p.basis.row_points.dtype.name} | asdict(found)
            poles = np.zeros(0) if system.roles == 1 else sigma
            left_out = unresolved(maps, system.sums.count[-1], p.askls.grid[g], p.askls.damping)
            everything = replace(system.solution(p.n_folds, g), unresolved=left_out)
            models.append(Model(everything, sigma, poles, solver, p.askls.grid[g] / left_out if left_out > 1 else None))
            for fold, solutions in enumerate(folds):
                solutions.append(system.solution(fold, g))
    if not all(found.converged for found in every):
        warnings.warn(_why_not(every, tol, p.askls.grid), ConvergenceWarning, stacklevel=4)
    kept = checkpoint if every[-1].converged else None  # more iterations may go on from it
    pairs = [(n, gamma) for n in counts for gamma in p.askls.grid]
    return Solved(pairs, models, folds, held_out_of(p, folds), checkpoint=kept)


def _system(p: Problem, n: int, sampled: int | None) -> tuple[BlockwiseSystem, FeatureMap]:
    at = p.basis.at.prefix(n)
    with compute.measured(p.steps, "core matrix"), compute.one_blas_thread():
        maps = p.basis.feature_map(n)
    C, R = at.both(p.basis.row_points[:1])
    roles = 1 if C is R and maps.target is maps.source else 2
    sizes = [len(maps.source), len(maps.target)][:roles]
    passes = Passes(p.X, p.rows, at, p.n_folds, sizes)
    with compute.measured(p.steps, "sums"):
        sums = Sums(passes, p.n_folds)
    with compute.measured(p.steps, "preconditioner"), compute.one_blas_thread():
        basis = _basis(p, maps, sums, at, sizes, sampled)
    return BlockwiseSystem(passes, sums, basis, p.askls.grid, p.askls.damping, p.seed), maps


def _basis(
    p: Problem, maps: FeatureMap, sums: Sums, at: Any, sizes: Sequence[int], sampled: int | None
) -> balanced.Balanced:
    """Return the basis that is balanced on a uniform sample of rows; its weights are scaled to those of all rows."""
    n_rows = p.X.shape[0]
    count = min(n_rows, SAMPLED * max(sizes) if sampled is None else sampled)
    if not count:
        return balanced.of_core(maps, sums.count[-1], len(sizes))
    rows = np.sort(landmarks.uniform(n_rows, count, [p.seed, 4]))
    weights = np.ones(count) if p.weights.fit is None else p.weights.fit[rows]
    sample = balanced.Sample(blocks.take_rows(p.X, rows), weights * (sums.count[-1] / weights.sum()))
    return balanced.of_sample(maps, len(sizes), sample, at, [mean[:, -1] for mean in sums.means])


def _why_not(found: Sequence[Convergence], tol: float, gammas: Sequence[float]) -> str:
    worst = max(found, key=lambda each: each.relative_residual)
    return (
        f"minres stopped after {worst.iterations} iterations at a relative residual of {worst.relative_residual:.1e}, "
        f"where {tol:g} was wanted: singular values of the kernel lie close around 1/gamma (gamma up to "
        f"{max(gammas):g}); raise max_iter or the preconditioner's rows, lower gamma, or set damping."
    )

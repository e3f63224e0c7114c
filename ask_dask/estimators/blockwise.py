"""AsK-LS on many landmarks, without their moments: every step of MINRES is one pass over the rows."""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ask_dask import blocks, compute, landmarks
from ask_dask.estimators.problem import Fitted, Problem
from ask_dask.estimators.selection import HeldOut, predict_held_out
from ask_dask.nystrom import FeatureMap
from ask_dask.solve import BlockwiseSystem, Convergence, Passes, Solution, Sums, balanced, mean_solution
from ask_dask.store import Checkpoint

SAMPLED = 3
"""Rows for each landmark in the sample that preconditions."""


class Blockwise:
    """The solutions of every (landmark count, gamma) pair; a landmark count after the other.

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

    Attributes
    ----------
    pairs : list of (landmark count, gamma)
    """

    def __init__(
        self,
        problem: Problem,
        counts: Sequence[int],
        tol: float,
        max_iter: int,
        sampled: int | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.problem, self.counts, self.checkpoint, self.sampled = problem, counts, checkpoint, sampled
        self.pairs = [(n, gamma) for n in counts for gamma in problem.gammas]
        self.systems: list[BlockwiseSystem] = []
        self.found: list[Convergence] = []
        for n in counts:
            kept = checkpoint if n == counts[-1] else None
            system = self._system(n)
            measured = compute.measured(problem.steps, "minres", **blocks.cut(problem.X, n))
            with measured, kept.kept() if kept else nullcontext():
                self.found.append(system.solve(tol, max_iter, kept))
            self.systems.append(system)
        if not all(found.converged for found in self.found):
            warnings.warn(_why_not(self.found, tol, problem.gammas), ConvergenceWarning, stacklevel=4)

    def _system(self, n: int) -> BlockwiseSystem:
        p, at = self.problem, self.problem.placed.at.prefix(n)
        with compute.measured(p.steps, "core matrix"), compute.one_blas_thread():
            maps = p.placed.feature_map(n)
        C, R = at.both(p.placed.row_points[:1])
        roles = 1 if C is R and maps.target is maps.source else 2
        sizes = [len(maps.source), len(maps.target)][:roles]
        passes = Passes(p.X, p.rows, at, p.n_folds, sizes)
        with compute.measured(p.steps, "sums"):
            sums = Sums(passes, p.n_folds)
        with compute.measured(p.steps, "preconditioner"), compute.one_blas_thread():
            basis = self._basis(maps, sums, at, sizes)
        return BlockwiseSystem(passes, sums, basis, p.gammas, p.damping, p.seed)

    def _basis(self, maps: FeatureMap, sums: Sums, at: Any, sizes: Sequence[int]) -> balanced.Balanced:
        """Balanced on a uniform sample of rows; its weights are scaled to those of all rows."""
        p, n_rows = self.problem, self.problem.X.shape[0]
        count = min(n_rows, SAMPLED * max(sizes) if self.sampled is None else self.sampled)
        if not count:
            return balanced.of_core(maps, sums.count[-1], len(sizes))
        rows = np.sort(landmarks.uniform(n_rows, count, [p.seed, 4]))
        weights = np.ones(count) if p.weights.fit is None else p.weights.fit[rows]
        sample = balanced.Sample(blocks.take_rows(p.X, rows), weights * (sums.count[-1] / weights.sum()))
        return balanced.of_sample(maps, len(sizes), sample, at, [mean[:, -1] for mean in sums.means])

    def held_out(self) -> HeldOut:
        """Discriminants of the scored rows, each from the models that have not seen its label."""
        p, gammas = self.problem, range(len(self.problem.gammas))
        self.solutions = [[system.solution(f, g) for system in self.systems for g in gammas] for f in range(p.n_folds)]
        with compute.measured(p.steps, "held-out scores"):
            return predict_held_out(p.X, p.placed.at, self.solutions, p.folds, p.scored)

    def fitted(self, pair: int) -> Fitted:
        """The models of one pair; singular values are those of the sample, and the one found near 1/gamma."""
        place, g = divmod(pair, len(self.problem.gammas))
        system, n_folds = self.systems[place], self.problem.n_folds
        mean = mean_solution([fold[pair] for fold in self.solutions]) if n_folds else None
        solver: dict[str, Any] = {"name": "landmarks"} | asdict(self.found[place])
        return Fitted(system.solution(n_folds, g), mean, system.singular_values(g), solver)

    def on_all_rows(self, gamma: float) -> dict[int, Solution]:
        """The model of all rows at every landmark count."""
        g, everything = self.problem.gammas.index(gamma), self.problem.n_folds
        return {n: system.solution(everything, g) for n, system in zip(self.counts, self.systems, strict=True)}

    def finished(self) -> None:
        """Remove the checkpoint, unless more iterations may go on from it."""
        if self.checkpoint and self.found[-1].converged:
            self.checkpoint.remove()


def _why_not(found: Sequence[Convergence], tol: float, gammas: Sequence[float]) -> str:
    worst = max(found, key=lambda each: each.relative_residual)
    return (
        f"minres stopped after {worst.iterations} iterations at a relative residual of {worst.relative_residual:.1e}, "
        f"where {tol:g} was wanted: singular values of the kernel lie close around 1/gamma (gamma up to "
        f"{max(gammas):g}); raise max_iter or the preconditioner's rows, lower gamma, or set damping."
    )

"""AsK-LS on landmarks: one pass gives every pair's models, one more their scores on held-out rows."""

from collections.abc import Sequence

import dask

from ask_dask import blocks, compute, moments
from ask_dask.estimators.problem import Fitted, Problem
from ask_dask.estimators.selection import HeldOut, predict_held_out
from ask_dask.moments import Moments
from ask_dask.solve import LandmarkSystem, Solution, mean_solution
from ask_dask.store import Checkpoint


class OnLandmarks:
    """The solutions of every (landmark count, gamma) pair.

    Parameters
    ----------
    problem : Problem
    counts : increasing numbers of landmarks, the last one that of the problem's landmarks
    checkpoint : Checkpoint, optional

    Attributes
    ----------
    pairs : list of (landmark count, gamma)
    """

    def __init__(self, problem: Problem, counts: Sequence[int], checkpoint: Checkpoint | None = None) -> None:
        self.problem, self.counts, self.checkpoint = problem, counts, checkpoint
        self.pairs = [(n, gamma) for n in counts for gamma in problem.gammas]
        with compute.measured(problem.steps, "moments", **blocks.cut(problem.X, counts[-1])):
            placed = problem.placed
            self.found = moments.gather(
                problem.X, problem.rows, max(1, problem.n_folds), placed.at, placed.typical, checkpoint
            )
        with compute.measured(problem.steps, "core matrix"), compute.one_blas_thread():
            self.maps = {n: placed.feature_map(n) for n in counts}

    def held_out(self) -> HeldOut:
        """Discriminants of the scored rows, each from the models that have not seen its label."""
        with compute.measured(self.problem.steps, "solve"):
            self.solutions = self._fold_solutions()
        with compute.measured(self.problem.steps, "held-out scores"):
            p = self.problem
            return predict_held_out(p.X, p.placed.at, self.solutions, p.folds, p.scored)

    def _fold_solutions(self) -> list[list[Solution]]:
        """Per fold, the solutions of every pair trained without that fold."""
        total, width = self.found.total(), len(self.counts)

        def path(n: int, fold: int) -> list[Solution]:
            return self._path(total.prefix(n) - self.found.fold(fold).prefix(n), n)

        jobs = [dask.delayed(path, pure=False)(n, f) for f in range(self.problem.n_folds) for n in self.counts]
        paths = compute.run(jobs, "solving", "systems", local=True)
        return [[s for path in paths[f : f + width] for s in path] for f in range(0, len(paths), width)]

    def _path(self, training: Moments, n: int) -> list[Solution]:
        p = self.problem
        with compute.one_blas_thread():
            return LandmarkSystem(training, self.maps[n]).path(p.gammas, p.damping, p.ridge)

    def fitted(self, pair: int) -> Fitted:
        """The models of one pair."""
        n, gamma = self.pairs[pair]
        system, everything = self._everything(n, gamma)
        mean = mean_solution([fold[pair] for fold in self.solutions]) if self.problem.n_folds else None
        return Fitted(everything, mean, system.singular_values, {"name": "landmarks"})

    def _everything(self, n: int, gamma: float) -> tuple[LandmarkSystem, Solution]:
        with compute.measured(self.problem.steps, "solve on all rows"), compute.one_blas_thread():
            system = LandmarkSystem(self.found.total().prefix(n), self.maps[n])
            return system, system.solve(gamma, self.problem.damping, self.problem.ridge)

    def on_all_rows(self, gamma: float) -> dict[int, Solution]:
        """The model of all rows at every landmark count."""
        return {n: self._everything(n, gamma)[1] for n in self.counts}

    def finished(self) -> None:
        """Remove the checkpoint."""
        if self.checkpoint:
            self.checkpoint.remove()

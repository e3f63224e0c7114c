"""AsK-LS on landmarks: one pass gives every pair's models, one more their scores on held-out rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import dask
import numpy as np

from ask_dask import blocks, compute, moments
from ask_dask.estimators.outputs import Outputs
from ask_dask.estimators.problem import Problem
from ask_dask.estimators.solved import Solved, held_out_of
from ask_dask.moments import Centred
from ask_dask.solve import Model, Solution
from ask_dask.store import Checkpoint


def on_landmarks(problem: Problem, counts: Sequence[int], checkpoint: Checkpoint | None = None) -> Solved:
    """Return the solutions at every landmark count and value of the method's grid, from the moments of one pass.

    Parameters
    ----------
    problem : Problem
    counts : increasing numbers of landmarks, the last one that of the problem's landmarks
    checkpoint : Checkpoint, optional
        Where the sums of the pass are kept.
    """
    basis, units, method = problem.basis, _Units.of(problem.outputs), problem.solve
    with compute.measured(problem.steps, "moments", **blocks.cut(problem.X, counts[-1])):
        rows = replace(problem.rows, outputs=partial(units.encode, problem.rows.outputs))
        columns = basis.columns(method.wants.target)
        diagonal = basis.kernel.diagonal if method.wants.diagonal else None
        found = moments.gather(
            problem.X, rows, max(1, problem.n_folds), columns, basis.typical, checkpoint, diagonal=diagonal
        )
    with compute.measured(problem.steps, "core matrix"), compute.one_blas_thread():
        maps = {n: basis.feature_map(n) for n in counts}
    with compute.measured(problem.steps, "solve"):

        def solve(n: int, fold: int | None) -> list[Model]:
            smaller = found.prefix(n)
            with compute.one_blas_thread():
                training = Centred.of(smaller.total() if fold is None else smaller.without(fold), maps[n])
                state = method.decompose(training)
                if fold is None:
                    return [method.model(state, value) for value in method.grid]
                return [Model(method.solve(state, value)) for value in method.grid]

        sets = [*range(problem.n_folds), None]
        jobs = [dask.delayed(solve, pure=False)(n, fold) for fold in sets for n in counts]
        solved = iter(compute.run(jobs, "solving", "systems", local=True))
        *folds, models = [[model for _ in counts for model in next(solved)] for _ in sets]
    pairs = [(n, value) for n in counts for value in method.grid]
    solver = {"name": "landmarks", "precision": basis.row_points.dtype.name}
    models = [replace(model, solution=units.undone(model.solution), solver=solver | model.solver) for model in models]
    solutions = [[units.undone(model.solution) for model in fold] for fold in folds]
    return Solved(pairs, models, solutions, held_out_of(problem, solutions), checkpoint=checkpoint)


@dataclass(frozen=True)
class _Units:
    """A shift and scale of real labels, so that sums in float32 have numbers of the size 1 about 0.

    Attributes
    ----------
    centre, scale : (q,)
    """

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, outputs: Outputs) -> "_Units":
        if outputs.task != "regression":
            return cls(np.zeros(outputs.q), np.ones(outputs.q))
        scale = outputs.y.std(0)
        return cls(outputs.y.mean(0), np.where(scale > 0, scale, 1.0))

    def encode(self, outputs: Any, y: Any) -> np.ndarray:
        """Return Y of some rows in these units."""
        return (outputs(y) - self.centre) / self.scale

    def undone(self, solution: Solution) -> Solution:
        """Return a solution in these units as one for the labels as they are."""
        return solution.of_units(self.centre, self.scale)

"""AsK-LS on landmarks: one pass gives every pair's models, one more their scores on held-out rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ask_dask import blocks, compute, moments
from ask_dask.fit.problem import Problem
from ask_dask.fit.solved import Errors, Solved, held_out_of, moments_of
from ask_dask.fit.units import Units
from ask_dask.moments import Centred, Moments
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
    basis, units, method = problem.basis, Units.of(problem), problem.solve
    with compute.measured(problem.steps, "moments", **blocks.cut(problem.X, counts[-1])):
        rows, columns = units.rows(problem.rows), basis.columns(method.wants.target)
        diagonal = basis.kernel.diagonal if method.wants.diagonal else None
        found = moments.gather(
            problem.X,
            rows,
            max(1, problem.n_folds),
            columns,
            basis.typical,
            checkpoint,
            diagonal=diagonal,
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
        jobs = [compute.task(solve)(n, fold) for fold in sets for n in counts]
        solved = iter(compute.run(jobs, "solving", "systems", local=True))
        *folds, models = [[model for _ in counts for model in next(solved)] for _ in sets]
    pairs = [(n, value) for n in counts for value in method.grid]
    solver = {"name": "landmarks", "precision": basis.row_points.dtype.name}
    models = [replace(model, solution=units.undone(model.solution), solver=solver | model.solver) for model in models]
    own = [[model.solution for model in fold] for fold in folds]
    errors = _errors(problem, found, pairs, own, units) if folds and method.from_moments else None
    solutions = [[units.undone(solution) for solution in fold] for fold in own]
    return Solved(pairs, models, solutions, held_out_of(problem, solutions), errors, checkpoint)


def _errors(
    problem: Problem,
    found: Moments,
    pairs: Sequence[tuple[int, float]],
    folds: Sequence[Sequence[Solution]],
    units: Units,
) -> list[list[Errors]]:
    """Return the errors of each pair on each fold's rows, from the moments of those that are like new ones."""
    cells, unlike = [found.fold(fold) for fold in range(problem.n_folds)], problem.unlike_new
    if unlike is not None:
        frames, block = tuple(side.frame for side in found.sides), blocks.take_rows(problem.X, unlike)
        for fold in np.unique(problem.folds[unlike]):
            here = np.flatnonzero(problem.folds[unlike] == fold)
            cells[fold] = cells[fold] - moments_of(problem, problem.basis, unlike[here], block[here], frames)
    return [
        [Errors.of(problem.solve, folds[f][pair], cell.prefix(n), units) for f, cell in enumerate(cells)]
        for pair, (n, _) in enumerate(pairs)
    ]

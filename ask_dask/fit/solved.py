"""The result of every engine: the models of all training sets, and their discriminants of rows they have not seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ask_dask import blocks, compute
from ask_dask.basis import Basis
from ask_dask.errors import InputError
from ask_dask.fit.problem import Problem
from ask_dask.fit.selection import Candidates, HeldOut, predict_held_out
from ask_dask.fit.units import Units
from ask_dask.kernels.base import Block
from ask_dask.moments import Frame, Moments, of_rows
from ask_dask.solve import TOO_ROUGH, Model, Solution, Solve, mean_solution
from ask_dask.store import Checkpoint


@dataclass(frozen=True)
class Errors:
    """Errors on held-out rows, from their moments.

    Attributes
    ----------
    squares, total : (k,)
        Squared errors, and what they are a share of, such as the squares of y about its mean.
    weight : float
        Weight of the rows.
    """

    squares: np.ndarray
    total: np.ndarray
    weight: float

    @classmethod
    def of(cls, method: Solve, solution: Solution, cell: Moments, units: Units) -> "Errors":
        """Return those of a solution on the rows of a cell, shapes (1, ...), both in some units."""
        squares, total = method.held_out(solution, cell)
        return cls(squares * units.scale**2, total * units.scale**2, float(cell.count[0]))

    def __add__(self, other: "Errors") -> "Errors":
        return Errors(self.squares + other.squares, self.total + other.total, self.weight + other.weight)


@dataclass(frozen=True)
class Solved:
    """The models of every pair of a landmark count and a value of the method's grid, such as a gamma.

    Attributes
    ----------
    pairs : list of (landmark count, value)
    models : list of Model
        For each pair.
    folds : list of lists of Solution
        For each fold and pair, trained without the fold; empty without cross-validation.
    held_out : HeldOut or None
        Discriminants of the scored rows, each from the models that have not seen its label.
    errors : list of lists of Errors, optional
        For each pair and fold, errors on the held-out rows that their moments give, where the method has such.
    checkpoint : Checkpoint, optional
        Removed when the fit is finished.
    """

    pairs: list[tuple[int, float]]
    models: list[Model]
    folds: list[list[Solution]]
    held_out: HeldOut | None = None
    errors: list[list[Errors]] | None = None
    checkpoint: Checkpoint | None = None

    def fold_mean(self, pair: int) -> Solution | None:
        """Return the mean of the models of the folds, None without any."""
        return mean_solution([fold[pair] for fold in self.folds]) if self.folds else None

    def worst(self, pair: int) -> Solution:
        """Return a solution with the worst condition number, amplification and rounding of all training sets."""
        return mean_solution([self.models[pair].solution, *(fold[pair] for fold in self.folds)])

    def on_all_rows(self, gamma: float) -> dict[int, Solution]:
        """Return the model of all rows at every landmark count."""
        return {n: model.solution for (n, g), model in zip(self.pairs, self.models, strict=True) if g == gamma}

    def finished(self) -> None:
        """Remove the checkpoint."""
        if self.checkpoint:
            self.checkpoint.remove()


def precision_warning(solved: Solved, pair: int, method: Solve) -> str | None:
    """Return the warning for a pair whose regularisation the precision of the rows does not resolve, else None."""
    (n, value), model, worst = solved.pairs[pair], solved.models[pair], solved.worst(pair)
    if worst.resolved:
        return None
    name, precision = method.parameter, model.solver["precision"]
    weak, less = ("large", "less") if method.weak_when_large else ("small", "more")
    if worst.rounding > TOO_ROUGH:
        what = f"rounding changes the fitted values by about {worst.rounding:.2g} standard deviations of y"
    else:
        size = "the size of 1/gamma" if name == "gamma" else name
        what = (
            f"the model lacks directions of the kernel that {precision} does not resolve, up to {worst.unresolved:.2g} "
            f"times {size}"
        )
    advice = [
        f"{name}={model.safe:.3g} or {less}" if model.safe else "",
        "float64 rows" if precision != "float64" else "",
        "damping above 0" if name == "gamma" else "fewer landmarks",
    ]
    said = ", or ".join(filter(None, advice))
    return f"{name}={value:g} is too {weak} for {precision} rows at {n} landmarks: {what}. Use {said}."


def held_out_of(problem: Problem, folds: Sequence[Sequence[Solution]]) -> HeldOut | None:
    """Return the discriminants of the scored rows by the models on landmarks that have not seen their labels.

    A normaliser over all targets leaves out those of the row's fold, as it has no term of a new row either.
    """
    if not folds or problem.solve.from_moments:
        return None
    p, kernels = problem, [problem.basis.at]
    with compute.measured(p.steps, "held-out scores"):
        if p.basis.targets is not None:
            kernels = [p.basis.normalised_without(p.folds == fold).at for fold in range(p.n_folds)]
        return predict_held_out(p.X, kernels, folds, p.folds, p.scored)


Engine = Callable[..., Solved]


def fold_by_fold(
    problem: Problem, counts: Sequence[int], exact: bool, engine: Engine, checkpoint: Checkpoint | None = None
) -> Solved:
    """Return the models of all rows, and those of each fold from a fit that does not know the fold's rows.

    A row that is a landmark, or a target that a kernel is normalised over, is not like a new row. Where most rows are,
    held-out scores are those of new rows only if the landmarks and targets of a fold's models are without the fold too.

    Parameters
    ----------
    counts : landmark counts of the pairs
    exact : bool
        Every row is a landmark.
    engine : callable
        Solves a problem without folds at some landmark counts, with a checkpoint if need be.
    checkpoint : Checkpoint, optional
        Keeps the progress of the fit of all rows.

    Raises
    ------
    InputError
        All landmarks of a count are in one fold.
    """
    for fold in range(problem.n_folds):
        if not (problem.left_without(fold) < counts[0]).any():
            raise InputError(
                f"n_landmarks={counts[0]}: all of these landmarks are in fold {fold}, whose models may not know them: "
                "use more landmarks, or fewer folds."
            )
    found = engine(replace(problem, n_folds=0), counts, checkpoint)
    kernels, inner, folds, errors = [], [], [], []
    for fold in range(problem.n_folds):
        inside, kept = problem.without(fold, exact)
        counts_kept = [int((kept < count).sum()) for count in counts]
        solved = engine(inside, sorted(set(counts_kept)))
        places = [solved.pairs.index((count, gamma)) for count in counts_kept for gamma in problem.solve.grid]
        solutions = [solved.models[place].solution for place in places]
        if problem.solve.from_moments:
            errors.append(_errors(problem, inside.basis, np.flatnonzero(problem.folds == fold), solutions))
        kernels.append(inside.basis.at)
        inner.append(solutions)
        folds.append([spread(s, kept, n) for s, (n, _) in zip(solutions, found.pairs, strict=True)])
    if problem.solve.from_moments:
        return replace(found, folds=folds, errors=[list(pair) for pair in zip(*errors, strict=True)])
    with compute.measured(problem.steps, "held-out scores"):
        held_out = predict_held_out(problem.X, kernels, inner, problem.folds, problem.scored)
    return replace(found, folds=folds, held_out=held_out)


def _errors(problem: Problem, basis: Basis, numbers: np.ndarray, solutions: Sequence[Solution]) -> list[Errors]:
    """Return the errors of each solution at a basis on some rows."""
    cell = moments_of(problem, basis, numbers, blocks.take_rows(problem.X, numbers))
    units = Units.of(problem)
    return [Errors.of(problem.solve, units.done(s), cell.prefix(len(s.source)), units) for s in solutions]


Frames = tuple[Frame, ...] | None


def moments_of(problem: Problem, basis: Basis, numbers: np.ndarray, block: Block, frames: Frames = None) -> Moments:
    """Return the moments that a method wants of a block of rows with these numbers, Y in its units."""
    wants = problem.solve.wants
    diagonal = basis.kernel.diagonal if wants.diagonal else None
    rows = Units.of(problem).rows(replace(problem.rows[numbers], folds=np.zeros(len(numbers), np.int16)))
    return of_rows(block, rows, basis.columns(wants.target), 1, frames, diagonal)


def candidates(solved: Solved, problem: Problem, merge: str, symmetric: bool) -> Candidates:
    """Return the pairs with all that scores them on held-out rows."""
    assert solved.held_out is not None
    rows, p = solved.held_out.rows, problem
    return Candidates(
        solved.held_out, p.outputs, p.weights.of(rows), p.folds[rows], p.n_folds, merge, p.seed, symmetric
    )


def spread(solution: Solution, kept: np.ndarray, n: int) -> Solution:
    """Return a solution at the kept ones of the first n landmarks as one at all of these, with zeros elsewhere."""

    def placed(part: np.ndarray) -> np.ndarray:
        out = np.zeros((n if len(part) else 0, part.shape[1]))
        out[kept[: len(part)]] = part
        return out

    return replace(solution, source=placed(solution.source), target=placed(solution.target))

"""The result of every engine: the models of all training sets, and their discriminants of rows they have not seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ask_dask import compute
from ask_dask.errors import InputError
from ask_dask.estimators.problem import Problem
from ask_dask.estimators.selection import HeldOut, predict_held_out
from ask_dask.solve import TOO_ROUGH, Model, Solution, mean_solution
from ask_dask.store import Checkpoint


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
    scores : list of lists of dict, optional
        For each pair and fold, scores of the held-out rows that their moments give, where the method has such.
    checkpoint : Checkpoint, optional
        Removed when the fit is finished.
    """

    pairs: list[tuple[int, float]]
    models: list[Model]
    folds: list[list[Solution]]
    held_out: HeldOut | None = None
    scores: list[list[dict[str, float | None]]] | None = None
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


def precision_warning(solved: Solved, pair: int) -> str | None:
    """Return the warning for a pair whose regularisation the precision of the rows does not resolve, else None."""
    (n, gamma), model, worst = solved.pairs[pair], solved.models[pair], solved.worst(pair)
    if worst.resolved:
        return None
    precision = model.solver["precision"]
    if worst.rounding > TOO_ROUGH:
        what = f"rounding changes the fitted values by about {worst.rounding:.2g} standard deviations of y"
    else:
        what = (
            f"the model lacks directions of the kernel that {precision} does not resolve, up to {worst.unresolved:.2g} "
            "times the size of 1/gamma"
        )
    safe = f"gamma={model.safe:.3g} or less, " if model.safe else ""
    rows = "" if precision == "float64" else "float64 rows, "
    start = f"gamma={gamma:g} is too large for {precision} rows at {n} landmarks: {what}. "
    return f"{start}Use {safe}{rows}or damping above 0."


def held_out_of(problem: Problem, folds: Sequence[Sequence[Solution]]) -> HeldOut | None:
    """Return the discriminants of the scored rows by the models on landmarks that have not seen their labels.

    A normaliser over all targets leaves out those of the row's fold, as it has no term of a new row either.
    """
    if not folds:
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
    kernels, inner, folds = [], [], []
    for fold in range(problem.n_folds):
        inside, kept = problem.without(fold, exact)
        counts_kept = [int((kept < count).sum()) for count in counts]
        solved = engine(inside, sorted(set(counts_kept)))
        places = [solved.pairs.index((count, gamma)) for count in counts_kept for gamma in problem.solve.grid]
        solutions = [solved.models[place].solution for place in places]
        kernels.append(inside.basis.at)
        inner.append(solutions)
        folds.append([spread(s, kept, n) for s, (n, _) in zip(solutions, found.pairs, strict=True)])
    with compute.measured(problem.steps, "held-out scores"):
        held_out = predict_held_out(problem.X, kernels, inner, problem.folds, problem.scored)
    return replace(found, folds=folds, held_out=held_out)


def spread(solution: Solution, kept: np.ndarray, n: int) -> Solution:
    """Return a solution at the kept ones of the first n landmarks as one at all of these, with zeros elsewhere."""
    source, target = (np.zeros((n, part.shape[1])) for part in (solution.source, solution.target))
    source[kept[: len(solution.source)]], target[kept[: len(solution.target)]] = solution.source, solution.target
    return replace(solution, source=source, target=target)

"""What landmarks cost, against the exact solution: the error of f at every landmark count, that of singular vectors."""

from dataclasses import replace
from typing import Any

import numpy as np

from ask_dask import blocks, budget, compute, landmarks
from ask_dask.basis import Basis
from ask_dask.estimators import leading
from ask_dask.estimators.two_sets import Pairs
from ask_dask.fit.exact import dense
from ask_dask.fit.plan import iterated, limit
from ask_dask.fit.problem import Problem
from ask_dask.fit.solved import Model, Solved
from ask_dask.score import eta, subspace_error
from ask_dask.solve import Solution

ROWS = 2000
"""Rows, drawn uniformly, on which f is compared."""


def landmark_error(estimator: Any, problem: Problem, found: Solved) -> dict[str, Any]:
    """Relative root mean square error of f_s and f_t for each landmark count at the estimator's gamma.

    The reference is the exact solution with all rows: by decomposition if that fits the memory, else by minres.
    """
    X, n, gamma = problem.X, problem.X.shape[0], estimator.gamma_
    with compute.measured(problem.steps, "exact solution"):
        points = blocks.take_rows(X, np.arange(n))
        basis = Basis.of(problem.basis.kernel, points, points, points)
        whole = replace(problem, X=points, basis=basis, n_folds=0, solve=replace(problem.askls, grid=(gamma,)))
        reference = _exact(whole, estimator)
        some = points[np.sort(landmarks.uniform(n, min(ROWS, n), problem.seed))]
        expected = _f(some, basis, n, reference.solution)
        of_counts = found.on_all_rows(gamma)
        errors = [_relative(_f(some, problem.basis, n, s) - expected, expected) for n, s in of_counts.items()]
    return {
        "reference": f"exact, {reference.solver['name']}",
        "n_landmarks": list(of_counts),
        "source": [source for source, _ in errors],
        "target": [target for _, target in errors],
        "n": some.shape[0],
    }


def exact_error(model: Any, pairs: Pairs) -> dict[str, Any]:
    """How far the singular vectors of a fitted `KSVD` are from the exact ones of its kernel matrix.

    Returns
    -------
    dict
        eta (`score.eta`), left_angle and right_angle: sines of the largest principal angles.

    Raises
    ------
    BudgetError
        The exact decomposition does not fit the memory.
    """
    exact = leading.of(pairs.basis(np.arange(pairs.n), np.arange(pairs.m)), model, limit(model.memory))
    found = [np.asarray(side) for side in (model.left_singular_vectors_, model.right_singular_vectors_)]
    r = min(len(exact.values), found[0].shape[1])
    U, V, found = exact.U[:, :r], exact.V[:, :r], [side[:, :r] for side in found]
    angles = {f"{name}_angle": subspace_error(own, mine)
              for name, own, mine in zip(("left", "right"), (U, V), found, strict=True)}  # fmt: skip
    return {"eta": eta(U, exact.values[:r], V, *found)} | angles


def _exact(problem: Problem, estimator: Any) -> Model:
    plan = budget.dense_plan(len(problem.folds), 0, 1, problem.outputs.q, compute.workers())
    return (dense(problem) if plan.total <= limit(estimator.memory) else iterated(problem, estimator)).models[0]


def _f(points: Any, basis: Basis, n: int, s: Solution) -> np.ndarray:
    return blocks.discriminants(points, basis.at.prefix(n), s.source, s.target, s.intercepts)


def _relative(error: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    halves = zip(np.split(error, 2, axis=1), np.split(expected, 2, axis=1), strict=True)
    source, target = (float(np.linalg.norm(e) / np.linalg.norm(f)) for e, f in halves)
    return source, target

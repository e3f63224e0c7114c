"""Which way a fit is solved, and whether its plan fits the memory."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
import zarr
from dask.utils import parse_bytes

from ask_dask import budget, compute, store
from ask_dask.errors import InputError
from ask_dask.estimators.exact import Dense, Iterative
from ask_dask.estimators.inputs import is_lazy
from ask_dask.estimators.on_landmarks import OnLandmarks
from ask_dask.estimators.outputs import Outputs
from ask_dask.estimators.problem import Problem
from ask_dask.sparse import SparseRows, row_bytes
from ask_dask.store import Checkpoint

MOST_PRECONDITIONER = 500
"""Landmarks of the preconditioner, unless the user or the budget says otherwise."""


def is_exact(estimator: Any) -> bool:
    """Whether the whole kernel matrix is solved; a ridge lives in the landmarks' features, all of them if need be."""
    return estimator.n_landmarks is None and not estimator.ridge and isinstance(estimator.landmarks, str)


def limit(memory: str | int | None) -> int:
    """The budget in bytes."""
    given = memory if memory is not None else compute.machine_memory()
    try:
        return int(parse_bytes(given))
    except (ValueError, TypeError) as error:
        raise InputError(f"memory={given!r} is not a size: write it as '2GiB' or a number of bytes.") from error


def check_memory(estimator: Any, X: Any, outputs: Outputs, n_landmarks: int, n_folds: int, n_gammas: int) -> None:
    """Raise BudgetError when the plan of a fit does not fit; the message names a size that does."""
    bytes_, itemsize = limit(estimator.memory), np.dtype(X.dtype).itemsize
    if is_exact(estimator) and estimator.solver == "minres":
        budget.check(_minres_plan(X, outputs, n_folds, n_gammas, estimator.damping > 0),
                     _wanted(estimator), bytes_, "preconditioner")  # fmt: skip
        return
    if is_exact(estimator):
        budget.check(_dense_plan(outputs, n_folds, n_gammas), X.shape[0], bytes_, "rows",
                     "or solver='minres', or landmarks")  # fmt: skip
        return
    plan = partial(
        budget.moments_plan,
        n_rows=X.shape[0],
        n_folds=max(1, n_folds),
        n_outputs=outputs.q,
        row_bytes=row_bytes(X),
        itemsize=itemsize,
        workers=compute.workers(),
        symmetric=bool(estimator.symmetrise) or (estimator.kernel is not None and estimator.kernel.symmetric),
    )
    budget.check(plan, n_landmarks, bytes_, "n_landmarks")
    if estimator.kernel is not None and estimator.kernel.needs_targets and is_lazy(X):
        budget.check(lambda n: budget.Plan({"all targets": n * row_bytes(X)}), X.shape[0], bytes_, "rows")


def _dense_plan(outputs: Outputs, n_folds: int, n_gammas: int) -> Any:
    return partial(
        budget.dense_plan, n_folds=n_folds, n_gammas=n_gammas, n_outputs=outputs.q, workers=compute.workers()
    )


def _minres_plan(X: Any, outputs: Outputs, n_folds: int, n_gammas: int, damped: bool) -> Any:
    return partial(
        budget.minres_plan, n_rows=X.shape[0], n_folds=n_folds, n_gammas=n_gammas, n_outputs=outputs.q,
        row_bytes=row_bytes(X), workers=compute.workers(), damped=damped,
    )  # fmt: skip


def _wanted(estimator: Any) -> int:
    """Landmarks of the preconditioner that must fit; "auto" is content with none."""
    return 0 if estimator.preconditioner == "auto" else int(estimator.preconditioner)


def engine_of(estimator: Any, problem: Problem, counts: Sequence[int]) -> OnLandmarks | Dense | Iterative:
    """What solves the problem as the estimator's parameters ask for it."""
    if not is_exact(estimator):
        return OnLandmarks(problem, counts, _checkpoint(estimator, problem))
    if estimator.solver == "direct":
        return Dense(problem)
    return iterative(problem, estimator, checkpoint=_checkpoint(estimator, problem))


def iterative(problem: Problem, estimator: Any, checkpoint: Checkpoint | None = None) -> Iterative:
    """By minres, with as many landmarks to precondition as are asked for or fit."""
    X, n = problem.X, len(problem.folds)
    landmarks = _wanted(estimator)
    sparse = getattr(problem.placed.at, "sparse", None) is not None  # then landmarks know little, and steps are cheap
    if estimator.preconditioner == "auto" and not sparse:
        n_gammas, damped = len(problem.gammas), problem.damping > 0
        plan = _minres_plan(X, problem.outputs, problem.n_folds, n_gammas, damped)
        bytes_ = limit(estimator.memory)
        sizes = range(min(MOST_PRECONDITIONER, n // 2), 0, -50)
        landmarks = next((m for m in sizes if plan(m).total <= bytes_), 0)
    return Iterative(problem, min(landmarks, n), estimator.tol, estimator.max_iter, checkpoint)


def _checkpoint(estimator: Any, problem: Problem) -> Checkpoint | None:
    """Where the fit may go on; gammas and damping decide what is iterated, and of moments nothing."""
    if estimator.checkpoint is None:
        return None
    placed = problem.placed
    parts = [problem.X, problem.outputs.y, problem.folds, problem.weights.fit, placed.kernel.to_dict()]
    parts += [problem.gammas, problem.damping] if is_exact(estimator) else [placed.row_points, placed.column_points]
    return Checkpoint(estimator.checkpoint, store.fingerprint(*(piece for part in parts for piece in _pieces(part))))


def _pieces(part: Any) -> Iterator[Any]:
    """What a fingerprint takes of a value: arrays, the parts of sparse matrices, and text of what lies elsewhere."""
    if isinstance(part, dict):
        for name, value in part.items():
            yield name
            yield from _pieces(value)
    elif sp.issparse(part):
        part = part.tocsr()
        yield from (part.data, part.indices, part.indptr, part.shape)
    elif isinstance(part, zarr.Array | SparseRows):
        yield from (store.origin(part.store_path), part.shape)
    else:
        yield part.name if isinstance(part, da.Array) else part

"""Which way a fit is solved, and whether its plan fits the memory."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
import zarr
from dask.utils import parse_bytes
from sklearn.base import is_regressor

from ask_dask import blocks, budget, compute, store
from ask_dask.errors import InputError
from ask_dask.fit.blockwise import SAMPLED, blockwise
from ask_dask.fit.exact import dense, iterative
from ask_dask.fit.on_landmarks import on_landmarks
from ask_dask.fit.outputs import Outputs
from ask_dask.fit.problem import Problem
from ask_dask.fit.solved import Solved, fold_by_fold
from ask_dask.solve import AsKLSSolve
from ask_dask.sparse import SparseRows, row_bytes
from ask_dask.store import Checkpoint

MOST_PRECONDITIONER = 500
"""Landmarks of the preconditioner of the exact solution, unless the user or the budget says otherwise."""

STEPS = 40
"""Passes over the rows that iterations on landmarks are taken to need."""

MULTIPLY, CUBE, ENTRY, COLUMN = 2e-11, 3.3e-10, 6e-9, 3e-10
"""Seconds of a core, measured: N m^2 products in a Gram of float32, for each; an eigendecomposition, for each of m^3;
a kernel entry for both roles, in float64; an entry's two products with one system's vectors."""


def limit(memory: str | int | None) -> int:
    """The budget in bytes."""
    given = memory if memory is not None else compute.machine_memory()
    try:
        return int(parse_bytes(given))
    except (ValueError, TypeError) as error:
        raise InputError(f"memory={given!r} is not a size: write it as '2GiB' or a number of bytes.") from error


@dataclass(frozen=True)
class Sizes:
    """What a fit's memory and time depend on."""

    n_rows: int
    counts: tuple[int, ...]
    n_folds: int
    n_gammas: int
    n_outputs: int
    row_bytes: int
    itemsize: int
    workers: int
    symmetric: bool
    damped: bool
    sampled: int | None
    """Rows of the sample that preconditions on landmarks, None for the usual number."""

    @classmethod
    def of(
        cls, estimator: Any, X: Any, outputs: Outputs, counts: Sequence[int], n_folds: int, n_gammas: int
    ) -> "Sizes":
        """Of a fit that has been checked."""
        symmetric = bool(estimator.symmetrise) or (estimator.kernel is not None and estimator.kernel.symmetric)
        sampled = None if estimator.preconditioner == "auto" else int(estimator.preconditioner)
        return cls(
            X.shape[0], tuple(counts), n_folds, n_gammas, outputs.q, row_bytes(X), np.dtype(X.dtype).itemsize,
            compute.workers(), symmetric, estimator.damping > 0, sampled,
        )  # fmt: skip

    def direct(self, m: int) -> budget.Phases:
        """The plan of a fit by moments of m landmarks."""
        folds, sizes = max(1, self.n_folds), (self.n_outputs, self.row_bytes, self.itemsize, self.workers)
        return budget.Phases(
            {
                "moments": budget.moments_plan(m, self.n_rows, folds, *sizes, self.symmetric),
                "solve": budget.solve_plan(m, folds, self.n_outputs, self.workers, self.symmetric),
            }
        )

    def blockwise(self, m: int) -> budget.Plan:
        """The plan of a fit by passes over the blocks of m landmarks."""
        sampled = min(self.n_rows, SAMPLED * m if self.sampled is None else self.sampled)
        return budget.blockwise_plan(
            m, self.n_rows, self.n_folds, self.n_gammas, self.n_outputs, self.row_bytes, self.workers, self.symmetric,
            self.damped, sampled,
        )  # fmt: skip

    def held_out(self, n_scored: int, solver: str) -> budget.Phases:
        """The plan of predictions of so many held-out rows, on landmarks, and of the choice by them."""
        pairs, grams = len(self.counts) * self.n_gammas, 0 if solver == "minres" else 1 if self.symmetric else 2
        return budget.held_out_plan(
            n_scored, self.n_rows, pairs, self.counts[-1], self.n_folds, self.n_outputs, self.row_bytes, self.itemsize,
            grams, self.workers,
        )  # fmt: skip

    def seconds(self) -> dict[str, float]:
        """About how long each way takes, in seconds of a core.

        Moments take one pass of N m^2 products a role; then each training set has a decomposition and about as much
        again of products a role. Iterations evaluate N m kernel entries a pass and multiply them twice with every
        system; before them a sample's Grams are balanced. Both decompose the core matrix, by singular values unless
        it is symmetric, which are three times as dear.
        """
        roles, sets, m = 1 if self.symmetric else 2, self.n_folds + 1, np.array(self.counts, float)
        systems = self.n_gammas * (sets * self.n_outputs + 1) * (1 + self.damped)
        core, cubes = 1 if self.symmetric else 3, CUBE * m**3
        direct = MULTIPLY * roles * self.n_rows * m[-1] ** 2 + (cubes * (1.8 * roles * sets + core)).sum()
        passes = STEPS * self.n_rows * m * (ENTRY + COLUMN * roles * systems)
        return {"direct": float(direct), "minres": float((passes + cubes * (2 * roles + core)).sum())}


def solver_of(estimator: Any, sizes: Sizes) -> str:
    """ "direct" or "minres": with solver="auto" what fits the memory and, of two ways on landmarks, is the faster."""
    if estimator.solver != "auto":
        return estimator.solver
    bytes_ = limit(estimator.memory)
    if estimator.exact:
        plan = budget.dense_plan(sizes.n_rows, sizes.n_folds, sizes.n_gammas, sizes.n_outputs, sizes.workers)
        return "direct" if plan.total <= bytes_ or estimator.symmetrise in ("K'K", "KK'") else "minres"
    if estimator.ridge:
        return "direct"
    needed = {"direct": sizes.direct(sizes.counts[-1]).total, "minres": sizes.blockwise(sizes.counts[-1]).total}
    fitting = [name for name, count in needed.items() if count <= bytes_]
    return min(fitting, key=sizes.seconds().__getitem__) if fitting else min(needed, key=needed.__getitem__)


def check_label_memory(estimator: Any, n_rows: int, y: Any, sample_weight: Any) -> None:
    """Raise BudgetError when labels or weights that are to be read do not fit the memory, with what is made of them."""
    given = [values for values in (y, sample_weight) if blocks.is_lazy(values) and values.ndim]
    if not given:
        return
    rows = max(n_rows, *(int(np.nan_to_num(values.shape[0])) for values in given))  # dask may not know how many
    weights = (3 if sample_weight is not None else 0) + (4 if getattr(estimator, "class_weight", None) else 0)
    budget.check(partial(budget.labels_plan, label_bytes=_label_bytes(estimator, y), n_weights=weights), rows,
                 limit(estimator.memory), "rows")  # fmt: skip


def _label_bytes(estimator: Any, y: Any) -> int:
    """Bytes of a row of labels that are read, and of its copy: in order to find the classes, or as real values."""
    if not blocks.is_lazy(y):
        return 0
    return math.prod(y.shape[1:]) * (y.dtype.itemsize + (8 if is_regressor(estimator) else y.dtype.itemsize))


def check_memory(estimator: Any, solver: str, X: Any, outputs: Outputs, sizes: Sizes) -> None:
    """Raise BudgetError when the plan of a fit does not fit; the message names a size that does."""
    bytes_, n_folds, n_gammas = limit(estimator.memory), sizes.n_folds, sizes.n_gammas
    if estimator.exact and solver == "minres":
        budget.check(_minres_plan(X, outputs, n_folds, n_gammas, estimator.damping > 0),
                     _wanted(estimator), bytes_, "preconditioner")  # fmt: skip
        return
    if estimator.exact:
        budget.check(_dense_plan(outputs, n_folds, n_gammas), X.shape[0], bytes_, "rows",
                     "or solver='minres', or landmarks")  # fmt: skip
        return
    if solver == "minres":
        budget.check(sizes.blockwise, sizes.counts[-1], bytes_, "n_landmarks")
    else:
        fits = not estimator.ridge and sizes.blockwise(sizes.counts[-1]).total <= bytes_
        budget.check(sizes.direct, sizes.counts[-1], bytes_, "n_landmarks", "or solver='minres'" if fits else "")
    if n_folds:
        scored = min(estimator.max_scored_rows, X.shape[0])
        budget.check(
            partial(sizes.held_out, solver=solver),
            scored,
            bytes_,
            "max_scored_rows",
            "or fewer gammas or landmark counts",
        )
    if estimator.kernel is not None and estimator.kernel.needs_targets and blocks.is_lazy(X):
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


def solved(estimator: Any, solver: str, problem: Problem, counts: Sequence[int], apart: bool) -> Solved:
    """Return the models of all training sets by one of the solvers.

    Parameters
    ----------
    apart : bool
        Each fold has landmarks and normalisers of its own (`fold_by_fold`).
    """
    kept, exact = checkpoint_of(estimator, solver, problem), estimator.exact

    def engine(problem: Problem, counts: Sequence[int], checkpoint: Checkpoint | None = None) -> Solved:
        if exact:
            return dense(problem) if solver == "direct" else iterated(problem, estimator, checkpoint)
        if solver == "direct":
            return on_landmarks(problem, counts, checkpoint)
        sampled = None if estimator.preconditioner == "auto" else int(estimator.preconditioner)
        return blockwise(problem, counts, estimator.tol, estimator.max_iter, sampled, checkpoint)

    return fold_by_fold(problem, counts, exact, engine, kept) if apart else engine(problem, counts, kept)


def iterated(problem: Problem, estimator: Any, checkpoint: Checkpoint | None = None) -> Solved:
    """Return the exact solutions by minres, with as many landmarks to precondition as are asked for or fit."""
    X, n = problem.X, len(problem.folds)
    given = estimator.exact and estimator.preconditioner != "auto"  # on landmarks it counts rows
    landmarks = _wanted(estimator) if given else 0
    sparse = getattr(problem.basis.at, "sparse", None) is not None  # then landmarks know little, and steps are cheap
    if not given and not sparse:
        n_gammas, damped = len(problem.askls.grid), problem.askls.damping > 0
        plan = _minres_plan(X, problem.outputs, problem.n_folds, n_gammas, damped)
        bytes_ = limit(estimator.memory)
        sizes = range(min(MOST_PRECONDITIONER, n // 2), 0, -50)
        landmarks = next((m for m in sizes if plan(m).total <= bytes_), 0)
    return iterative(problem, min(landmarks, n), estimator.tol, estimator.max_iter, checkpoint)


def checkpoint_of(estimator: Any, solver: str, problem: Problem) -> Checkpoint | None:
    """Return where the fit may go on. gamma and damping change what is iterated, but not the moments."""
    if estimator.checkpoint is None:
        return None
    basis = problem.basis
    method = "" if isinstance(problem.solve, AsKLSSolve) else type(problem.solve).__name__
    parts = [method, problem.X, problem.outputs.y, problem.folds, problem.weights.fit, basis.kernel.to_dict()]
    parts += [] if estimator.exact else [basis.row_points, basis.column_points]
    parts += [problem.askls.grid, problem.askls.damping, str(estimator.preconditioner)] if solver == "minres" else []
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

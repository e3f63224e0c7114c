"""What the AsK-LS estimators share: the fit, the two discriminants, and what became of the system."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ask_dask import blocks, compute, score
from ask_dask.basis import Basis
from ask_dask.errors import PrecisionWarning, ResonanceWarning
from ask_dask.estimators import selection
from ask_dask.estimators.folds import check_folds, check_scored, check_weight_of_folds
from ask_dask.estimators.inputs import (
    check_gammas,
    check_parameters,
    check_rows,
    check_seed,
    check_size,
    check_weights,
    choose_landmarks,
    default_kernel,
    in_memory,
)
from ask_dask.estimators.merge import STACKED, combine
from ask_dask.estimators.outputs import Outputs, Task
from ask_dask.estimators.parameters import WithKernel
from ask_dask.estimators.plan import Sizes, check_label_memory, check_memory, is_exact, solved, solver_of
from ask_dask.estimators.problem import Problem
from ask_dask.estimators.reference import landmark_error
from ask_dask.estimators.saved import save
from ask_dask.estimators.solved import Solved, precision_warning
from ask_dask.kernels import Kernel, Symmetrised
from ask_dask.solve import TOO_ROUGH, Resonance, resonance

ASYMMETRY_ROWS = 1000
"""Landmarks between which the asymmetry of the kernel is measured."""


class AsKLS(WithKernel):
    """The parameters and the fit that the classifier and the regressor share."""

    def __init__(
        self,
        kernel: Kernel | None = None,
        gamma: float | Sequence[float] = (1.0, 10.0, 100.0, 1000.0),
        n_landmarks: Any = "auto",
        *,
        cv: Any = 5,
        merge: str = "stack",
        scoring: str | None = None,
        symmetrise: str | None = None,
        solver: str = "auto",
        ridge: float = 0.0,
        damping: float = 0.0,
        landmarks: Any = "uniform",
        max_scored_rows: int = 1_000_000,
        tol: float = 1e-8,
        max_iter: int = 1000,
        preconditioner: Any = "auto",
        checkpoint: str | Path | None = None,
        compare_exact: bool = False,
        memory: str | int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.cv = cv
        self.merge = merge
        self.scoring = scoring
        self.symmetrise = symmetrise
        self.solver = solver
        self.ridge = ridge
        self.damping = damping
        self.landmarks = landmarks
        self.max_scored_rows = max_scored_rows
        self.tol = tol
        self.max_iter = max_iter
        self.preconditioner = preconditioner
        self.checkpoint = checkpoint
        self.compare_exact = compare_exact
        self.memory = memory
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags

    @abstractmethod
    def _check_y(self, y: Any, n_rows: int) -> Outputs:
        """The labels as outputs; sets what the estimator keeps of them."""

    def _class_weights(self, y: Any) -> np.ndarray | None:
        """(N,) weights of the rows by their class."""
        return None

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        X = check_rows(self, X, reset=True)
        check_label_memory(self, X.shape[0], y, sample_weight)
        outputs = self._check_y(y, X.shape[0])
        if outputs.task == "regression":
            check_size(outputs.y, X.dtype)
        self.task_: Task = outputs.task
        self.n_outputs_ = outputs.q
        gammas = check_gammas(self.gamma)
        self.scoring_ = self.scoring or score.OF_TASK[outputs.task][0]
        check_parameters(self, outputs.task, gammas)
        self.seed_ = check_seed(self.random_state)
        folds, n_folds = check_folds(self.cv, X.shape[0], outputs.codes, self.seed_, in_memory(groups, "groups"))
        weights = check_weights(sample_weight, self._class_weights(y), X.shape[0])
        rows, columns, counts = choose_landmarks(
            self.landmarks, self.n_landmarks, X, self.kernel, outputs.codes, self.seed_
        )
        n_folds = 0 if self.cv is None else n_folds
        check_weight_of_folds(weights, folds, n_folds)
        apart, unlike_new = self._held_out_rows(X.shape[0], rows, columns, counts, outputs.codes, weights.fit)
        scored = selection.sampled_rows(X.shape[0], self.max_scored_rows, self.seed_, unlike_new)
        if n_folds:
            check_scored(scored, folds, weights)
        sizes = Sizes.of(self, X, outputs, counts, n_folds, len(gammas))
        solver = solver_of(self, sizes)
        check_memory(self, solver, X, outputs, sizes)
        self.steps_: list[dict[str, Any]] = []
        with compute.measured(self.steps_, "landmarks"):
            X, basis = self._place(X, rows, columns)
        problem = Problem(
            X,
            basis,
            outputs,
            weights,
            folds,
            n_folds,
            gammas,
            self.damping,
            self.ridge,
            self.seed_,
            (rows, columns),
            scored,
            self.steps_,
        )
        found = solved(self, solver, problem, counts, apart and n_folds > 0)
        chosen = self._select(found, problem) if n_folds else 0
        self._keep(found, chosen, basis, rows, columns)
        if self.compare_exact:
            self.landmark_error_ = landmark_error(self, problem, found)
        found.finished()
        return self

    def _held_out_rows(
        self,
        n_rows: int,
        rows: np.ndarray,
        columns: np.ndarray,
        counts: tuple[int, ...],
        codes: np.ndarray | None,
        weight: np.ndarray | None,
    ) -> tuple[bool, np.ndarray | None]:
        """Return whether each fold needs landmarks and normalisers of its own, and the rows that are not scored.

        A held-out row must be like a new one: neither a landmark nor a target that its own kernel is normalised over.
        Where a kernel has no normaliser and every row is a landmark, a row without its label is like a new one. Where
        landmarks are most of the rows, of a class or of the weight, the others cannot stand for all.
        """
        relative = self.kernel is None or self.kernel.relative or self.symmetrise in ("K'K", "KK'")
        if (is_exact(self) or counts[0] == n_rows) and not relative:
            return False, None
        landmarks = np.union1d(rows, columns)
        most = 2 * len(landmarks) > n_rows
        if weight is not None:
            most = most or 2 * weight[landmarks].sum() > weight.sum()
        if codes is not None:
            taken = np.bincount(codes[landmarks])
            most = most or any(2 * count > (codes == code).sum() for code, count in enumerate(taken) if count)
        apart = is_exact(self) or most
        return apart, None if apart else landmarks

    def _place(self, X: Any, rows: np.ndarray, columns: np.ndarray) -> tuple[Any, Basis]:
        """The kernel at the landmarks; of an exact fit X is then in memory, since every row is one."""
        row_points = blocks.take_rows(X, rows)
        column_points = row_points if columns is rows else blocks.take_rows(X, columns)
        blocks.require_finite(row_points, rows)
        if is_exact(self):  # rounded entries would be amplified where the regularisation is weak
            row_points = column_points = row_points.astype(np.float64, copy=False)
        kernel = self.kernel if self.kernel is not None else default_kernel(row_points)
        kernel = Symmetrised(kernel, self.symmetrise) if self.symmetrise else kernel  # type: ignore[arg-type]
        X = row_points if is_exact(self) else X
        return X, Basis.of(kernel, X, row_points, column_points)

    def _select(self, solved: Solved, problem: Problem) -> int:
        """Score every pair on held-out rows, choose one and fit its merger."""
        held_out = solved.held_out
        assert held_out is not None  # with cross-validation
        with compute.measured(self.steps_, "choose"), compute.one_blas_thread():
            rows, outputs = held_out.rows, problem.outputs
            found = selection.Candidates(
                held_out,
                outputs,
                problem.weights.of(rows),
                problem.folds[rows],
                problem.n_folds,
                self.merge,
                problem.seed,
                symmetric=problem.basis.kernel.symmetric and problem.basis.column_points is problem.basis.row_points,
            )
            sound = [self._is_sound(solved, pair) for pair in range(len(solved.pairs))]
            self.cv_results_ = selection.cv_results(solved.pairs, found.metrics(), self.scoring_, sound)
            chosen = int(np.argmin(self.cv_results_["rank_test_score"]))
            self.merger_ = found.merger(chosen)
            self.held_out_ = found.summary(chosen)
        return chosen

    def _is_sound(self, solved: Solved, pair: int) -> bool:
        """Return whether neither a resonance nor rounding spoils the models of a pair."""
        return self._resonance(solved, pair).warning is None and solved.worst(pair).rounding <= TOO_ROUGH

    def _resonance(self, solved: Solved, pair: int) -> Resonance:
        model, worst = solved.models[pair], solved.worst(pair)
        return resonance(
            model.singular_values,
            solved.pairs[pair][1],
            self.damping,
            model.solution.condition_number,
            self.ridge,
            worst.condition_number if self.merge in STACKED else None,
            poles=model.poles,
            amplification=worst.amplification,
        )

    def _keep(self, solved: Solved, pair: int, basis: Basis, rows: np.ndarray, columns: np.ndarray) -> None:
        (n, gamma), model = solved.pairs[pair], solved.models[pair]
        self.n_landmarks_, self.gamma_ = n, gamma
        self.row_landmarks_, self.column_landmarks_ = rows[:n], columns[:n]
        self._bind(basis)
        self.singular_values_, self.solver_ = model.singular_values, model.solver
        self.n_iter_ = model.solver.get("iterations", 1)
        mean = solved.fold_mean(pair) if self.merge in STACKED else None
        self.solution_ = mean or model.solution
        self.asymmetry_ = self._asymmetry(basis)
        self.resonance_ = self._resonance(solved, pair)
        if self.resonance_.warning:
            warnings.warn(self.resonance_.warning, ResonanceWarning, stacklevel=4)
        said = precision_warning(solved, pair)
        if said:
            warnings.warn(said, PrecisionWarning, stacklevel=4)

    def _asymmetry(self, basis: Basis) -> float | None:
        if basis.column_points is not basis.row_points:
            return None
        some = slice(0, min(ASYMMETRY_ROWS, basis.row_points.shape[0]))
        return 0.0 if basis.kernel.symmetric else blocks.relative_asymmetry(basis.at.tile(some, some))

    def _bind(self, basis: Basis) -> None:
        self.basis_, self.kernel_ = basis, basis.kernel
        self._at = basis.at.prefix(self.n_landmarks_)

    def discriminants(self, X: Any) -> Any:
        """f_s and f_t side by side, (N, 2 q); numpy for arrays in memory, a lazy dask array for dask and zarr."""
        check_is_fitted(self)
        X = check_rows(self, X)
        return blocks.map_rows(X, self.block_discriminants, 2 * self.n_outputs_, "predictions")

    def block_discriminants(self, block: Any) -> np.ndarray:
        """f_s and f_t (n, 2 q) of a block of rows in memory, in this thread: for tasks that read rows themselves."""
        s = self.solution_
        return blocks.discriminants(block, self._at, s.source, s.target, s.intercepts)

    def decision_source(self, X: Any) -> Any:
        """f_s(x) = k(x, Z_J) c + b_1: (N,) for one output, else (N, q)."""
        return self._columns(self.discriminants(X), lambda f: combine("source", f))

    def decision_target(self, X: Any) -> Any:
        """f_t(x) = k(X_I, x)' a + b_2: (N,) for one output, else (N, q)."""
        return self._columns(self.discriminants(X), lambda f: combine("target", f))

    def merged_(self, f: np.ndarray) -> np.ndarray:
        """Return the merged score (n, q) of discriminants (n, 2 q): what chooses classes, labels and values.

        With out-of-fold scores it is the calibrated value of every merge, without them f_s, f_t or their mean.
        """
        return combine(self.merge, f) if self.cv is None else self.merger_.value(f)

    def _columns(self, f: Any, function: Callable) -> Any:
        if self.n_outputs_ > 1:
            return map_columns(f, function, self.n_outputs_)
        return map_columns(f, lambda block: function(block)[:, 0], None)

    def save(self, path: str | Path, overwrite: bool = False, **facts: Any) -> None:
        """Write a model store; `ask_dask.load` reads it. Facts (JSON values) are kept in its attributes."""
        save(self, path, overwrite, facts)


def map_columns(f: Any, function: Callable, n_columns: int | None, dtype: Any = None) -> Any:
    """`function` of each row of f, to (N,) when n_columns is None; lazily where f is a dask array."""
    dtype = dtype or f.dtype
    if isinstance(f, np.ndarray):
        return function(f).astype(dtype, copy=False)
    more = {"drop_axis": 1} if n_columns is None else {"chunks": (f.chunks[0], (n_columns,))}
    return f.map_blocks(lambda block: function(block).astype(dtype, copy=False), dtype=dtype, **more)

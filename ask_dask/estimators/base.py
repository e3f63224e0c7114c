"""What the AsK-LS estimators share: the fit, the two discriminants, and what became of the system."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ask_dask import blocks, compute, score
from ask_dask.basis import Basis
from ask_dask.errors import PrecisionWarning, ResonanceWarning
from ask_dask.estimators.fitted import Fit, LandmarkEstimator
from ask_dask.estimators.inputs import check_gammas, check_parameters, check_rows, default_bandwidth
from ask_dask.estimators.reference import landmark_error
from ask_dask.fit import selection
from ask_dask.fit.merge import STACKED, combine
from ask_dask.fit.outputs import Outputs
from ask_dask.fit.plan import Sizes, check_memory, solved, solver_of
from ask_dask.fit.problem import Problem
from ask_dask.fit.solved import Solved, candidates, precision_warning
from ask_dask.kernels import SNE, Kernel, Symmetrised
from ask_dask.solve import TOO_ROUGH, AsKLSSolve, Resonance, resonance

ASYMMETRY_ROWS = 1000
"""Landmarks between which the asymmetry of the kernel is measured."""


class AsKLS(LandmarkEstimator):
    """The parameters and the fit that the classifier and the regressor share."""

    parameter = "gamma"
    kept = ("gamma_", "singular_values_", "resonance_", "asymmetry_")

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
        tags.target_tags.multi_output = True
        return tags

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """The whole kernel matrix is solved; a ridge lives in the features of landmarks, so it never is."""
        return self.n_landmarks is None and not self.ridge and isinstance(self.landmarks, str)

    def _method(self, outputs: Outputs) -> AsKLSSolve:
        gammas = check_gammas(self.gamma)
        self.scoring_ = self.scoring or score.OF_TASK[outputs.task][0]
        check_parameters(self, outputs.task, gammas)
        return AsKLSSolve(gammas, self.damping, self.ridge)

    def _default_kernel(self, points: Any) -> Kernel:
        return SNE(default_bandwidth(points))

    def _shaped(self, kernel: Kernel) -> Kernel:
        return Symmetrised(kernel, self.symmetrise) if self.symmetrise else kernel  # type: ignore[arg-type]

    def _plan(self, fit: Fit) -> str:
        sizes = Sizes.of(self, fit.X, fit.outputs, fit.counts, fit.n_folds, len(fit.method.grid))
        solver = solver_of(self, sizes)
        check_memory(self, solver, fit.X, fit.outputs, sizes)
        return solver

    def _solved(self, engine: str, problem: Problem, counts: Sequence[int], apart: bool) -> Solved:
        return solved(self, engine, problem, counts, apart)

    def _finish(self, solved: Solved, problem: Problem) -> None:
        if self.compare_exact:
            self.landmark_error_ = landmark_error(self, problem, solved)

    def _select(self, solved: Solved, problem: Problem) -> int:
        """Score every pair on held-out rows, choose one and fit its merger."""
        if not problem.n_folds:
            return 0
        with compute.measured(self.steps_, "choose"), compute.one_blas_thread():
            found = candidates(solved, problem, self.merge, problem.basis.symmetric)
            sound = [self._is_sound(solved, pair) for pair in range(len(solved.pairs))]
            self.cv_results_ = selection.cv_results(
                solved.pairs, found.metrics(), self.scoring_, sound, problem.solve.parameter
            )
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

    def _keep(self, solved: Solved, pair: int, basis: Basis) -> None:
        self.gamma_, model = solved.pairs[pair][1], solved.models[pair]
        self.singular_values_, self.solver_ = model.singular_values, model.solver
        self.n_iter_ = model.solver.get("iterations", 1)
        mean = solved.fold_mean(pair) if self.merge in STACKED else None
        self.solution_ = mean or model.solution
        self.asymmetry_ = self._asymmetry(basis)
        self.resonance_ = self._resonance(solved, pair)
        if self.resonance_.warning:
            warnings.warn(self.resonance_.warning, ResonanceWarning, stacklevel=4)
        said = precision_warning(solved, pair, AsKLSSolve((self.gamma_,)))
        if said:
            warnings.warn(said, PrecisionWarning, stacklevel=4)

    def _asymmetry(self, basis: Basis) -> float | None:
        if basis.column_points is not basis.row_points:
            return None
        some = slice(0, min(ASYMMETRY_ROWS, basis.row_points.shape[0]))
        return 0.0 if basis.kernel.symmetric else blocks.relative_asymmetry(basis.at.tile(some, some))

    def discriminants(self, X: Any) -> Any:
        """f_s and f_t side by side, (N, 2 q); numpy for arrays in memory, a lazy dask array for dask and zarr."""
        check_is_fitted(self)
        X = check_rows(self, X)
        return blocks.map_rows(X, self.block_discriminants, 2 * self.n_outputs_, "predictions")

    def block_discriminants(self, block: Any) -> np.ndarray:
        """f_s and f_t (n, 2 q) of a block of rows in memory, in this thread: for tasks that read rows themselves."""
        s = self.solution_
        return blocks.discriminants(block, self._at, s.source, s.target, s.intercepts)

    def block_outputs(self, block: Any) -> dict[str, np.ndarray]:
        """Return what a store of predictions keeps of a block of rows."""
        f = self.block_discriminants(block)
        q = f.shape[1] // 2
        values = {"f_source": f[:, :q], "f_target": f[:, q:], "score": self.merged_(f)}
        if "probability" in self.output_widths:
            values["probability"] = self.merger_.probability(f)  # type: ignore[assignment]
        return values

    @property
    def output_widths(self) -> dict[str, int]:
        """The columns of each of `block_outputs`."""
        widths = dict.fromkeys(("f_source", "f_target", "score"), self.n_outputs_)
        return widths if self.task_ == "regression" else widths | {"probability": len(self.classes_)}

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


def map_columns(f: Any, function: Callable, n_columns: int | None, dtype: Any = None) -> Any:
    """`function` of each row of f, to (N,) when n_columns is None; lazily where f is a dask array."""
    dtype = dtype or f.dtype
    if isinstance(f, np.ndarray):
        return function(f).astype(dtype, copy=False)
    more = {"drop_axis": 1} if n_columns is None else {"chunks": (f.chunks[0], (n_columns,))}
    return f.map_blocks(lambda block: function(block).astype(dtype, copy=False), dtype=dtype, **more)

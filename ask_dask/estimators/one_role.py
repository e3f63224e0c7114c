"""Shared parts of estimators of methods with one role: the engine, the choice, and functions of new rows."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ask_dask import blocks, budget, compute
from ask_dask.basis import Basis
from ask_dask.errors import InputError, PrecisionWarning
from ask_dask.estimators.fitted import Fit, LandmarkEstimator
from ask_dask.estimators.inputs import check_kernel, check_rows, default_bandwidth, is_number
from ask_dask.fit import selection
from ask_dask.fit.on_landmarks import on_landmarks
from ask_dask.fit.outputs import Outputs
from ask_dask.fit.plan import checkpoint_of, limit
from ask_dask.fit.problem import Problem
from ask_dask.fit.solved import Errors, Solved, candidates, fold_by_fold, precision_warning
from ask_dask.kernels import RBF, Kernel
from ask_dask.score import mean_of_known
from ask_dask.solve import TOO_ROUGH, Functions, Solve
from ask_dask.sparse import row_bytes


class OneRole(LandmarkEstimator):
    """An estimator whose functions are linear in the kernel columns k(x, Z_J) of rows in the source role."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit on rows X (N, d) of numpy, pandas, scipy.sparse, dask or zarr.

        Parameters
        ----------
        y : (N,) classes or values, or (N, L) values, of the same or numpy
            Methods that learn no labels do not use them.
        sample_weight : (N,) array, optional
            Weight of each row, 0 or more.
        groups : (N,) array, optional
            For `cv` a splitter that keeps the rows of a group in one fold, such as scikit-learn's GroupKFold.

        Raises
        ------
        InputError
            Bad parameters, NaN or infinity, labels that the method does not take, or fewer rows than landmarks.
        BudgetError
            The plan does not fit the memory budget.

        Warns
        -----
        PrecisionWarning
            The regularisation is too weak for the precision of the rows; the message names one that is not.
        """
        return self._fit(X, y, sample_weight, groups)

    def _default_kernel(self, points: Any) -> Kernel:
        return RBF(default_bandwidth(points))

    def _check_method(self, method: Solve, least: float = 0.0) -> None:
        """Raise InputError for a kernel, a grid or folds that are not what they must be."""
        check_kernel(self.kernel)
        for value in method.grid:
            if not (is_number(value) and np.isfinite(value) and value > least):
                raise InputError(f"{method.parameter}={value!r} must be a finite number above {least:g}.")
        if not method.grid:
            raise InputError(f"{method.parameter} is an empty list: give at least one value.")
        if self.cv is None and (len(method.grid) > 1 or np.size(self.n_landmarks) > 1):
            raise InputError(
                f"Choosing among several values of {method.parameter} or n_landmarks needs cv: set it to 2 or more."
            )

    def _plan(self, fit: Fit) -> None:
        X, allowed, m = fit.X, limit(self.memory), fit.counts[-1]
        itemsize, workers = np.dtype(X.dtype).itemsize, compute.workers()
        folds, q = max(1, fit.n_folds), fit.outputs.q

        def plan(m: int) -> budget.Phases:
            rows = budget.moments_plan(m, X.shape[0], folds, q, row_bytes(X), itemsize, workers, symmetric=True)
            solve = budget.solve_plan(m, folds, q, workers, symmetric=True)
            models = {"models": 8 * m * m * len(fit.counts)}
            return budget.Phases({"moments": rows, "solve": budget.Plan(solve.parts | models)})

        budget.check(plan, m, allowed, "n_landmarks")
        if fit.n_folds and not fit.method.from_moments:
            pairs = len(fit.counts) * len(fit.method.grid)

            def held_out(scored: int) -> budget.Phases:
                return budget.held_out_plan(scored, X.shape[0], pairs, m, folds, q, row_bytes(X), itemsize, 1, workers)

            budget.check(held_out, min(self.max_scored_rows, X.shape[0]), allowed, "max_scored_rows")

    def _solved(self, engine: Any, problem: Problem, counts: Sequence[int], apart: bool) -> Solved:
        kept = checkpoint_of(self, "direct", problem)
        if apart:
            return fold_by_fold(problem, counts, False, on_landmarks, kept)
        return on_landmarks(problem, counts, kept)

    def _select(self, solved: Solved, problem: Problem) -> int:
        if not problem.n_folds:
            return 0
        with compute.measured(self.steps_, "choose"), compute.one_blas_thread():
            if solved.errors is not None:
                found = [[self._metrics(errors) for errors in pair] for pair in solved.errors]
            else:
                of = candidates(solved, problem, "mean", symmetric=True)
                found = of.metrics()
            sound = [solved.worst(pair).rounding <= TOO_ROUGH for pair in range(len(solved.pairs))]
            self.cv_results_ = selection.cv_results(solved.pairs, found, self.scoring_, sound, problem.solve.parameter)
            chosen = int(np.argmin(self.cv_results_["rank_test_score"]))
            if solved.errors is not None:
                total = sum(solved.errors[chosen][1:], solved.errors[chosen][0])
                self.held_out_ = self._summary(total, problem)
            else:
                self.merger_ = of.merger(chosen)
                self.held_out_ = of.summary(chosen)
        return chosen

    def _metrics(self, errors: Errors) -> dict[str, float | None]:
        """Return the scores of held-out rows from their errors, of a method that has such."""
        raise NotImplementedError(f"{type(self).__name__} has no scores of errors.")

    def _summary(self, errors: Errors, problem: Problem) -> dict[str, Any]:
        """Return what is told of all held-out rows together, ready for JSON."""
        unlike = 0 if problem.unlike_new is None else len(problem.unlike_new)
        return {"n": problem.X.shape[0] - unlike, **self._metrics(errors)}

    def _keep(self, solved: Solved, pair: int, basis: Basis) -> None:
        method, model = self._chosen, solved.models[pair]
        setattr(self, f"{self.parameter}_", solved.pairs[pair][1])
        self.solution_, self.solver_ = model.solution, model.solver
        said = precision_warning(solved, pair, method)
        if said:
            warnings.warn(said, PrecisionWarning, stacklevel=4)

    def _method(self, outputs: Outputs) -> Solve:
        self._chosen = self._solve(outputs)
        return self._chosen

    @abstractmethod
    def _solve(self, outputs: Outputs) -> Solve:
        """Return the method with its grid, after checking the parameters."""

    def _functions(self, X: Any, function: Callable[[Any], np.ndarray], n_columns: int) -> Any:
        """Return a function of blocks of rows for all rows, lazily where these are lazy."""
        check_is_fitted(self)
        return blocks.map_rows(check_rows(self, X), function, n_columns, "predictions")

    def _block(self, block: Any, name: str | None = None) -> np.ndarray:
        """Return the values (n, k) of the solution's own functions, or of those of a name, at a block of rows."""
        s = self.solution_
        functions = Functions(s.source, -s.intercepts[0]) if name is None else s.more[name]
        return functions.scaled(blocks.features(block, self._at.source, functions.coefficients, functions.offsets))


def shares(errors: Errors) -> list[float | None]:
    """Return 1 - errors / total of each output, None where the total is 0."""
    pairs = zip(errors.squares, errors.total, strict=True)
    return [float(1 - squares / total) if total > 0 else None for squares, total in pairs]


def mean_share(errors: Errors) -> float | None:
    """Return the mean of `shares` where it is known."""
    return mean_of_known(shares(errors))

"""Kernel ridge regression on landmarks, as a scikit-learn estimator."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from ask_dask import blocks, compute
from ask_dask.errors import InputError
from ask_dask.estimators.base import map_columns
from ask_dask.estimators.inputs import check_values, in_memory
from ask_dask.estimators.methods import Method, declare
from ask_dask.estimators.one_role import OneRole, mean_share
from ask_dask.fit.outputs import Outputs
from ask_dask.fit.problem import Problem
from ask_dask.fit.solved import Errors, Solved
from ask_dask.kernels import Kernel
from ask_dask.kernels.base import Block
from ask_dask.moments import Rows
from ask_dask.solve import Ridge

ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
WITHOUT_FOLDS = ("gcv", "loo")


class KernelRidge(RegressorMixin, OneRole):
    """Kernel ridge regression on landmarks, one or several real values a row.

    The ridge lives in the features phi of the Nystrom approximation, for which phi(x)'phi(z) is about k(x, z): with
    every row a landmark it is that of `sklearn.kernel_ridge.KernelRidge`. Of an asymmetric kernel the features of the
    source are used. Shawe-Taylor and Sun, Kernel methods and support vector machines, eqs. (3) to (8).

    Parameters
    ----------
    kernel : Kernel, optional
        By default RBF with the bandwidth at which an average pair of landmarks has exp(-1).
    alpha : float or sequence of float
        Penalties of the squared coefficients against the sum of squared errors, above 0; one pass serves all.
    n_landmarks : int, sequence of int, "auto" or None, default "auto"
        "auto" is 1000 or every row, None every row; of several, nested, the one that scores best is chosen.
    cv : int, splitter, "gcv", "loo" or None, default 5
        What alpha and n_landmarks are chosen by. Errors on the rows of held-out folds come from the moments of the one
        pass, "gcv" is generalised cross-validation, and "loo" leaves out each row in turn, in one more pass.
    fit_intercept : bool, default True
        Fit an intercept, which has no penalty.
    scoring : {"r2", "rmse"}, default "r2"
        What chooses on held-out rows.
    landmarks : str, (n,) row numbers or a pair of them, default "uniform"
        How landmarks are chosen, or which rows they are.
    checkpoint : path, optional
        Where the sums of the pass are kept now and then; an interrupted fit goes on from there.
    memory : str or int, optional
        Budget, such as "2GiB"; by default what the machine allows.
    random_state : int, RandomState or None
        Seed of landmarks and folds, recorded in `seed_`.

    Attributes
    ----------
    alpha_, n_landmarks_ : float, int
        The chosen pair.
    cv_results_, held_out_ : dict
        Scores of every pair, and of the chosen one, on held-out rows that are not landmarks.
    degrees_of_freedom_ : float
    row_landmarks_, column_landmarks_ : (n_landmarks_,) int64
    kernel_, seed_, solution_, solver_, steps_ : as in `AsKLSClassifier`

    See Also
    --------
    AsKLSRegressor : regression with both roles of an asymmetric kernel.
    KernelPCA : components of the same features.

    Examples
    --------
    >>> from ask_dask.kernels import RBF
    >>> X = np.linspace(0, 6, 300)[:, None]
    >>> model = KernelRidge(RBF(1.0), n_landmarks=40, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.999
    True
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> std.shape
    (3,)
    """

    parameter = "alpha"
    kept = ("alpha_", "degrees_of_freedom_")

    def __init__(
        self,
        kernel: Kernel | None = None,
        alpha: float | Sequence[float] = ALPHAS,
        n_landmarks: Any = "auto",
        *,
        cv: Any = 5,
        fit_intercept: bool = True,
        scoring: str = "r2",
        landmarks: Any = "uniform",
        checkpoint: str | Path | None = None,
        memory: str | int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.n_landmarks = n_landmarks
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.landmarks = landmarks
        self.checkpoint = checkpoint
        self.memory = memory
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the values (N,), or (N, L) where y was; with `return_std` also the standard deviations of f.

        The variance of f is noise_ (phi'(A + alpha)^-1 phi + 1/N) about the mean features of the training rows, without
        what the landmarks do not explain of k(x, x).
        """
        q = self.n_outputs_ if hasattr(self, "n_outputs_") else 0
        values = self._flat_of(self._functions(X, self._block, q))
        if not return_std:
            return values
        return values, self._flat_of(self._functions(X, self._block_std, q))

    def _flat_of(self, found: Any) -> Any:
        return map_columns(found, lambda block: block[:, 0], None) if self._flat else found

    def _block_std(self, block: Block) -> np.ndarray:
        """Return the standard deviations (n, q) of f at a block of rows."""
        rows = self.solution_.statistics["rows"]
        spread = (self._block(block, "spread") ** 2).sum(1, keepdims=True) + (1 / rows if rows else 0.0)
        return np.sqrt(spread * self.noise_)

    def block_outputs(self, block: Block) -> dict[str, np.ndarray]:
        """Return what a store of predictions keeps of a block of rows."""
        return {"score": self._block(block), "std": self._block_std(block)}

    @property
    def output_widths(self) -> dict[str, int]:
        """The columns of each of `block_outputs`."""
        return {"score": self.n_outputs_, "std": self.n_outputs_}

    @property
    def _cv(self) -> Any:
        return None if isinstance(self.cv, str) else self.cv

    def _check_y(self, y: Any, n_rows: int) -> Outputs:
        values = check_values(in_memory(y), n_rows)
        self._flat = values.ndim == 1
        return Outputs("regression", values.reshape(n_rows, -1))

    def _solve(self, outputs: Outputs) -> Ridge:
        method = Ridge(tuple(np.atleast_1d(self.alpha).tolist()), bool(self.fit_intercept))
        self._check_method(method)
        self.scoring_ = self.scoring
        for name, allowed in (("scoring", ("r2", "rmse")), ("cv", WITHOUT_FOLDS)):
            if (name == "scoring" or isinstance(self.cv, str)) and getattr(self, name) not in allowed:
                raise InputError(f"{name}={getattr(self, name)!r} must be one of {', '.join(allowed)}.")
        return method

    def _metrics(self, errors: Errors) -> dict[str, float | None]:
        mean = np.sqrt(errors.squares / errors.weight).mean() if errors.weight else None
        return {"r2": mean_share(errors), "rmse": None if mean is None else float(mean)}

    def _summary(self, errors: Errors, problem: Problem) -> dict[str, Any]:
        return super()._summary(errors, problem) | {"label_std": float(np.sqrt(errors.total / errors.weight).mean())}

    def _select(self, solved: Solved, problem: Problem) -> int:
        if not isinstance(self.cv, str):
            return super()._select(solved, problem)
        with compute.measured(self.steps_, "choose"):
            found = [model.solution.statistics["gcv"] for model in solved.models]
            losses = np.array(found if self.cv == "gcv" else leave_one_out(problem, solved))
        sound = np.array([model.solution.resolved for model in solved.models])
        order = np.lexsort((losses, ~sound))
        self.cv_results_ = {
            "param_n_landmarks": np.array([n for n, _ in solved.pairs]),
            "param_alpha": np.array([alpha for _, alpha in solved.pairs]),
            "sound": sound,
            f"mean_test_{self.cv}": losses,
            "rank_test_score": np.argsort(order) + 1,
        }
        return int(order[0])

    def _keep(self, solved: Solved, pair: int, basis: Any) -> None:
        super()._keep(solved, pair, basis)
        self.degrees_of_freedom_ = self.solution_.statistics["degrees_of_freedom"]

    @property
    def noise_(self) -> np.ndarray:
        """Estimated variances (q,) of y about f."""
        assert self.solution_.noise is not None
        return self.solution_.noise


def leave_one_out(problem: Problem, solved: Solved) -> list[float]:
    """Return the mean squared error of each pair on rows left out one at a time, from one pass.

    The error of a row by the model without it is e / (1 - h), h being its leverage. Rows that are not like new ones are
    left out of the mean.
    """
    solutions = [model.solution for model in solved.models]
    counted = np.ones(problem.X.shape[0]) if problem.weights.fit is None else problem.weights.fit.astype(np.float64)
    scored = counted.copy()
    if problem.unlike_new is not None:
        scored[problem.unlike_new] = 0
    shared = compute.shared((problem.basis.at, solutions))
    task = compute.task(_left_out)
    parts = []
    for shard in blocks.shards(problem.X):
        rows = slice(shard.start, shard.stop)
        parts.append(task(shard.block, shared, problem.rows[rows], counted[rows], scored[rows]))
    sums = np.sum(compute.run(parts, "leave one out", rows=problem.X.shape[0]), axis=0)
    return (sums / max(scored.sum(), 1.0)).tolist()


def _left_out(block: Block, shared: Any, rows: Rows, counted: np.ndarray, scored: np.ndarray) -> np.ndarray:
    """Return the weighted sum (pairs,) of squared errors of a block's rows, each by the model without it."""
    (at, solutions), sums = shared, []
    around: dict[int, np.ndarray] = {}  # of each landmark count, which all its alphas share
    for s in solutions:
        columns, spread, n = at.prefix(len(s.source)).source, s.more["spread"], s.statistics["rows"]
        if len(s.source) not in around:
            around[len(s.source)] = blocks.features(block, columns, spread.coefficients, spread.offsets)
        error = rows.Y - blocks.features(block, columns, s.source, -s.intercepts[0])
        leverage = counted * ((spread.scaled(around[len(s.source)]) ** 2).sum(1) + (1 / n if n else 0.0))
        sums.append(scored @ (error / np.maximum(1 - leverage, 1e-12)[:, None]) ** 2)
    return np.array(sums).mean(1)


declare(Method("kernel-ridge", KernelRidge, "fit"))

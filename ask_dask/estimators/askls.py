"""The AsK-LS classifier: least-squares SVM with an asymmetric kernel, on landmarks, from one pass over the data."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dask
import numpy as np
from dask.utils import parse_bytes
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ask_dask import blocks, budget, compute, moments, nystrom, score
from ask_dask.errors import InputError, ResonanceWarning
from ask_dask.estimators import selection
from ask_dask.estimators.inputs import (
    check_folds,
    check_gammas,
    check_labels,
    check_rows,
    choose_landmarks,
    is_lazy,
)
from ask_dask.estimators.merge import METHODS, Merger, combine
from ask_dask.kernels import SNE, Kernel, LandmarkKernel
from ask_dask.solve import LandmarkSystem, Solution, mean_solution, resonance

TYPICAL_ROWS = 256
"""Landmarks whose mean kernel columns are subtracted while moments are summed."""


def _calibrated(self: "AsKLSClassifier") -> bool:
    if self.cv is None:
        raise AttributeError("predict_proba needs out-of-fold scores to calibrate on: fit with cv=5.")
    return True


class AsKLSClassifier(ClassifierMixin, BaseEstimator):
    """Least-squares SVM with an asymmetric kernel (AsK-LS), on landmarks, for data of any size.

    One pass over the data gathers moments at the landmarks; from them every gamma, fold and (nested) landmark count is
    solved. One prediction pass scores every pair on held-out rows. Nothing is refitted. He et al., Learning with
    Asymmetric Kernels, eq. (5), in the features of the asymmetric Nystrom method.

    Parameters
    ----------
    kernel : Kernel, default None
        None is `SNE` with bandwidth^2 = 2 times the summed variance of the landmarks' features.
    gamma : float or list of float, default (1, 10, 100, 1000)
        Weight of the squared errors. Of several, cross-validation chooses.
    n_landmarks : "auto", int, list of int or None, default "auto"
        Landmark counts, nested; of several, cross-validation chooses. "auto" is 1000 or, with fewer rows, all of
        them; None is all rows, which equals the exact dual.
    cv : int, splitter or None, default 5
        Folds (stratified and shuffled with `random_state`), or a scikit-learn splitter. None needs a merge other
        than "stack", one gamma and one landmark count.
    merge : {"stack", "mean", "source", "target"}, default "stack"
        The score from f_s and f_t. "stack" is a logistic regression per class on out-of-fold (f_s, f_t); the
        discriminants are then the mean of the fold models', as He et al. have it. The others use the model of all
        rows.
    scoring : {"auroc", "log_loss", "accuracy", "f1_micro", "f1_macro"}, default "auroc"
        What chooses gamma and the landmark count, on held-out rows.
    ridge : float, default 0
        0 is the paper's saddle point; from 1 on the primal is convex and no resonance exists.
    damping : float, default 0
        Tikhonov regularisation of the saddle point's linear system.
    landmarks : {"uniform", "stratified"} or (N,) int array or pair of them, default "uniform"
        How landmarks are chosen, or their row numbers; a pair gives row landmarks I and column landmarks J.
    max_scored_rows : int, default 1_000_000
        Held-out scores and stacking use at most so many rows, drawn uniformly.
    memory : str or int, optional
        Budget, such as "2GiB"; by default what the machine allows.
    random_state : int, RandomState or None
        Seed of landmarks and folds, recorded in `seed_`.

    Attributes
    ----------
    classes_ : (n_classes,) array
    gamma_, n_landmarks_ : float, int
        The chosen pair.
    row_landmarks_, column_landmarks_ : (n_landmarks_,) int64
        Row numbers of the landmarks.
    cv_results_ : dict of arrays
        As in scikit-learn's searches: param_gamma, param_n_landmarks, mean_test_auroc, ...
    held_out_ : dict
        Scores, ROC and calibration curves of the chosen pair on held-out rows.
    singular_values_ : (r,) array
        Of the centred approximate kernel matrix.
    resonance_ : Resonance
        How near 1/gamma_ is to a singular value, the condition number, what was done, and a safe gamma.
    kernel_ : Kernel
    seed_ : int
    solution_ : Solution
        Coefficients of f_s and f_t at the landmarks.
    steps_ : list of dict
        Seconds and peak resident bytes of each step of the fit.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from ask_dask.kernels import SNE
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> m = AsKLSClassifier(kernel=SNE(bandwidth=0.5), gamma=[1, 10], n_landmarks=60, random_state=0).fit(X, y)
    >>> m.score(X, y) > 0.95
    True
    >>> m.predict_proba(X[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        gamma: float | Sequence[float] = (1.0, 10.0, 100.0, 1000.0),
        n_landmarks: Any = "auto",
        *,
        cv: Any = 5,
        merge: str = "stack",
        scoring: str = "auroc",
        ridge: float = 0.0,
        damping: float = 0.0,
        landmarks: Any = "uniform",
        max_scored_rows: int = 1_000_000,
        memory: str | int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.cv = cv
        self.merge = merge
        self.scoring = scoring
        self.ridge = ridge
        self.damping = damping
        self.landmarks = landmarks
        self.max_scored_rows = max_scored_rows
        self.memory = memory
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any) -> "AsKLSClassifier":
        """Fit on rows X (N, d) of numpy, scipy.sparse, dask or zarr and labels y (N,) of the same or numpy.

        Raises
        ------
        InputError
            Bad parameters, NaN or infinity, one class only, fewer rows than landmarks, more folds than rows of a
            class.
        BudgetError
            The moments do not fit the memory budget.

        Warns
        -----
        ResonanceWarning
            gamma_ is at a resonance and neither `ridge` nor `damping` is set.
        """
        X = check_rows(self, X, reset=True)
        self.classes_, codes = check_labels(y, X.shape[0])
        gammas = check_gammas(self.gamma)
        self._check_parameters(gammas)
        self.seed_ = _seed(self.random_state)
        folds, n_folds = check_folds(self.cv, codes, self.seed_)
        rows, columns, counts = choose_landmarks(self.landmarks, self.n_landmarks, codes, self.seed_)
        self._check_memory(X, counts[-1], n_folds)
        self.steps_: list[dict[str, Any]] = []
        with compute.measured(self.steps_, "landmarks"):
            self._place_landmarks(X, rows, columns)
        with compute.measured(self.steps_, "moments"):
            typical = self.row_points_[:TYPICAL_ROWS]
            found = moments.gather(X, codes, self.n_outputs_, folds, n_folds, self.landmark_kernel_, typical)
        pairs = [(n, gamma) for n in counts for gamma in gammas]
        with compute.measured(self.steps_, "core matrix"), compute.one_blas_thread():
            maps = {n: self._feature_map(n) for n in counts}
        if self.cv is None:
            chosen = 0
        else:
            with compute.measured(self.steps_, "solve"):
                solutions = self._fold_solutions(found, maps, gammas, n_folds)
            with compute.measured(self.steps_, "held-out scores"):
                chosen, fold_mean = self._select(X, codes, folds, solutions, pairs)
        self.n_landmarks_, self.gamma_ = pairs[chosen]
        self.row_landmarks_, self.column_landmarks_ = rows[: self.n_landmarks_], columns[: self.n_landmarks_]
        self._at = self.landmark_kernel_.prefix(self.n_landmarks_)
        with compute.measured(self.steps_, "solve on all rows"), compute.one_blas_thread():
            system = LandmarkSystem(found.total().prefix(self.n_landmarks_), maps[self.n_landmarks_])
            everything = system.solve(self.gamma_, self.damping, self.ridge)
        self.singular_values_ = system.singular_values
        self.solution_ = fold_mean if self.merge == "stack" else everything
        self._report_resonance(everything)
        return self

    def _check_parameters(self, gammas: tuple[float, ...]) -> None:
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise InputError(f"kernel={self.kernel!r} is not a Kernel: use one of ask_dask.kernels, such as SNE(2.0).")
        if self.merge not in METHODS:
            raise InputError(f"merge={self.merge!r} must be one of {', '.join(METHODS)}.")
        if self.scoring not in selection.METRICS:
            raise InputError(f"scoring={self.scoring!r} must be one of {', '.join(selection.METRICS)}.")
        for name in ("ridge", "damping"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise InputError(f"{name}={value} must be a finite number, 0 or more.")
        if self.ridge and self.damping:
            raise InputError("ridge and damping are two cures of one problem: set one of them.")
        if self.cv is None and self.merge == "stack":
            raise InputError("merge='stack' needs out-of-fold scores: set cv to 2 or more, or merge to 'mean'.")
        if self.cv is None and (len(gammas) > 1 or np.size(self.n_landmarks) > 1):
            raise InputError("Choosing among several gammas or landmark counts needs cv: set it to 2 or more.")

    def _check_memory(self, X: Any, n_landmarks: int, n_folds: int) -> None:
        given = self.memory if self.memory is not None else compute.machine_memory()
        try:
            limit = int(parse_bytes(given))
        except (ValueError, TypeError) as error:
            raise InputError(f"memory={given!r} is not a size: write it as '2GiB' or a number of bytes.") from error
        itemsize = np.dtype(X.dtype).itemsize
        plan = partial(
            budget.moments_plan,
            n_rows=X.shape[0],
            n_folds=n_folds,
            n_outputs=self.n_outputs_,
            row_bytes=X.shape[1] * itemsize,
            itemsize=itemsize,
            workers=compute.workers(),
            symmetric=self.kernel is not None and self.kernel.symmetric,
        )
        budget.check(plan, n_landmarks, limit, "n_landmarks")
        if self.kernel is not None and self.kernel.needs_targets and is_lazy(X):
            budget.check(lambda n: budget.Plan({"all targets": n * X.shape[1] * itemsize}), X.shape[0], limit, "rows")

    @property
    def n_outputs_(self) -> int:
        """q: 1 for two classes, else one for each class."""
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _place_landmarks(self, X: Any, rows: np.ndarray, columns: np.ndarray) -> None:
        points = blocks.take_rows(X, rows)
        others = points if columns is rows else blocks.take_rows(X, columns)
        blocks.require_finite(points, rows)
        self.kernel_ = self.kernel if self.kernel is not None else _default_kernel(points)
        targets = blocks.take_rows(X, np.arange(X.shape[0])) if self.kernel_.needs_targets else None
        self._bind(points, others, X.shape[0], targets)

    def _bind(self, row_points: Any, column_points: Any, n_rows: int, targets: Any) -> None:
        self.row_points_, self.column_points_, self.n_rows_, self.targets_ = row_points, column_points, n_rows, targets
        self.landmark_kernel_: LandmarkKernel = self.kernel_.at(row_points, column_points, n_rows, targets)

    def _feature_map(self, n: int) -> nystrom.FeatureMap:
        """From the core matrix W in float64, whatever the precision of the blocks: S^-1/2 amplifies its rounding."""
        row_points, column_points = self.row_points_, self.column_points_
        rows = row_points.astype(np.float64)
        columns = rows if column_points is row_points else column_points.astype(np.float64)
        core = self.kernel_.at(rows, columns, self.n_rows_, self.targets_).prefix(n)
        return nystrom.feature_map(core.source(rows[:n]), nystrom.resolution(row_points.dtype))

    def _fold_solutions(
        self, found: moments.Moments, maps: dict[int, nystrom.FeatureMap], gammas: Sequence[float], n_folds: int
    ) -> list[list[Solution]]:
        """Per fold, the solutions of every (landmark count, gamma) pair trained without that fold."""
        total = found.total()

        def path(n: int, fold: int) -> list[Solution]:
            with compute.one_blas_thread():
                training = total.prefix(n) - found.fold(fold).prefix(n)
                return LandmarkSystem(training, maps[n]).path(gammas, self.damping, self.ridge)

        jobs = [dask.delayed(path, pure=False)(n, fold) for fold in range(n_folds) for n in maps]
        paths = compute.run(jobs, "solving", "systems", local=True)
        width = len(maps)
        return [[s for path in paths[f * width : (f + 1) * width] for s in path] for f in range(n_folds)]

    def _select(
        self,
        X: Any,
        codes: np.ndarray,
        folds: np.ndarray,
        solutions: list[list[Solution]],
        pairs: list[tuple[int, float]],
    ) -> tuple[int, Solution]:
        """Score every pair on held-out rows, choose one and fit its merger; the mean of its fold models."""
        rows = selection.sampled_rows(len(codes), self.max_scored_rows, self.seed_)
        held_out = selection.predict_held_out(X, self.landmark_kernel_, solutions, folds, rows)
        metrics = selection.evaluate(held_out, codes, folds, len(solutions), self.merge)
        self.cv_results_ = selection.cv_results(pairs, metrics, self.scoring)
        chosen = int(np.argmin(self.cv_results_["rank_test_score"]))
        f, labels = held_out.f[:, chosen], codes[rows]
        self.merger_ = Merger.fit(self.merge, f, labels)
        scores = score.Scores.of(
            labels, *selection.cross_fitted(f, labels, folds[rows], self.merge), len(self.classes_)
        )
        classes = self.classes_.tolist()
        self.held_out_ = score.summary(scores, classes) | score.curves(scores, classes)
        parts = [fold[chosen] for fold in solutions]
        return chosen, mean_solution(parts)

    def _report_resonance(self, solution: Solution) -> None:
        self.resonance_ = resonance(
            self.singular_values_, self.gamma_, self.damping, solution.condition_number, self.ridge
        )
        if self.resonance_.warning:
            warnings.warn(self.resonance_.warning, ResonanceWarning, stacklevel=3)

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
        """f_s(x) = k(x, Z_J) c + b_1: (N,) for two classes, else (N, n_classes)."""
        return self._columns(self.discriminants(X), lambda f: combine("source", f))

    def decision_target(self, X: Any) -> Any:
        """f_t(x) = k(X_I, x)' a + b_2: (N,) for two classes, else (N, n_classes)."""
        return self._columns(self.discriminants(X), lambda f: combine("target", f))

    def decision_function(self, X: Any) -> Any:
        """The merged score, above 0 for classes_[1]: (N,) for two classes, else (N, n_classes)."""
        return self._columns(self.discriminants(X), self.merged_)

    @available_if(_calibrated)
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, (N, n_classes), calibrated on held-out rows."""
        return _map_columns(self.discriminants(X), self.merger_.probability, len(self.classes_))

    def predict(self, X: Any) -> Any:
        """The class with the largest merged score, (N,)."""
        return _map_columns(self.discriminants(X), self._labels, None, self.classes_.dtype)

    def merged_(self, f: np.ndarray) -> np.ndarray:
        """The merged score (n, q) of discriminants (n, 2 q)."""
        return self.merger_.score(f) if self.merge == "stack" else combine(self.merge, f)

    def _labels(self, f: np.ndarray) -> np.ndarray:
        merged = self.merged_(f)
        return self.classes_[(merged[:, 0] > 0).astype(int) if merged.shape[1] == 1 else merged.argmax(1)]

    def _columns(self, f: Any, function: Callable) -> Any:
        if self.n_outputs_ > 1:
            return _map_columns(f, function, self.n_outputs_)
        return _map_columns(f, lambda block: function(block)[:, 0], None)

    def save(self, path: str | Path, overwrite: bool = False, **facts: Any) -> None:
        """Write a model store; `ask_dask.load` reads it. Facts (JSON values) are kept in its attributes."""
        from ask_dask.estimators.model_store import save

        save(self, path, overwrite, facts)


def _map_columns(f: Any, function: Callable, n_columns: int | None, dtype: Any = None) -> Any:
    """`function` of each row of f, to (N,) when n_columns is None; lazily where f is a dask array."""
    dtype = dtype or f.dtype
    if isinstance(f, np.ndarray):
        return function(f).astype(dtype, copy=False)
    more = {"drop_axis": 1} if n_columns is None else {"chunks": (f.chunks[0], (n_columns,))}
    return f.map_blocks(lambda block: function(block).astype(dtype, copy=False), dtype=dtype, **more)


def _default_kernel(points: Any) -> Kernel:
    dense = points.toarray() if hasattr(points, "toarray") else points
    return SNE(bandwidth=float(np.sqrt(2 * dense.var(0, dtype=np.float64).sum())) or 1.0)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))

"""AsK-LS, the least-squares SVM with an asymmetric kernel, as scikit-learn estimators."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if

from ask_dask.errors import InputError
from ask_dask.estimators.base import AsKLS, map_columns
from ask_dask.estimators.inputs import check_indicators, check_labels, check_values, in_memory, is_indicator
from ask_dask.fit.merge import decide
from ask_dask.fit.outputs import Outputs
from ask_dask.kernels import Kernel


def _calibrated(self: "AsKLSClassifier") -> bool:
    if self.cv is None:
        raise AttributeError("predict_proba needs out-of-fold scores to calibrate on: fit with cv=5.")
    return True


class AsKLSClassifier(ClassifierMixin, AsKLS):
    """Least-squares SVM with an asymmetric kernel (AsK-LS), for data of any size.

    On landmarks, one pass over the data gathers moments; from them every gamma, fold and (nested) landmark count is
    solved, and one prediction pass scores every pair on held-out rows. Nothing is refitted. He et al., Learning with
    Asymmetric Kernels, eq. (5), in the features of the asymmetric Nystrom method. With every row a landmark
    (n_landmarks=None) it is their eq. (6), solved exactly.

    Parameters
    ----------
    kernel : Kernel, default None
        None is `SNE` with bandwidth^2 = 2 times the summed variance of the landmarks' features. Of a kernel over
        numbered points (`Precomputed`, `DirectedGraph`) X holds their numbers, (N, 1) or (N,).
    gamma : float or list of float, default (1, 10, 100, 1000)
        Weight of the squared errors. Of several, cross-validation chooses.
    n_landmarks : "auto", int, list of int or None, default "auto"
        Landmark counts, nested; of several, cross-validation chooses. "auto" is 1000 or, with fewer rows, all of
        them; None is every row, solved exactly.
    cv : int, splitter or None, default 5
        Folds (shuffled with `random_state`, stratified by class), or a scikit-learn splitter. None needs a merge other
        than "stack", one gamma and one landmark count.
    merge : {"stack", "balanced", "mean", "source", "target"}, default "stack"
        The score from f_s and f_t. "stack" is a logistic regression per class on out-of-fold (f_s, f_t), or on their
        mean where the kernel is symmetric; "balanced" is the same with both sides of equal weight (better choices among
        many classes; probabilities of balanced classes). The discriminants are then the mean of the fold models', as He
        et al. have it. The others use the model of all rows, and calibrate f_s, f_t or their mean by such a regression.
        Each regression clips what it merges to the range seen out of fold, and compresses heavy tails. With cv=None the
        score is f_s, f_t or their mean as it is.
    scoring : {None, "auroc", "log_loss", "accuracy", "f1_micro", "f1_macro"}
        What chooses gamma and the landmark count, on held-out rows; None is "auroc".
    symmetrise : {None, "mean", "K'K", "KK'"}, default None
        Use (K + K') / 2, K'K or KK' instead of the kernel, to see what its asymmetry buys.
    solver : {"auto", "direct", "minres"}, default "auto"
        On landmarks "direct" decomposes the moments of one pass, which are m x m for each fold; "minres" iterates on
        blocks of kernel columns, a pass over the rows a step, for landmarks too many for that. The exact solution
        (n_landmarks=None) comes from one decomposition of the whole kernel matrix for each training set, or out of
        core from iteration on its tiles. "auto" takes what fits the memory, and on landmarks the faster one by an
        estimate. `solver_` says which it was.
    ridge : float, default 0
        0 is the paper's saddle point; from 1 on the primal is convex and no resonance exists. On landmarks by the
        direct solver only.
    damping : float, default 0
        Tikhonov regularisation of the saddle point's linear system.
    landmarks : str, (n,) int array or pair of them, default "uniform"
        How landmarks are chosen: "uniform", "stratified" by class, "kmeans", "leverage", "cross", "greedy" or, of a
        graph, "coverage" (`landmarks.choose`). Or their row numbers; a pair gives row landmarks I and column landmarks
        J.
    max_scored_rows : int, default 1_000_000
        Held-out scores and stacking use at most so many rows, drawn uniformly.
    tol, max_iter : float, int, default 1e-8, 1000
        Of minres: relative residual to reach, most iterations.
    preconditioner : "auto" or int, default "auto"
        Of minres on landmarks: rows of the sample whose Grams precondition, "auto" is three a landmark; with 0 it is
        the kernel at the landmarks. Of the exact solution: landmarks of the Nystrom approximation that preconditions,
        "auto" is at most 500, within the budget, and none of a sparse kernel; 0 is none.
    checkpoint : path, optional
        Where the sums of the pass over the rows, or the iterate of minres, are kept now and then, beside it in
        `.NAME.parts` those of each shard; an interrupted fit goes on from there, and a finished one removes them.
    compare_exact : bool, default False
        Also solve exactly at the chosen gamma, and record the error of every landmark count in `landmark_error_`.
    class_weight : {None, "balanced"} or dict, default None
        Weight of each class's squared errors.
    memory : str or int, optional
        Budget, such as "2GiB"; by default what the machine allows.
    random_state : int, RandomState or None
        Seed of landmarks and folds, recorded in `seed_`.

    Attributes
    ----------
    classes_ : (n_classes,) array
        Of several labels a row (y of shape (N, L), 0 or 1, dense or sparse) their numbers.
    gamma_, n_landmarks_ : float, int
        The chosen pair.
    row_landmarks_, column_landmarks_ : (n_landmarks_,) int64
        Row numbers of the landmarks.
    cv_results_ : dict of arrays
        As in scikit-learn's searches: param_gamma, param_n_landmarks, mean_test_auroc, ... "sound" is False for a
        pair that a resonance or rounding spoils; it ranks after all sound ones.
    held_out_ : dict
        Scores and curves of the chosen pair on held-out rows, each of which counts by its sample_weight. They are
        scored as new rows are: landmarks are left out, or where most rows are landmarks (and for every exact fit of a
        kernel that is normalised over the data), each fold's models have landmarks and normalisers without its rows.
    singular_values_ : (r,) array
        Of the centred kernel matrix, or of its approximation.
    resonance_ : Resonance
        How near 1/gamma_ is to a singular value, the condition number, how large the fitted values are against y, what
        was done, and a safe gamma.
    asymmetry_ : float or None
        ||K - K'|| / ||K|| at the (first 1000) landmarks; None where row and column landmarks are not the same.
    solver_ : dict
        "name" is "landmarks", "dense" or "minres"; where minres solved also iterations, residuals, relative_residual
        and converged. On landmarks "precision" is that of the rows; from moments "rounding" is the estimated change of
        the fitted values by it, in standard deviations of y, and "unresolved" the size of what it leaves out of the
        kernel, in units of 1/gamma.
    n_iter_ : int
        Steps of minres, else 1.
    landmark_error_ : dict
        With `compare_exact`: relative root mean square error of f_s and f_t for each landmark count.
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
        class_weight: Any = None,
        memory: str | int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel, gamma, n_landmarks, cv=cv, merge=merge, scoring=scoring, symmetrise=symmetrise, solver=solver,
            ridge=ridge, damping=damping, landmarks=landmarks, max_scored_rows=max_scored_rows, tol=tol,
            max_iter=max_iter, preconditioner=preconditioner, checkpoint=checkpoint, compare_exact=compare_exact,
            memory=memory, random_state=random_state,
        )  # fmt: skip
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> "AsKLSClassifier":
        """Fit on rows X (N, d) of numpy, scipy.sparse, dask or zarr and labels y of the same or numpy.

        Parameters
        ----------
        y : (N,) classes, or (N, L) labels that are 0 or 1, dense or sparse
        sample_weight : (N,) array, optional
            Weight of each row's squared errors, 0 or more.
        groups : (N,) array, optional
            For `cv` a splitter that keeps the rows of a group in one fold, such as scikit-learn's GroupKFold.

        Raises
        ------
        InputError
            Bad parameters, NaN or infinity, one class only, fewer rows than landmarks, more folds than rows of a
            class.
        BudgetError
            The plan does not fit the memory budget.

        Warns
        -----
        ResonanceWarning
            A resonance spoils the model: gamma_ is at one, or the fitted values are more than twice as large as y.
        PrecisionWarning
            gamma_ is too large for the precision of the rows; the message names one that is not.
        ConvergenceWarning
            minres stopped before its tolerance; the message says why.
        """
        return self._fit(X, y, sample_weight, groups)

    def _check_y(self, y: Any, n_rows: int) -> Outputs:
        y = in_memory(y)
        if is_indicator(y):
            labels = check_indicators(y, n_rows)
            self.classes_ = np.arange(labels.shape[1])
            self._y_dtype, self._y_sparse = labels.dtype, sp.issparse(labels)
            return Outputs("multilabel", labels, self.classes_)
        self.classes_, codes = check_labels(y, n_rows)
        return Outputs("classification", codes, self.classes_)

    def _class_weights(self, y: Any) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        y = in_memory(y)
        try:
            return compute_sample_weight(self.class_weight, y.toarray() if sp.issparse(y) else y)
        except ValueError as error:
            raise InputError(f"class_weight: {str(error).rstrip('.')}.") from error

    def decision_function(self, X: Any) -> Any:
        """Return the merged score that `predict` decides by, calibrated log-odds unless cv is None.

        (N,) for two classes, above 0 for classes_[1]; else (N, q), one column a class or label.
        """
        return self._columns(self.discriminants(X), self.merged_)

    @available_if(_calibrated)
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, (N, n_classes), or of each label, (N, L), calibrated on held-out rows."""
        return map_columns(self.discriminants(X), self.merger_.probability, len(self.classes_))

    def predict(self, X: Any) -> Any:
        """Return the class with the largest merged score, which is the most probable one, or the labels above 0.

        (N,), or (N, L) as in y.
        """
        f = self.discriminants(X)
        if self.task_ == "classification":
            return map_columns(f, self._labels, None, self.classes_.dtype)
        found = map_columns(f, self._indicators, self.n_outputs_, self._y_dtype)
        return sp.csr_matrix(found) if self._y_sparse and isinstance(found, np.ndarray) else found

    def _labels(self, f: np.ndarray) -> np.ndarray:
        return self.classes_[decide(self.merged_(f))]

    def _indicators(self, f: np.ndarray) -> np.ndarray:
        return self.merged_(f) > 0


class AsKLSRegressor(RegressorMixin, AsKLS):
    """Least-squares SVM regression with an asymmetric kernel, one or several real values a row.

    The system of `AsKLSClassifier` is linear in y, so real values share its passes, path and solvers. He et al.,
    Learning with Asymmetric Kernels, eqs. (5) and (6), with y real.

    Parameters
    ----------
    kernel, gamma, n_landmarks, cv, symmetrise, solver, ridge, damping, landmarks, max_scored_rows, tol, max_iter,
    preconditioner, checkpoint, compare_exact, memory, random_state
        As in `AsKLSClassifier`; folds are not stratified.
    merge : {"stack", "mean", "source", "target"}, default "stack"
        The value from f_s and f_t. "stack" is a ridge regression per output on out-of-fold (f_s, f_t), clipped and
        compressed as in `AsKLSClassifier`; the discriminants are then the mean of the fold models'. The others are f_s,
        f_t or their mean of the model of all rows, as they are.
    scoring : {None, "r2", "rmse", "mae"}
        What chooses gamma and the landmark count, on held-out rows; None is "r2".

    Attributes
    ----------
    held_out_, cv_results_ : dict
        With r2, rmse and mae of held-out rows; the others as in `AsKLSClassifier`, without `classes_`.

    Examples
    --------
    >>> from ask_dask.kernels import SNE
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> m = AsKLSRegressor(kernel=SNE(bandwidth=0.5), gamma=[10, 100], n_landmarks=50, random_state=0).fit(X, np.sin(X))
    >>> m.score(X, np.sin(X)) > 0.99
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> "AsKLSRegressor":
        """Fit on rows X (N, d) of numpy, scipy.sparse, dask or zarr and values y (N,) or (N, L) of the same or numpy.

        Errors and warnings are those of `AsKLSClassifier.fit`.
        """
        return self._fit(X, y, sample_weight, groups)

    def _check_y(self, y: Any, n_rows: int) -> Outputs:
        values = check_values(in_memory(y), n_rows)
        self._flat = values.ndim == 1
        return Outputs("regression", values.reshape(n_rows, -1))

    def predict(self, X: Any) -> Any:
        """The merged values, (N,), or (N, L) where y was."""
        f = self.discriminants(X)
        return self._columns(f, self.merged_) if self._flat else map_columns(f, self.merged_, self.n_outputs_)

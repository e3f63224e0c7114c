"""The kernel Fisher discriminant on landmarks, as a scikit-learn classifier and transformer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from ask_dask import score
from ask_dask.errors import InputError
from ask_dask.estimators.base import map_columns
from ask_dask.estimators.inputs import check_labels, in_memory
from ask_dask.estimators.methods import Method, declare
from ask_dask.estimators.one_role import OneRole
from ask_dask.fit.merge import decide
from ask_dask.fit.outputs import Outputs
from ask_dask.kernels import Kernel
from ask_dask.kernels.base import Block
from ask_dask.solve import Fisher

MUS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)


class KernelFisherDiscriminant(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, OneRole):
    """Fisher discriminant of two or more classes in the features of a kernel, on landmarks.

    The directions are those of linear discriminant analysis in the features of the Nystrom approximation, with the
    penalty mu; `predict` decides by the classes' frequencies too. Of an asymmetric kernel the features of the source
    are used. Shawe-Taylor and Sun, Kernel methods and support vector machines, eqs. (50) to (59).

    Parameters
    ----------
    kernel : Kernel, optional
        By default RBF with the bandwidth at which an average pair of landmarks has exp(-1).
    mu : float or sequence of float
        Penalties of the squared coefficients against the scatter within classes, above 0; one pass serves all.
    n_landmarks, landmarks, checkpoint, memory, random_state : as in `KernelRidge`
    cv : int, splitter or None, default 5
        Folds whose rows choose mu and n_landmarks, and calibrate probabilities. None takes those of normal classes.
    scoring : {None, "auroc", "log_loss", "accuracy", "f1_micro", "f1_macro"}
        What chooses; None is "auroc".
    class_weight : {None, "balanced"} or dict, default None
        Weight of each class's rows.
    max_scored_rows : int, default 1_000_000
        Most rows that are scored when held out.

    Attributes
    ----------
    classes_ : (n_classes,) array
    mu_, n_landmarks_ : float, int
        The chosen pair.
    cv_results_, held_out_ : dict
        Scores of every pair, and of the chosen one, on held-out rows that are not landmarks.
    row_landmarks_, kernel_, seed_, solution_, solver_, steps_ : as in `KernelRidge`

    See Also
    --------
    AsKLSClassifier : classes from both roles of an asymmetric kernel.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from ask_dask.kernels import RBF
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = KernelFisherDiscriminant(RBF(0.5), n_landmarks=60, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95, model.transform(X).shape
    (True, (300, 1))
    """

    parameter = "mu"
    kept = ("mu_",)

    def __init__(
        self,
        kernel: Kernel | None = None,
        mu: float | Sequence[float] = MUS,
        n_landmarks: Any = "auto",
        *,
        cv: Any = 5,
        scoring: str | None = None,
        class_weight: Any = None,
        landmarks: Any = "uniform",
        max_scored_rows: int = 1_000_000,
        checkpoint: str | Path | None = None,
        memory: str | int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.mu = mu
        self.n_landmarks = n_landmarks
        self.cv = cv
        self.scoring = scoring
        self.class_weight = class_weight
        self.landmarks = landmarks
        self.max_scored_rows = max_scored_rows
        self.checkpoint = checkpoint
        self.memory = memory
        self.random_state = random_state

    def decision_function(self, X: Any) -> Any:
        """Return the log-odds of classes_[1], (N,), or a value (N, n_classes) for each of several classes."""
        found = self._functions(X, self._block_score, self.n_outputs_ if hasattr(self, "n_outputs_") else 0)
        return map_columns(found, lambda block: block[:, 0], None) if self.n_outputs_ == 1 else found

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes, (N, n_classes)."""
        return self._functions(X, self._block_probability, len(getattr(self, "classes_", ())))

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row, (N,)."""
        found = self._functions(X, self._block_score, self.n_outputs_ if hasattr(self, "n_outputs_") else 0)
        return map_columns(found, lambda block: self.classes_[decide(block)], None, self.classes_.dtype)

    def transform(self, X: Any) -> Any:
        """Return Fisher's directions of rows, (N, n_classes - 1): their scatter within classes is at most 1."""
        check_is_fitted(self)
        return self._functions(X, self._block_directions, self._n_features_out)

    def _block_directions(self, block: Block) -> np.ndarray:
        return self._block(block, "directions")

    def _block_score(self, block: Block) -> np.ndarray:
        f = self._block(block)
        return f if self.cv is None else self.merger_.value(np.hstack([f, f]))

    def _block_probability(self, block: Block) -> np.ndarray:
        f = self._block(block)
        if self.cv is None:
            return softmax(np.hstack([np.zeros_like(f), f]) if self.n_outputs_ == 1 else f, axis=1)
        return self.merger_.probability(np.hstack([f, f]))  # type: ignore[return-value]

    def block_outputs(self, block: Block) -> dict[str, np.ndarray]:
        """Return what a store of predictions keeps of a block of rows."""
        functions = {
            "score": self._block_score, "probability": self._block_probability, "directions": self._block_directions
        }  # fmt: skip
        return {name: function(block) for name, function in functions.items()}

    @property
    def output_widths(self) -> dict[str, int]:
        """The columns of each of `block_outputs`."""
        return {"score": self.n_outputs_, "probability": len(self.classes_), "directions": self._n_features_out}

    @property
    def _n_features_out(self) -> int:
        return self.solution_.more["directions"].coefficients.shape[1]

    def _check_y(self, y: Any, n_rows: int) -> Outputs:
        self.classes_, codes = check_labels(in_memory(y), n_rows)
        return Outputs("classification", codes, self.classes_)

    def _class_weights(self, y: Any) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        try:
            return compute_sample_weight(self.class_weight, in_memory(y))
        except ValueError as error:
            raise InputError(f"class_weight: {str(error).rstrip('.')}.") from error

    def _solve(self, outputs: Outputs) -> Fisher:
        method = Fisher(tuple(np.atleast_1d(self.mu).tolist()))
        self._check_method(method)
        self.scoring_ = self.scoring or "auroc"
        if self.scoring_ not in score.OF_TASK["classification"]:
            allowed = ", ".join(score.OF_TASK["classification"])
            raise InputError(f"scoring={self.scoring!r} must be one of {allowed}.")
        return method


declare(Method("kernel-fisher", KernelFisherDiscriminant, "fit"))

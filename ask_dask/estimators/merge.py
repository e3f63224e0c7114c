"""One score from the two discriminants: stacking, mean, source or target, and its probability.

The mean of f_s and f_t loses much where their scales differ, as on graphs. Balanced stacking gives both sides of each
class's regression the same weight: on many classes of different sizes the largest score is then a better choice, while
its probabilities are those of balanced classes.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler

METHODS = ("stack", "balanced", "mean", "source", "target")
STACKED = ("stack", "balanced")


@dataclass(frozen=True)
class Merger:
    """A regression per output on (f_s, f_t), or on one of them or their mean: logistic for classes, else linear.

    Attributes
    ----------
    weights : (2, q) float64
        Of f_s and f_t in the log-odds of each class, or in the value.
    intercepts : (q,) float64
    task : {"classification", "multilabel", "regression"}
    """

    method: str
    weights: np.ndarray
    intercepts: np.ndarray
    task: str = "classification"

    @classmethod
    def fit(
        cls,
        method: str,
        f: np.ndarray,
        Y: np.ndarray,
        task: str = "classification",
        sample_weight: np.ndarray | None = None,
    ) -> "Merger":
        """Fit on out-of-fold discriminants.

        Parameters
        ----------
        f : (n, 2 q) array
            f_s then f_t.
        Y : (n, q) array
            +1 and -1, or real values.
        sample_weight : (n,) array, optional

        Examples
        --------
        >>> f = np.array([[-1.0, -2.0], [1.0, 2.0], [-1.5, -1.0], [2.0, 0.5]])
        >>> merger = Merger.fit("stack", f, np.array([[-1], [1], [-1], [1]]))
        >>> merger.score(f).ravel() > 0
        array([False,  True, False,  True])
        """
        f, q = f.astype(np.float64), f.shape[1] // 2
        weights, intercepts = np.zeros((2, q)), np.zeros(q)
        for k in range(q):
            features = f[:, [k, q + k]] @ _combination(method)
            weight, intercepts[k] = _regression(features, Y[:, k], task, sample_weight, method == "balanced")
            weights[:, k] = _combination(method) @ weight
        return cls(method, weights, intercepts, task)

    def value(self, f: np.ndarray) -> np.ndarray:
        """(n, q) calibrated log-odds of each class, or regressed values."""
        q = f.shape[1] // 2
        return f[:, :q] * self.weights[0] + f[:, q:] * self.weights[1] + self.intercepts

    def score(self, f: np.ndarray) -> np.ndarray:
        """(n, q) merged scores: the regression's when stacking, else f_s, f_t or their mean."""
        return self.value(f) if self.method in STACKED else combine(self.method, f)

    def probability(self, f: np.ndarray) -> np.ndarray | None:
        """(n, n_classes) probabilities, rows summing to one; (n, L) of several labels; None of real values."""
        if self.task == "regression":
            return None
        p = expit(self.value(f).astype(np.float64))
        if self.task == "multilabel":
            return p
        if p.shape[1] == 1:
            return np.hstack([1 - p, p])
        total = p.sum(1, keepdims=True)
        return np.divide(p, total, out=np.full_like(p, 1 / p.shape[1]), where=total > 0)


def _regression(
    features: np.ndarray, y: np.ndarray, task: str, sample_weight: np.ndarray | None, balanced: bool
) -> tuple[np.ndarray, float]:
    """Weights of the features and the intercept."""
    scaler = StandardScaler().fit(features, sample_weight=sample_weight)
    scaled = scaler.transform(features)
    if task == "regression":
        model = LinearRegression().fit(scaled, y, sample_weight)
        weight, intercept = model.coef_, model.intercept_
    else:
        positive = y > 0
        if positive.all() or not positive.any():  # no such row in these folds: the smoothed constant
            return np.zeros(features.shape[1]), np.log((positive.sum() + 0.5) / ((~positive).sum() + 0.5))
        model = LogisticRegression(class_weight="balanced" if balanced else None).fit(scaled, positive, sample_weight)
        weight, intercept = model.coef_[0], model.intercept_[0]
    weight = weight / scaler.scale_
    return weight, float(intercept - weight @ scaler.mean_)


def combine(method: str, f: np.ndarray) -> np.ndarray:
    """(n, q) f_s, f_t or their mean from (n, 2 q)."""
    q = f.shape[1] // 2
    return {"source": f[:, :q], "target": f[:, q:]}.get(method, (f[:, :q] + f[:, q:]) / 2)


def _combination(method: str) -> np.ndarray:
    """(2, k) matrix that takes (f_s, f_t) to the features of the regression."""
    columns = {"mean": np.full((2, 1), 0.5), "source": np.eye(2)[:, :1], "target": np.eye(2)[:, 1:]}
    return columns.get(method, np.eye(2))

"""One score from the two discriminants: stacking, mean, source or target, and its probability."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

METHODS = ("stack", "mean", "source", "target")

MOST_ROWS = 100_000
"""Rows that a merger is fitted on at most: it has three parameters."""


@dataclass(frozen=True)
class Merger:
    """A logistic regression per class on (f_s, f_t), or on one of them or their mean.

    Attributes
    ----------
    weights : (2, q) float64
        Of f_s and f_t in the log-odds of each class.
    intercepts : (q,) float64
    """

    method: str
    weights: np.ndarray
    intercepts: np.ndarray

    @classmethod
    def fit(cls, method: str, f: np.ndarray, codes: np.ndarray) -> "Merger":
        """Fit on out-of-fold discriminants.

        Parameters
        ----------
        f : (n, 2 q) array
            f_s then f_t.
        codes : (n,) class numbers

        Examples
        --------
        >>> f = np.array([[-1.0, -2.0], [1.0, 2.0], [-1.5, -1.0], [2.0, 0.5]])
        >>> merger = Merger.fit("stack", f, np.array([0, 1, 0, 1]))
        >>> merger.score(f).ravel() > 0
        array([False,  True, False,  True])
        """
        step = -(-len(codes) // MOST_ROWS)
        f, codes = f[::step].astype(np.float64), codes[::step]
        q = f.shape[1] // 2
        weights, intercepts = np.zeros((2, q)), np.zeros(q)
        for k in range(q):
            features = f[:, [k, q + k]] @ _combination(method)
            scaler = StandardScaler().fit(features)
            positive = codes == (1 if q == 1 else k)
            if positive.all() or not positive.any():  # no such row in these folds: the smoothed constant
                intercepts[k] = np.log((positive.sum() + 0.5) / ((~positive).sum() + 0.5))
                continue
            model = LogisticRegression().fit(scaler.transform(features), positive)
            weight = model.coef_[0] / scaler.scale_
            weights[:, k] = _combination(method) @ weight
            intercepts[k] = model.intercept_[0] - weight @ scaler.mean_
        return cls(method, weights, intercepts)

    def log_odds(self, f: np.ndarray) -> np.ndarray:
        """(n, q) calibrated log-odds of each class."""
        q = f.shape[1] // 2
        return f[:, :q] * self.weights[0] + f[:, q:] * self.weights[1] + self.intercepts

    def score(self, f: np.ndarray) -> np.ndarray:
        """(n, q) merged scores: the log-odds when stacking, else f_s, f_t or their mean."""
        return self.log_odds(f) if self.method == "stack" else combine(self.method, f)

    def probability(self, f: np.ndarray) -> np.ndarray:
        """(n, n_classes) probabilities, rows summing to one."""
        p = expit(self.log_odds(f).astype(np.float64))
        if p.shape[1] == 1:
            return np.hstack([1 - p, p])
        total = p.sum(1, keepdims=True)
        return np.divide(p, total, out=np.full_like(p, 1 / p.shape[1]), where=total > 0)


def combine(method: str, f: np.ndarray) -> np.ndarray:
    """(n, q) f_s, f_t or their mean from (n, 2 q)."""
    q = f.shape[1] // 2
    return {"source": f[:, :q], "target": f[:, q:]}.get(method, (f[:, :q] + f[:, q:]) / 2)


def _combination(method: str) -> np.ndarray:
    """(2, k) matrix that takes (f_s, f_t) to the features of the regression."""
    columns = {"stack": np.eye(2), "mean": np.full((2, 1), 0.5), "source": np.eye(2)[:, :1], "target": np.eye(2)[:, 1:]}
    return columns[method]

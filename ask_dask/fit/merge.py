"""One score from the two discriminants: stacking, mean, source or target, its probability, and the class it chooses.

The mean of f_s and f_t loses much where their scales differ, as on graphs. Balanced stacking gives both sides of each
class's regression the same weight: on many classes of different sizes the largest score is then a better choice, while
its probabilities are those of balanced classes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_expit, softmax
from sklearn.linear_model import LogisticRegression

from ask_dask.fit.bend import Bend, bends_of

METHODS = ("stack", "balanced", "mean", "source", "target")
STACKED = ("stack", "balanced")

RIDGE = 1e-4
"""L2 penalty of a regression of values, in shares of the rows' weight: keeps a difference of f_s and f_t that is only
rounding from getting a large weight."""

LEAST = 1e-3
"""Least weight of a discriminant in log-odds, for each of its deviations: rows keep their order, and probabilities
hardly change."""

SURE = 3.0
"""Standard errors below zero at which a negative weight is believed, as where neighbours in a graph differ in class."""


@dataclass(frozen=True)
class Merger:
    """A regression on bent (f_s, f_t), one of them, or their mean: logistic for classes, else linear.

    Each output has a regression of its own; without stacking the classes share one, so that the largest of f_s, f_t or
    their mean stays the largest.

    Attributes
    ----------
    weights : (2, q) float64
        Those of f_s and f_t in the log-odds of each class, or in the value; below zero only where that is sure.
    intercepts : (q,) float64
    bend : Bend of (2, q) arrays
        Applied to f_s and f_t, or to their mean, before they are weighted.
    shared : bool
        Their mean stands for both: merge="mean", and stacking with a symmetric kernel, where f_s = f_t.
    task : {"classification", "multilabel", "regression"}
    """

    method: str
    weights: np.ndarray
    intercepts: np.ndarray
    bend: Bend
    shared: bool = False
    task: str = "classification"

    @classmethod
    def fit(
        cls,
        method: str,
        f: np.ndarray,
        Y: np.ndarray,
        task: str = "classification",
        sample_weight: np.ndarray | None = None,
        symmetric: bool = False,
    ) -> "Merger":
        """Fit on out-of-fold discriminants.

        Values that are not stacked need no regression: they are f_s, f_t or their mean.

        Parameters
        ----------
        f : (n, 2 q) array
            f_s then f_t.
        Y : (n, q) array
            +1 and -1, or real values.
        sample_weight : (n,) array, optional
            Rows of weight zero are left out.
        symmetric : bool, default False
            f_s and f_t differ by rounding only: stack their mean.

        Examples
        --------
        >>> f = np.array([[-1.0, -2.0], [1.0, 2.0], [-1.5, -1.0], [2.0, 0.5]])
        >>> merger = Merger.fit("stack", f, np.array([[-1], [1], [-1], [1]]))
        >>> merger.value(f).ravel() > 0
        array([False,  True, False,  True])
        """
        q, shared = f.shape[1] // 2, method == "mean" or (symmetric and method in STACKED)
        if task == "regression" and method not in STACKED:
            weights = np.repeat(_combination(method, shared).sum(1, keepdims=True), q, axis=1)
            return cls(method, weights, np.zeros(q), Bend.linear((2, q)), shared, task)
        if sample_weight is not None:
            kept = sample_weight > 0
            f, Y, sample_weight = f[kept], Y[kept], sample_weight[kept].astype(np.float64)
        combination = _combination(method, shared)
        sides, used = [0] if shared else np.flatnonzero(combination.any(1)).tolist(), combination.any(1)
        weights, intercepts, bends = np.zeros((2, q)), np.zeros(q), np.stack(Bend.linear((2, q)).rows())
        one = task == "classification" and method not in STACKED  # for all classes, so that it keeps their order
        for outputs in [list(range(q))] if one else [[k] for k in range(q)]:
            features = np.column_stack(
                [np.concatenate([_feature(f[:, [k, q + k]], side, shared) for k in outputs]) for side in sides]
            )
            weight, intercept, bend = _regression(
                features,
                Y[:, outputs].T.ravel(),
                task,
                None if sample_weight is None else np.tile(sample_weight, len(outputs)),
                method == "balanced" and task != "regression",
                (combination**2).sum(0),
            )
            for k in outputs:
                weights[:, k], intercepts[k], bends[:, used, k] = combination @ weight, intercept, np.stack(bend.rows())
        return cls(method, weights, intercepts, Bend(*bends), shared, task)

    def value(self, f: np.ndarray) -> np.ndarray:
        """Return the merged scores (n, q), in the precision of f: log-odds of each class, or values.

        Everything that chooses a class or a label starts from these: `decide` and `probability`.
        """
        value = np.zeros((len(f), f.shape[1] // 2)) + self.intercepts
        for side, weights in enumerate(self.weights):
            if weights.any():
                value += weights * self.bend.side(side)(_feature(f, side, self.shared))
        return value.astype(f.dtype, copy=False)

    def probability(self, f: np.ndarray) -> np.ndarray | None:
        """Return probabilities, (n, n_classes) with rows that sum to one, (n, L) of labels, or None of real values.

        The most probable class is that of the largest value, also where rounding to float32 makes two of them equal;
        a label of a value above zero has a probability above one half.
        """
        if self.task == "regression":
            return None
        value = self.value(f)
        if self.task == "multilabel":
            p = np.exp(log_expit(value.astype(np.float64)))
            return np.where(value > 0, np.maximum(p, _above(0.5)), p)
        p = _class_probability(value.astype(np.float64))
        _make_largest(p, decide(value))
        return p


def decide(score: np.ndarray) -> np.ndarray:
    """Return the class numbers (n,) of scores (n, q): 1 above zero for one column, else that of the largest.

    >>> decide(np.array([[-1.0], [2.0]])), decide(np.array([[-1.0, -3.0, -0.5]]))
    (array([0, 1]), array([2]))
    """
    return (score[:, 0] > 0).astype(int) if score.shape[1] == 1 else score.argmax(1)


def combine(method: str, f: np.ndarray) -> np.ndarray:
    """(n, q) f_s, f_t or their mean from (n, 2 q)."""
    q = f.shape[1] // 2
    return {"source": f[:, :q], "target": f[:, q:]}.get(method, (f[:, :q] + f[:, q:]) / 2)


def _feature(f: np.ndarray, side: int, shared: bool) -> np.ndarray:
    """(n, q) float64: f_s (0) or f_t (1), or their mean for both."""
    return combine("mean" if shared else ("source", "target")[side], f.astype(np.float64, copy=False))


def _combination(method: str, shared: bool) -> np.ndarray:
    """(2, k) matrix that takes the weights of the k features that are regressed on to those of f_s and f_t."""
    if shared:
        return np.full((2, 1), 0.5)
    columns = {"source": np.eye(2)[:, :1], "target": np.eye(2)[:, 1:]}
    return columns.get(method, np.eye(2))


def _class_probability(value: np.ndarray) -> np.ndarray:
    """(n, n_classes) from log-odds (n, q): each class's share of the sum, in logarithms since all may underflow."""
    if value.shape[1] == 1:
        return np.exp(log_expit(value * [-1.0, 1.0]))
    return softmax(log_expit(value), axis=1)


def _make_largest(p: np.ndarray, codes: np.ndarray) -> None:
    """Raise the probability of each row's class where float32 has another one equal to it."""
    tied = np.flatnonzero(p.astype(np.float32).argmax(1) != codes)
    p[tied, codes[tied]] = _above(p[tied].max(1, initial=0))


def _above(p: np.ndarray | float) -> np.ndarray:
    """The next float32."""
    return np.nextafter(np.float32(p), np.float32(2)).astype(np.float64)


def _regression(
    features: np.ndarray,
    y: np.ndarray,
    task: str,
    sample_weight: np.ndarray | None,
    balanced: bool,
    penalty: np.ndarray,
) -> tuple[np.ndarray, float, Bend]:
    """Weights of the bent features (n, k), the intercept, and the bend that fits best.

    `penalty` (k,) is the squared length that one of a feature's weight has in those of f_s and f_t.
    """
    positive = y > 0
    if task != "regression" and (positive.all() or not positive.any()):  # no such row: the smoothed constant
        constant = float(np.log((positive.sum() + 0.5) / ((~positive).sum() + 0.5)))
        return np.zeros(features.shape[1]), constant, Bend.linear(features.shape[1:])
    rows = np.ones(len(y)) if sample_weight is None else sample_weight
    sides = np.array([rows[~positive].sum(), rows[positive].sum()])
    counted = rows * (rows.sum() / (2 * sides))[positive.astype(int)] if balanced else rows
    fit, least, found = (_ridge, 0.0, []) if task == "regression" else (_logistic, LEAST, [])
    for bend in bends_of(features, sample_weight, "balanced" if balanced else task):
        bent = bend(features)
        mean = np.average(bent, axis=0, weights=rows)
        scale = np.sqrt(np.average((bent - mean) ** 2, axis=0, weights=rows) * penalty)
        scale[scale == 0] = 1
        weight, intercept, loss = _increasing(fit, (bent - mean) / scale, y, counted, least)
        weight = weight / scale
        found.append((loss, weight, float(intercept - weight @ mean), bend))
    _, weight, intercept, bend = min(found, key=lambda one: one[0])  # the widest of equals
    return weight, intercept, bend


def _increasing(
    fit: Callable[..., tuple[np.ndarray, float, float]],
    features: np.ndarray,
    y: np.ndarray,
    rows: np.ndarray,
    least: float,
) -> tuple[np.ndarray, float, float]:
    """Return the best weights, the intercept, and the loss; no weight is below the least unless that is SURE.

    Models of other folds have seen a fold's labels, and the sign of their scores' relation to the labels tells of
    these: a merger that may always turn scores round has an AUROC above one half on labels that are noise.
    """
    weight, intercept, loss = fit(features, y, rows)
    if (weight >= least).all():
        return weight, intercept, loss
    best = np.full(len(weight), least), *fit(features[:, :0], y, rows)[1:]
    for number in range(len(weight) if len(weight) > 1 else 0):  # of two, one is at its bound
        alone, own, left = fit(features[:, [number]], y, rows)
        if alone[0] > least and left < best[2]:
            best = np.where(np.arange(len(weight)) == number, alone[0], least), own, left
    return (weight, intercept, loss) if best[2] - loss > SURE**2 / 2 else best


def _logistic(features: np.ndarray, y: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Weights, intercept and log loss of an L2 logistic regression."""
    if features.shape[1]:
        model = LogisticRegression(solver="newton-cholesky", tol=1e-8).fit(features, y > 0, rows)
        weight, intercept = model.coef_[0], model.intercept_[0]
    else:
        weight, intercept = np.zeros(0), np.log(rows[y > 0].sum() / rows[y <= 0].sum())
    value = features @ weight + intercept
    return weight, intercept, float(rows @ np.logaddexp(0, np.where(y > 0, -value, value)))


def _ridge(features: np.ndarray, y: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Weights, intercept and negative log-likelihood of a ridge regression; the features have mean zero."""
    mean = np.average(y, weights=rows)
    gram = (features.T * rows) @ features + RIDGE * rows.sum() * np.eye(features.shape[1])
    weight = np.linalg.solve(gram, (features.T * rows) @ (y - mean))
    left = float(rows @ (y - mean - features @ weight) ** 2)
    return weight, float(mean), rows.sum() / 2 * float(np.log(max(left, np.finfo(float).tiny)))

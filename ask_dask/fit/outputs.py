"""What is learned: classes, several labels a row, or real values; their encoding and how they are scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from ask_dask import score
from ask_dask.moments import Rows

Task = Literal["classification", "multilabel", "regression", "components"]


@dataclass(frozen=True)
class Outputs:
    """Labels as they are kept, and the q numbers a row that are learned from them.

    Attributes
    ----------
    task : {"classification", "multilabel", "regression", "components"}
        Components have no labels: their y is (N, 0).
    y : (N,) class numbers, (N, L) 0/1 ndarray or CSR, or (N, L) float64
    classes : array or None
        Of a classification its classes; of several labels their numbers.
    """

    task: Task
    y: Any
    classes: np.ndarray | None = None

    @property
    def q(self) -> int:
        """1 for two classes, else one for each class, label or value."""
        if self.task == "classification":
            return 1 if len(self._classes) == 2 else len(self._classes)
        return self.y.shape[1]

    @property
    def _classes(self) -> np.ndarray:
        assert self.classes is not None
        return self.classes

    @property
    def codes(self) -> np.ndarray | None:
        """(N,) class numbers, by which folds and landmarks can be stratified."""
        return self.y if self.task == "classification" else None

    def rows(self, folds: np.ndarray, weights: np.ndarray | None) -> Rows:
        """As the pass over the data takes them."""
        return Rows(self.y, partial(encode, self.task, self.q), folds, weights)

    def some(self, rows: np.ndarray) -> "Outputs":
        """Return the outputs of some rows."""
        return Outputs(self.task, self.y[rows], self.classes)

    def Y(self, rows: Any) -> np.ndarray:
        """(n, q) float64 of some rows."""
        return np.asarray(encode(self.task, self.q, self.y[rows]), np.float64)

    def metrics(
        self, rows: np.ndarray, merged: np.ndarray, probability: np.ndarray | None, weights: np.ndarray | None
    ) -> dict[str, float | None]:
        """The metrics of the task of some rows' merged scores (n, q) and probabilities."""
        y = self.y[rows]
        if self.task == "regression":
            return score.regression_metrics(y, merged, weights)
        assert probability is not None
        function = score.metrics if self.task == "classification" else score.multilabel_metrics
        return function(y, merged, probability, weights)

    def summary(
        self, rows: np.ndarray, merged: np.ndarray, probability: np.ndarray | None, weights: np.ndarray | None
    ) -> dict[str, Any]:
        """Return the metrics of `metrics`, and curves, ready for JSON."""
        y = self.y[rows]
        if self.task == "regression":
            return score.regression_summary(score.RegressionScores.of(y, merged, weights))
        assert probability is not None
        if self.task == "multilabel":
            return score.multilabel_summary(score.MultilabelScores.of(y, merged, probability, weights))
        classes: Sequence[Any] = self._classes.tolist()
        scores = score.Scores.of(y, merged, probability, len(classes), weights)
        return score.summary(scores, classes) | score.curves(scores, classes)


def encode(task: Task, q: int, y: Any) -> np.ndarray:
    """(n, q) numbers that are learned: +1 and -1 for classes and labels, real values as they are.

    >>> encode("classification", 3, np.array([2, 0])).tolist()
    [[-1.0, -1.0, 1.0], [1.0, -1.0, -1.0]]
    """
    if task == "classification":
        return np.where(y[:, None] == (np.arange(q) if q > 1 else [1]), 1.0, -1.0)
    y = y.toarray() if sp.issparse(y) else y
    return 2.0 * y - 1 if task == "multilabel" else y

"""Several labels a row over blocks of rows: counts of each label that are added; the rows are never kept.

A label is predicted where its probability is above one half.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ask_dask.errors import InputError
from ask_dask.score.ranks import LIMIT, RankCounts
from ask_dask.score.shared import (
    CURVES,
    calibration_curve,
    mean_of_known,
    probability_bins,
    refuse_rows,
    roc_curve,
    some,
)

METRICS = ("auroc", "log_loss", "accuracy", "f1_micro", "f1_macro")


@dataclass(frozen=True, eq=False)
class MultilabelScores:
    """Sufficient statistics of a block of rows with L labels, each 0 or 1; add those of two blocks with `+`.

    Attributes
    ----------
    n : int
        Rows of a weight above zero.
    weight : int or float
        Their total weight, n without weights.
    counts : (3, L) int64 or float64
        Rows that have each label, that are predicted to have it, and both.
    right : int or float
        Rows where every label is right.
    log_loss : (L,) float64
        Sums over the rows.
    ranks : tuple of RankCounts
        One a label; LIMIT distinct scores are shared among them.
    bins : (3, BINS) float64
        Sums over bins of the probability, all labels together: probability, labels, labels that are there.

    Examples
    --------
    >>> p = np.array([[0.9, 0.2], [0.6, 0.7], [0.1, 0.4]])
    >>> block = MultilabelScores.of(np.array([[1, 0], [0, 1], [0, 0]]), p, p)
    >>> multilabel_summary(block + block, ["red", "new"])["f1_by_label"]
    [0.6666666666666666, 1.0]
    """

    n: int
    weight: float
    counts: np.ndarray
    right: float
    log_loss: np.ndarray
    ranks: tuple[RankCounts, ...]
    bins: np.ndarray

    @classmethod
    def of(
        cls, y: Any, score: np.ndarray, probability: np.ndarray, weight: np.ndarray | None = None, first_row: int = 0
    ) -> "MultilabelScores":
        """Statistics of a block.

        Parameters
        ----------
        y : (n, L) bool or 0/1, dense or sparse
        score, probability : (n, L) float
        weight : (n,) float, optional
            Zero or more; rows of weight zero are left out.
        first_row : int
            Number of the first row, for what is said of bad ones.

        Raises
        ------
        InputError
            Shapes that do not go together, a label that is neither 0 nor 1, a NaN, a probability outside 0..1.
        """
        y, score, probability = _dense(y), np.asarray(score), np.asarray(probability)
        _check(y, score, probability, first_row)
        if weight is not None:
            kept = np.asarray(weight) > 0
            y, score, probability, weight = y[kept], score[kept], probability[kept], np.asarray(weight, float)[kept]
        w, y, labels = np.ones(len(y), np.int64) if weight is None else weight, y.astype(bool), y.shape[1]
        chosen = probability > 0.5
        eps = np.finfo(probability.dtype).eps  # the clip of scikit-learn
        losses = -np.log(np.clip(np.where(y, probability, 1 - probability), eps, 1 - eps), dtype=np.float64)
        columns = zip(np.ascontiguousarray(score.T), np.ascontiguousarray(y.T), strict=True)
        ranks = (RankCounts.of(values, true, max(2, LIMIT // labels), weight) for values, true in columns)
        return cls(
            len(y),
            w.sum().item(),
            np.stack([w @ part for part in (y, chosen, y & chosen)]),
            (w @ (y == chosen).all(axis=1)).item(),
            w @ losses,
            tuple(ranks),
            probability_bins(np.ravel(probability).astype(np.float64), y.ravel(), np.repeat(w, labels)),
        )

    def __add__(self, other: "MultilabelScores") -> "MultilabelScores":
        return MultilabelScores(
            self.n + other.n,
            self.weight + other.weight,
            self.counts + other.counts,
            self.right + other.right,
            self.log_loss + other.log_loss,
            tuple(a + b for a, b in zip(self.ranks, other.ranks, strict=True)),
            self.bins + other.bins,
        )


def _dense(y: Any) -> np.ndarray:
    return y.toarray() if sp.issparse(y) else np.asarray(y)


def _check(y: np.ndarray, score: np.ndarray, probability: np.ndarray, first_row: int) -> None:
    if y.ndim != 2 or not y.shape[1] or not y.shape == score.shape == probability.shape:
        raise InputError(
            f"Labels, scores and probabilities need one shape (n, L) and have {y.shape}, {score.shape} and "
            f"{probability.shape}: predict the data that is scored."
        )
    refuse_rows(
        first_row,
        (~np.isin(y, (0, 1)).all(axis=1), "a label that is neither 0 nor 1: write 1 where a row has it, else 0."),
        (np.isnan(score).any(axis=1), "a score that is NaN: fit the model again."),
        (
            ~((probability >= 0) & (probability <= 1 + 1e-6)).all(axis=1),
            "a probability outside 0..1: fit the model again.",
        ),
    )


def multilabel_summary(scores: MultilabelScores, names: Sequence[Any] | None = None) -> dict[str, Any]:
    """The metrics, ready for JSON; one that is undefined is None, and `reasons` says why.

    Keys: n, label_names (or None), auroc (mean of the labels that some rows have and some have not), auroc_error
    (bound; 0 when exact), log_loss (mean of the labels), accuracy (rows where every label is right), f1_micro,
    f1_macro (over the labels that occur or are predicted), auroc_by_label, f1_by_label, log_loss_by_label, label_rates
    and mean_probability (of all labels), roc (a list, with the `label` in each, of the most frequent labels),
    calibration (all labels together), reasons ({metric: why}).
    """
    weight, labels = scores.weight or 1, list(range(len(scores.log_loss)) if names is None else names)
    there, chosen, both = scores.counts.astype(float)
    areas, errors = zip(*(ranks.auroc() for ranks in scores.ranks), strict=True)
    f1 = [2 * b / (a + c) if a + c else None for a, c, b in scores.counts.T.tolist()]
    metrics = {
        "log_loss": float(scores.log_loss.mean()) / weight,
        "accuracy": scores.right / weight,
        "f1_micro": float(2 * both.sum() / (there + chosen).sum()) if (there + chosen).any() else None,
        "f1_macro": mean_of_known(f1),
    }
    return {
        "n": scores.n,
        "label_names": None if names is None else list(names),
        "auroc": mean_of_known(areas),
        "auroc_error": mean_of_known(errors),
        **(metrics if scores.n else dict.fromkeys(metrics)),
        "auroc_by_label": list(areas),
        "f1_by_label": f1,
        "log_loss_by_label": (scores.log_loss / weight).tolist() if scores.n else [None] * len(labels),
        "label_rates": (there / weight).tolist(),
        "mean_probability": float(scores.bins[0].sum() / max(scores.bins[1].sum(), 1e-300)),
        "roc": [{"label": labels[j]} | roc_curve(scores.ranks[j]) for j in _frequent(there, areas)],
        "calibration": calibration_curve(scores.bins),
        "reasons": _reasons(scores, areas, f1, labels),
    }


def _frequent(there: np.ndarray, areas: Sequence[float | None]) -> list[int]:
    """The most frequent labels that have a ROC curve, in their order."""
    known = [j for j in np.argsort(-there, kind="stable").tolist() if areas[j] is not None]
    return sorted(known[:CURVES])


def _reasons(
    scores: MultilabelScores, areas: Sequence[float | None], f1: Sequence[float | None], names: list[Any]
) -> dict[str, str]:
    if not scores.n:
        return dict.fromkeys(METRICS, "there are no rows")
    one_sided = [name for name, area in zip(names, areas, strict=True) if area is None]
    unseen = [name for name, value in zip(names, f1, strict=True) if value is None]
    reasons = {}
    if one_sided:
        reasons["auroc"] = f"the mean leaves out labels that all rows or none have: {some(one_sided)}"
    if len(one_sided) == len(names):
        reasons["auroc"] = "every label is one that all rows or none have, and ranking needs both"
    if unseen:
        reasons["f1_macro"] = f"the mean leaves out labels that no row has or is predicted to have: {some(unseen)}"
    if len(unseen) == len(names):
        reasons |= dict.fromkeys(("f1_micro", "f1_macro"), "no row has a label or is predicted to have one")
    return reasons


def multilabel_metrics(
    y: Any, score: np.ndarray, probability: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, float | None]:
    """auroc, log_loss, accuracy, f1_micro and f1_macro of arrays in memory; shapes as in `MultilabelScores.of`.

    They are those of scikit-learn, with zero_division=nan in F1; the AUROC is the mean over the labels that some rows
    have and some have not, and None when there is no such label. Where labels times distinct scores are more than
    `ranks.LIMIT`, the AUROC is within the bound that `multilabel_summary` gives.

    >>> p = np.array([[0.9, 0.2], [0.6, 0.7], [0.1, 0.4]])
    >>> multilabel_metrics(np.array([[1, 0], [0, 1], [0, 0]]), p, p)["accuracy"]
    0.6666666666666666
    """
    found = multilabel_summary(MultilabelScores.of(y, score, probability, weight))
    return {key: found[key] for key in METRICS}

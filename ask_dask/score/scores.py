"""Metrics over blocks of rows: sufficient statistics that are added, so that the rows are read once and never kept.

A block of rows gives a `Scores`; their sum, in any order and however the rows were cut, gives the metrics of all rows.
Counts are exact. The AUROC is exact up to LIMIT distinct scores; above, scores are binned and the error is bounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ask_dask.errors import InputError
from ask_dask.score.ranks import LIMIT, RankCounts
from ask_dask.score.shared import calibration_curve, mean_of_known, probability_bins, roc_curve

METRICS = ("auroc", "log_loss", "accuracy", "f1_micro", "f1_macro")


@dataclass(frozen=True, eq=False)
class Scores:
    """Sufficient statistics of a block of scored rows; add those of two blocks with `+`.

    Attributes
    ----------
    n : int
        Rows of a weight above zero.
    confusion : (n_classes, n_classes) int64 or float64
        Rows, or their weight, by true class and by predicted class (the most probable one).
    log_loss : float
        Sum over the rows.
    ranks : tuple of RankCounts
        One for the second of two classes, or one against the rest for each of more.
    bins : (n_classes, 3, BINS) float64
        For each class and bin of its probability: sum of the probability, rows, rows of the class; weighted.

    Examples
    --------
    >>> p = np.array([0.2, 0.6, 0.9])
    >>> block = Scores.of(np.array([0, 1, 1]), p, np.c_[1 - p, p], 2)
    >>> summary(block + block, ["no", "yes"])["auroc"]
    1.0
    """

    n: int
    confusion: np.ndarray
    log_loss: float
    ranks: tuple[RankCounts, ...]
    bins: np.ndarray

    @classmethod
    def of(
        cls,
        codes: np.ndarray,
        score: np.ndarray,
        probability: np.ndarray,
        n_classes: int,
        weight: np.ndarray | None = None,
    ) -> "Scores":
        """Statistics of a block.

        Parameters
        ----------
        codes : (n,) int
            True classes, 0 to n_classes - 1.
        score : (n,), (n, 1) or (n, n_classes) float
            Larger for the second class (of two), or for each class.
        probability : (n, n_classes) float
        weight : (n,) float, optional
            Zero or more; rows of weight zero are left out.

        Raises
        ------
        InputError
            Shapes that do not go together, a code that is no class, a NaN, or a probability outside 0..1.
        """
        codes, probability = np.asarray(codes, np.int64), np.asarray(probability)
        score = np.asarray(score)[:, None] if np.ndim(score) == 1 else np.asarray(score)
        _check(codes, score, probability, n_classes)
        if weight is not None:
            kept, weight = np.asarray(weight) > 0, np.asarray(weight, np.float64)
            codes, score, probability, weight = codes[kept], score[kept], probability[kept], weight[kept]
        confusion = np.bincount(codes * n_classes + probability.argmax(axis=1), weight, n_classes**2)
        eps = np.finfo(probability.dtype).eps  # the clip of scikit-learn
        losses = -np.log(np.clip(probability[np.arange(len(codes)), codes], eps, 1 - eps).astype(np.float64))
        outputs = score.shape[1]
        return cls(
            len(codes),
            confusion.reshape(n_classes, n_classes),
            float(losses.sum() if weight is None else weight @ losses),
            tuple(
                RankCounts.of(score[:, j], codes == n_classes - outputs + j, LIMIT // outputs, weight)
                for j in range(outputs)
            ),
            np.stack(
                [probability_bins(probability[:, j].astype(np.float64), codes == j, weight) for j in range(n_classes)]
            ),
        )

    def __add__(self, other: "Scores") -> "Scores":
        ranks = tuple(a + b for a, b in zip(self.ranks, other.ranks, strict=True))
        log_loss = self.log_loss + other.log_loss
        return Scores(self.n + other.n, self.confusion + other.confusion, log_loss, ranks, self.bins + other.bins)


def _check(codes: np.ndarray, score: np.ndarray, probability: np.ndarray, n_classes: int) -> None:
    n, outputs = len(codes), 1 if n_classes == 2 else n_classes
    if n_classes < 2 or (codes.shape, score.shape, probability.shape) != ((n,), (n, outputs), (n, n_classes)):
        raise InputError(
            f"{n_classes} classes (two or more) need codes (n,), score (n, {outputs}), probability (n, {n_classes}); "
            f"the shapes are {codes.shape}, {score.shape} and {probability.shape}."
        )
    largest = 1 + 1e-6
    if not n or (  # of all at once, in a tenth of the time: a NaN is in the smallest, and neither below 0 nor above it
        0 <= codes.min() <= codes.max() < n_classes
        and not np.isnan(score.min())
        and 0 <= probability.min() <= probability.max() <= largest
    ):
        return
    for wrong, what in (
        ((codes < 0) | (codes >= n_classes), f"class code outside 0..{n_classes - 1}"),
        (np.isnan(score).any(axis=1), "score that is NaN"),
        (~((probability >= 0) & (probability <= largest)).all(axis=1), "probability outside 0..1"),
    ):
        if wrong.any():
            raise InputError(f"Row {int(wrong.argmax())} of the block has a {what}: fit the model again.")


def summary(scores: Scores, classes: Sequence[Any]) -> dict[str, Any]:
    """The metrics, ready for JSON; one that is undefined is None, and `reasons` says why.

    Keys: n, classes, auroc (of two classes, or the mean of each against the rest), auroc_error (bound; 0 when exact),
    auroc_by_class (one value for two classes), log_loss, accuracy, f1_micro, f1_macro (over the classes that occur or
    are predicted), label_rates and mean_probability (in the order of classes), reasons ({metric: why}).
    """
    rows, predicted, right = scores.confusion.sum(axis=1), scores.confusion.sum(axis=0), scores.confusion.diagonal()
    n, weight, both = scores.n, rows.sum() or 1, rows + predicted
    f1 = np.divide(2 * right, both, out=np.zeros(len(both)), where=both > 0)
    areas, errors = zip(*(ranks.auroc() for ranks in scores.ranks), strict=True)
    metrics = {
        "log_loss": float(scores.log_loss / weight),
        "accuracy": float(right.sum() / weight),
        "f1_micro": float(right.sum() / weight),  # one label a row: a false positive is a false negative elsewhere
        "f1_macro": float(f1.sum() / max((both > 0).sum(), 1)),
    }
    return {
        "n": n,
        "classes": list(classes),
        "auroc": mean_of_known(areas),
        "auroc_error": mean_of_known(errors),
        "auroc_by_class": list(areas),
        **(metrics if n else dict.fromkeys(metrics)),
        "label_rates": (rows / weight).tolist(),
        "mean_probability": (scores.bins[:, 0].sum(axis=1) / weight).tolist(),
        "reasons": _reasons(areas, rows, classes) if n else dict.fromkeys(["auroc", *metrics], "there are no rows"),
    }


def _reasons(areas: Sequence[float | None], rows: np.ndarray, classes: Sequence[Any]) -> dict[str, str]:
    if all(area is None for area in areas):
        return {"auroc": f"every row has the label {classes[int(rows.argmax())]}, and ranking needs two"}
    absent = [str(name) for name, count in zip(classes, rows, strict=True) if not count]
    return {"auroc": f"the mean leaves out classes without rows: {', '.join(absent)}"} if absent else {}


def curves(scores: Scores, classes: Sequence[Any], points: int = 500) -> dict[str, Any]:
    """ROC and calibration curves, ready for JSON: {"roc": {"fpr", "tpr"}, "calibration": {"mean_probability",
    "fraction_positive", "count"}}; for more than two classes, each is a list of such with the `class` in them.

    An undefined ROC curve has empty lists, and bins of the probability without rows are left out.
    """
    roc = [roc_curve(ranks, points) for ranks in scores.ranks]
    calibration = [calibration_curve(bins) for bins in scores.bins[-len(roc) :]]
    if len(roc) == 1:
        return {"roc": roc[0], "calibration": calibration[0]}
    return {
        name: [{"class": label} | curve for label, curve in zip(classes, found, strict=True)]
        for name, found in (("roc", roc), ("calibration", calibration))
    }


def class_codes(labels: np.ndarray, classes: Sequence[Any], first_row: int = 0) -> np.ndarray:
    """Labels (n,) as positions (n,) in classes.

    Raises
    ------
    InputError
        A label that is not one of the classes; names it and its row, counted from `first_row`.

    Examples
    --------
    >>> class_codes(np.array([1, -1, 1]), [-1, 1])
    array([1, 0, 1])
    """
    values, place = np.unique(labels, return_inverse=True)
    code = {name: i for i, name in enumerate(classes)}
    codes = np.array([code.get(value, -1) for value in values.tolist()], np.int64)[place]
    if (codes < 0).any():
        row = int((codes < 0).argmax())
        raise InputError(
            f"Row {first_row + row} has the label {labels[row]}, and the model knows only "
            f"{', '.join(map(str, classes))}: leave such rows out, or fit a model on data with this label."
        )
    return codes


def metrics(
    codes: np.ndarray, score: np.ndarray, probability: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, float | None]:
    """auroc, log_loss, accuracy, f1_micro and f1_macro of arrays in memory; shapes as in `Scores.of`.

    The AUROC is the mean over the classes that have rows, and None when all rows are of one class. A weight (n,) is
    the number of times that a row counts, as sample_weight of scikit-learn; where all are zero, all is None.

    >>> p = np.array([0.2, 0.6, 0.9])
    >>> metrics(np.array([0, 1, 1]), p, np.c_[1 - p, p])["accuracy"]
    1.0
    """
    n_classes = probability.shape[1]
    found = summary(Scores.of(codes, score, probability, n_classes, weight), range(n_classes))
    return {name: found[name] for name in METRICS}

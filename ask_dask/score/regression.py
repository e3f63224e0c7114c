"""Regression over blocks of rows: R2, RMSE and MAE of each output from sums that are added; the rows are never kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ask_dask.errors import InputError
from ask_dask.score.ranks import KeyedSums
from ask_dask.score.shared import CURVES, mean_of_known, quantile_curve, refuse_rows, some

LIMIT = 1 << 15
"""Most distinct predictions that the curves of all outputs keep together (32 bytes each)."""

METRICS = ("r2", "rmse", "mae")


@dataclass(frozen=True, eq=False)
class RegressionScores:
    """Sufficient statistics of a block of predictions of L outputs; add those of two blocks with `+`.

    The sum of squares of y is kept about its mean and merged by the pairwise formula of Chan, Golub and LeVeque,
    Algorithms for Computing the Sample Variance (1983), so that it does not cancel where the mean is large.

    Attributes
    ----------
    n : int
        Rows of a weight above zero.
    weight : float
        Their total weight, n without weights.
    mean, squares : (L,) float64
        Of y: its mean, and the sum of squares about it (zero exactly where y is constant).
    residuals : (3, L) float64
        Sums of y - prediction, of its absolute value and of its square.
    curves : tuple of KeyedSums
        Rows, predictions and y by prediction, of the first outputs.

    Examples
    --------
    >>> block = RegressionScores.of(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))
    >>> regression_summary(block + block)["r2"]
    0.5
    """

    n: int
    weight: float
    mean: np.ndarray
    squares: np.ndarray
    residuals: np.ndarray
    curves: tuple[KeyedSums, ...]

    @classmethod
    def of(
        cls, y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None, first_row: int = 0
    ) -> "RegressionScores":
        """Statistics of a block.

        Parameters
        ----------
        y, prediction : (n,) or (n, L) float
        weight : (n,) float, optional
            Zero or more; rows of weight zero are left out.
        first_row : int
            Number of the first row, for what is said of bad ones.

        Raises
        ------
        InputError
            Shapes that do not go together, or a value that is not a finite number; names the row.
        """
        y, prediction = _columns(y), _columns(prediction)
        _check(y, prediction, first_row)
        w = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
        if not w.all():
            y, prediction, w = y[w > 0], prediction[w > 0], w[w > 0]
        total, outputs = float(w.sum()), y.shape[1]
        origin = y[0] if len(y) else np.zeros(outputs)
        shift = w @ (y - origin) / total if total else np.zeros(outputs)
        residual = y - prediction
        return cls(
            len(y),
            total,
            origin + shift,
            w @ np.square(y - origin - shift),
            np.stack([w @ part for part in (residual, np.abs(residual), np.square(residual))]),
            tuple(
                KeyedSums.keyed(prediction[:, j], np.stack([w, w * prediction[:, j], w * y[:, j]]), LIMIT // outputs)
                for j in range(min(outputs, CURVES))
            ),
        )

    def __add__(self, other: "RegressionScores") -> "RegressionScores":
        weight = self.weight + other.weight
        share, step = other.weight / weight if weight else 0.0, other.mean - self.mean
        return RegressionScores(
            self.n + other.n,
            weight,
            self.mean + share * step,
            self.squares + other.squares + self.weight * share * step**2,
            self.residuals + other.residuals,
            tuple(a + b for a, b in zip(self.curves, other.curves, strict=True)),
        )


def _columns(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, np.float64)
    return values[:, None] if values.ndim == 1 else values


def _check(y: np.ndarray, prediction: np.ndarray, first_row: int) -> None:
    if y.shape != prediction.shape or y.ndim != 2 or not y.shape[1]:
        raise InputError(
            f"y and its predictions need one shape, (n,) or (n, L), and have {y.shape} and {prediction.shape}: "
            "predict the data that is scored."
        )
    refuse_rows(
        first_row,
        (~np.isfinite(y).all(axis=1), "a y that is not a finite number: leave such rows out."),
        (~np.isfinite(prediction).all(axis=1), "a prediction that is not a finite number: fit the model again."),
    )


def regression_summary(scores: RegressionScores, names: Sequence[Any] | None = None) -> dict[str, Any]:
    """The metrics, ready for JSON; one that is undefined is None, and `reasons` says why.

    Keys: n, label_names (of the outputs, or None), r2, rmse, mae and bias (mean of y - prediction), each the mean of
    the outputs where it is defined, with {metric}_by_output; label_std (of y about its mean: the RMSE of predicting
    that mean), calibration ({"predicted", "observed", "count"} in groups of like size, or a list of them with the
    `output` in each, of the first outputs), reasons ({metric: why}).
    """
    total, L = scores.weight or 1.0, len(scores.mean)
    known, labels = scores.squares > 0, list(range(L) if names is None else names)
    bias, mae, mse = scores.residuals / total
    r2 = 1 - np.divide(scores.residuals[2], scores.squares, where=known, out=np.ones(L))
    by_output = {
        "r2": [float(value) if some_known else None for value, some_known in zip(r2, known, strict=True)],
        **{key: found.tolist() for key, found in (("rmse", np.sqrt(mse)), ("mae", mae), ("bias", bias))},
    }
    if not scores.n:
        by_output = {key: [None] * L for key in by_output}
    curves = [quantile_curve(sums) for sums in scores.curves]
    return {
        "n": scores.n,
        "label_names": None if names is None else list(names),
        **{key: mean_of_known(values) for key, values in by_output.items()},
        **{f"{key}_by_output": values for key, values in by_output.items()},
        "label_std": float(np.sqrt(scores.squares / total).mean()) if scores.n else None,
        "calibration": curves[0] if L == 1 else [{"output": n} | c for n, c in zip(labels, curves, strict=False)],
        "reasons": _reasons(scores, known, labels),
    }


def _reasons(scores: RegressionScores, known: np.ndarray, names: list[Any]) -> dict[str, str]:
    if not scores.n:
        return dict.fromkeys(METRICS, "there are no rows")
    if not known.any():
        return {"r2": "every row has the same y, and R2 compares with how y varies"}
    flat = [name for name, varies in zip(names, known, strict=True) if not varies]
    return {"r2": f"the mean leaves out outputs where every row has the same y: {some(flat)}"} if flat else {}


def regression_metrics(
    y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, float | None]:
    """r2, rmse and mae of arrays in memory, (n,) or (n, L), the mean of the outputs; weight (n,) of the rows.

    R2 is that of scikit-learn, but None where y does not vary (scikit-learn says 0 or 1) and for the mean over the
    outputs those are left out.

    >>> regression_metrics(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))["r2"]
    0.5
    """
    found = regression_summary(RegressionScores.of(y, prediction, weight))
    return {key: found[key] for key in METRICS}

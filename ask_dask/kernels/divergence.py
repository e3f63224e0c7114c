"""Kullback-Leibler divergence as an asymmetric kernel: between discrete distributions, between diagonal Gaussians.

Moreno, Ho and Vasconcelos, A Kullback-Leibler Divergence Based Kernel for SVM Classification in Multimedia Applications
(NIPS 2003), made it symmetric; He et al., Learning with Asymmetric Kernels, use it as it is.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from ask_dask.errors import InputError
from ask_dask.kernels.base import Block, Kernel, require_positive
from ask_dask.kernels.exponential import exp_nonpositive
from ask_dask.kernels.pointwise import inner

SMALLEST_VARIANCE = 1e-100
"""Smaller variances are refused: squares over them would leave the range of float64."""


@dataclass(frozen=True)
class KLDivergence(Kernel):
    """k(x, z) = exp(-scale KL(P_x || P_z)).

    Parameters
    ----------
    scale : float
    family : {"discrete", "gaussian"}
        What a row describes. "discrete": weights of 0 or more, divided by their sum. "gaussian": the d means, then the
        d variances of a diagonal Gaussian.
    smoothing : float
        Of "discrete" alone: p becomes (p + smoothing) / (1 + d smoothing), so that a zero has a finite divergence.

    Raises
    ------
    InputError
        A negative weight, a row of zeros, an odd number of columns, a variance that is not above 0, NaN or infinity.

    Examples
    --------
    >>> P = np.array([[1.0, 1.0], [1.0, 3.0]])
    >>> KLDivergence()(P, P).round(4)
    array([[1.    , 0.866 ],
           [0.8774, 1.    ]])
    """

    scale: float = 1.0
    family: Literal["discrete", "gaussian"] = "discrete"
    smoothing: float = 1e-10

    def __post_init__(self) -> None:
        require_positive(self, scale=self.scale, smoothing=self.smoothing)
        if self.family not in ("discrete", "gaussian"):
            raise InputError(f"KLDivergence: family is {self.family!r} and must be 'discrete' or 'gaussian'.")

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        gaussian = self.family == "gaussian"
        divergence = gaussian_divergence(X, Z) if gaussian else discrete_divergence(X, Z, self.smoothing)
        divergence *= -self.scale
        return exp_nonpositive(divergence.astype(float_type(X), copy=False))


def discrete_divergence(X: Block, Z: Block, smoothing: float = 1e-10) -> np.ndarray:
    """KL(p || q) = sum_k p_k log(p_k / q_k) of the smoothed distributions of each row of X and of Z.

    With L_p = log(1 + p / smoothing) it is (p'(L_p - L_q) + smoothing 1'(L_p - L_q)) / (1 + d smoothing). A zero of p
    is a zero of L_p, so sparse rows stay sparse.

    Parameters
    ----------
    X, Z : (n, d) and (m, d) blocks
        Weights, 0 or more; each row is divided by its sum.
    smoothing : float
        p becomes (p + smoothing) / (1 + d smoothing).

    Returns
    -------
    (n, m) float64, 0 or more

    Raises
    ------
    InputError
        A weight that is negative, NaN or infinite, or a row of zeros: names the row.

    Examples
    --------
    >>> discrete_divergence(np.array([[1.0, 1.0]]), np.array([[1.0, 3.0]])).round(4)
    array([[0.1438]])
    """
    p, q = _shares(X), _shares(Z)
    of_p, of_q = _log_ratio(p, smoothing), _log_ratio(q, smoothing)
    own = _row_sums(p.multiply(of_p) if sp.issparse(p) else p * of_p) + smoothing * _row_sums(of_p)
    out = own[:, None] - smoothing * _row_sums(of_q) - inner(p, of_q)
    out /= 1 + smoothing * p.shape[1]
    return np.maximum(out, 0, out=out)  # below zero by rounding alone


def gaussian_divergence(X: Block, Z: Block) -> np.ndarray:
    """KL(N(m, v) || N(u, w)) = 1/2 sum_k [log(w_k / v_k) + (v_k + (m_k - u_k)^2) / w_k - 1], diagonal Gaussians.

    All means are centred first, so that large ones do not cancel.

    Parameters
    ----------
    X, Z : (n, 2 d) and (m, 2 d) blocks
        Rows of d means, then d variances.

    Returns
    -------
    (n, m) float64, 0 or more

    Raises
    ------
    InputError
        An odd number of columns, NaN or infinity, or a variance that is not above 0: names the row.

    Examples
    --------
    >>> gaussian_divergence(np.array([[1.0, 1.0]]), np.array([[0.0, 2.0]])).round(4)
    array([[0.3466]])
    """
    (mean, variance), (target_mean, target_variance) = _means_and_variances(X), _means_and_variances(Z)
    centre = target_mean.mean(0)
    mean, target_mean = mean - centre, target_mean - centre
    scaled = target_mean / target_variance
    out = np.hstack([variance + mean**2, -2 * mean]) @ np.hstack([1 / target_variance, scaled]).T
    out += (scaled * target_mean + np.log(target_variance)).sum(1)
    out -= (np.log(variance) + 1).sum(1)[:, None]
    out /= 2
    return np.maximum(out, 0, out=out)  # below zero by rounding alone


def require_counts(X: Block) -> None:
    """Raise InputError for the first weight of a block that is negative, NaN or infinite."""
    values = X.data if sp.issparse(X) else X
    wrong = ~((values >= 0) & (values < np.inf))
    if wrong.any():
        row, value = _first(X, wrong)
        raise InputError(
            f"Row {row} of the block holds the weight {value:g}, and weights are finite numbers, 0 or more: correct or "
            "remove such rows."
        )


def float_type(X: Block) -> Any:
    """The dtype of kernel values for a block: its own, float64 for whole numbers."""
    return X.dtype if X.dtype.kind == "f" else np.dtype(np.float64)


def _first(X: Block, wrong: np.ndarray) -> tuple[int, float]:
    """Row and value of the first entry that is marked (sparse: among the stored ones)."""
    if sp.issparse(X):
        place = int(np.flatnonzero(wrong)[0])
        return int(np.searchsorted(X.indptr, place, side="right")) - 1, X.data[place]
    row, column = np.argwhere(wrong)[0]
    return int(row), X[row, column]


def _shares(X: Block) -> Any:
    """Each row divided by its sum, float64 (sparse stays so)."""
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    require_counts(X)
    X = X.astype(np.float64)
    total = _row_sums(X)
    wrong = np.flatnonzero(~((total > 0) & (total < np.inf)))
    if len(wrong):
        raise InputError(
            f"The weights in row {wrong[0]} of the block sum to {total[wrong[0]]:g}, and a distribution needs one "
            "above 0: remove such rows."
        )
    if not sp.issparse(X):
        return X / total[:, None]
    X.data /= np.repeat(total, np.diff(X.indptr))
    return X


def _log_ratio(p: Any, smoothing: float) -> Any:
    """log((p + smoothing) / smoothing), zero where p is."""
    if sp.issparse(p):
        return sp.csr_array((np.log1p(p.data / smoothing), p.indices, p.indptr), shape=p.shape)
    return np.log1p(p / smoothing)


def _row_sums(A: Any) -> np.ndarray:
    return np.asarray(A.sum(1)).ravel()


def _means_and_variances(X: Block) -> tuple[np.ndarray, np.ndarray]:
    rows = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    if rows.shape[1] % 2:
        raise InputError(
            f"A row of a Gaussian has d means, then d variances, and X has {rows.shape[1]} columns, an odd number: "
            "give one variance for each mean."
        )
    mean, variance = np.hsplit(rows, 2)
    if not np.isfinite(rows).all():
        row, value = _first(rows, ~np.isfinite(rows))
        raise InputError(f"Row {row} of the block holds {value:g}: means and variances must be finite, correct it.")
    if not (variance >= SMALLEST_VARIANCE).all():
        row, value = _first(variance, ~(variance >= SMALLEST_VARIANCE))
        raise InputError(
            f"Row {row} of the block has the variance {value:g}, and variances must be {SMALLEST_VARIANCE:g} or more: "
            "the second half of the columns holds them."
        )
    return mean, variance

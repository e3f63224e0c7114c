"""C, W, R -> source and target feature maps of the asymmetric Nystrom approximation K = C W^+ R.

W = P S Q'. With psi_s(x) = k(x, Z_J) Q S^-1/2 and psi_t(z) = k(X_I, z)' P S^-1/2 the products psi_s(x)'psi_t(z) are the
entries of C W^+ R, which is K itself when every point is a landmark. (Tao, Tonin et al., Learning in Feature Spaces via
Coupled Covariances, section 3; He et al., Learning with Asymmetric Kernels.)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.linalg import eigh

from ask_dask.errors import InputError


@dataclass(frozen=True)
class FeatureMap:
    """Matrices that turn kernel columns at landmarks into features: psi_s = C source, psi_t = R' target.

    Attributes
    ----------
    source : (m, r) float64, Q S^-1/2
    target : (n, r) float64, P S^-1/2
    """

    source: np.ndarray
    target: np.ndarray


def resolution(dtype: Any) -> float:
    """The smallest relative singular value of W that kernel blocks of this dtype can resolve.

    S^-1/2 amplifies the rounding of C and R, so float32 blocks need a far larger cut than float64 ones.

    >>> resolution(np.float32) > 1e-7 > resolution(np.float64)
    True
    """
    return 32 * float(np.finfo(dtype).eps)


def svd(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, the singular values and V' of a matrix; numpy lets other threads run, and where it does not converge SciPy's
    slower driver does."""
    try:
        return np.linalg.svd(A, full_matrices=False)
    except np.linalg.LinAlgError:
        return scipy.linalg.svd(A, full_matrices=False, lapack_driver="gesvd")


def feature_map(W: np.ndarray, rcond: float) -> FeatureMap:
    """The feature maps of a core matrix; one map for both roles where W is symmetric and positive.

    Parameters
    ----------
    W : (n, m) array, K[I, J]
    rcond : float
        Singular values at or below rcond times the largest are dropped.

    Raises
    ------
    InputError
        W holds a NaN or infinity, or is zero.

    Examples
    --------
    >>> W = np.array([[2.0, 0.0], [1.0, 1.0]])
    >>> maps = feature_map(W, 1e-12)
    >>> np.allclose(W @ maps.source @ (W.T @ maps.target).T, W)
    True
    """
    W = np.asarray(W, np.float64)
    if not np.isfinite(W).all() or not W.any():
        raise InputError("The kernel is NaN, infinite or zero at every pair of landmarks: check its bandwidth.")
    if W.shape[0] == W.shape[1] and np.allclose(W, W.T, rtol=1e-12, atol=1e-14):
        values, Q = eigh((W + W.T) / 2)
        S, P = np.abs(values), Q * np.sign(values)
    else:
        P, S, Qt = svd(W)
        Q = Qt.T
    kept = S > rcond * S.max()
    source, target = (vectors[:, kept] / np.sqrt(S[kept]) for vectors in (Q, P))
    return FeatureMap(source, source if np.array_equal(source, target) else target)

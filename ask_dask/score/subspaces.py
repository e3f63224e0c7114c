"""How far approximate singular vectors are from the exact ones."""

import numpy as np
from numpy.linalg import norm, qr


def eta(
    U: np.ndarray, values: np.ndarray, V: np.ndarray, U_approximate: np.ndarray, V_approximate: np.ndarray
) -> float:
    """Weighted angle error of approximate singular vectors, the weights being the exact singular values.

    Tao, Tonin et al., Learning in Feature Spaces via Coupled Covariances, section 4.4. The largest value dominates it:
    read `subspace_error` beside it.

    Parameters
    ----------
    U, U_approximate : (N, r)
    V, V_approximate : (M, r)
    values : (r,)

    Examples
    --------
    >>> I = np.eye(3)[:, :2]
    >>> eta(I, np.array([2.0, 1.0]), I, I, -3 * I)
    0.0
    """
    each = ((U, U_approximate), (V, V_approximate))
    cosines = [np.abs((exact * found / norm(found, axis=0)).sum(0)) for exact, found in each]
    return float(sum((values * (1 - cosine)).mean() for cosine in cosines))


def subspace_error(U: np.ndarray, U_approximate: np.ndarray) -> float:
    """Sine of the largest principal angle between two subspaces.

    Parameters
    ----------
    U : (N, r)
        Orthonormal columns.
    U_approximate : (N, r)
        Any basis.

    Examples
    --------
    >>> I = np.eye(3)
    >>> subspace_error(I[:, :1], I[:, :1] + I[:, 1:2]).__round__(4)
    0.7071
    """
    Q = qr(U_approximate)[0]
    return float(norm(U - Q @ (Q.T @ U), 2))

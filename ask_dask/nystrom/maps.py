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
    left_out : int
        Further features that the core has, and that its error on the probes asked to leave out.
    signs : (r,) float64, optional
        Signs of the eigenvalues of a symmetric core, for which target = source * signs; else None.
    unresolved : float
        Largest singular value of the core that was dropped because the blocks' precision does not resolve it.
    """

    source: np.ndarray
    target: np.ndarray
    left_out: int = 0
    signs: np.ndarray | None = None
    unresolved: float = 0.0


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


def feature_map(W: np.ndarray, rcond: float, symmetric: bool = False) -> FeatureMap:
    """Return the feature maps of a core matrix; one map for both roles where W is symmetric and positive.

    Parameters
    ----------
    W : (n, m) array, K[I, J]
    rcond : float
        Singular values at or below rcond times the largest are dropped.
    symmetric : bool
        W is that of a symmetric kernel with I = J, so that it differs from W' by rounding alone.

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
    if symmetric or (W.shape[0] == W.shape[1] and np.allclose(W, W.T, rtol=1e-12, atol=1e-14)):
        values, Q = eigh((W + W.T) / 2)
        kept = np.abs(values) > rcond * np.abs(values).max()
        signs, source = np.sign(values[kept]), Q[:, kept] / np.sqrt(np.abs(values[kept]))
        dropped = float(np.abs(values[~kept]).max(initial=0.0))
        return FeatureMap(source, source if (signs > 0).all() else source * signs, signs=signs, unresolved=dropped)
    P, S, Qt = svd(W)
    kept = S > rcond * S.max()
    dropped = float(S[~kept].max(initial=0.0))
    return FeatureMap(Qt[kept].T / np.sqrt(S[kept]), P[:, kept] / np.sqrt(S[kept]), unresolved=dropped)


CUTS = np.geomspace(1e-10, 0.3, 20)
"""Relative singular values at which a fitted core may be cut; below the first, rounding takes over."""


@dataclass(frozen=True)
class Judge:
    """Entries of K that a core is not fitted to, at p probe rows and q probe columns, and what approximates them.

    Attributes
    ----------
    C : (p, m), R : (n, q), K : (p, q)
    """

    C: np.ndarray
    R: np.ndarray
    K: np.ndarray


def fitted_map(core: np.ndarray, n: int, m: int, rcond: float, judge: Judge | None = None) -> FeatureMap:
    """The feature maps of a core fitted to more rows and columns than landmarks, and cut where probes ask for it.

    In place of W^+ stands the X that makes C X R fit the core best, X = K[I', J]^+ K[I', J'] K[I, J']^+ with I in I'
    and J in J' (W^+ where there are no more). Both pseudo-inverses leave out small singular values: of a matrix that
    has no low rank these would amplify what the landmarks do not explain, to any size.

    Parameters
    ----------
    core : (n', m') array
        K[I', J'], the landmarks first.
    n, m : int
        Row and column landmarks.
    rcond : float
        Relative singular values at or below it are left out.
    judge : Judge, optional
        The cut of least error there is taken, at rcond or above.

    Raises
    ------
    InputError
        The core holds a NaN or infinity, or is zero.

    Examples
    --------
    >>> K = np.random.default_rng(0).normal(size=(6, 2)) @ np.random.default_rng(1).normal(size=(2, 5))
    >>> maps = fitted_map(K, 3, 2, 1e-12)
    >>> np.allclose((K[:, :2] @ maps.source) @ (K[:3].T @ maps.target).T, K)
    True
    """
    core = np.asarray(core, np.float64)
    if not np.isfinite(core).all() or not core.any():
        raise InputError("The kernel is NaN, infinite or zero at every pair of landmarks: check its bandwidth.")
    (left, s, Qt), (P, t, right) = svd(core[:, :m]), svd(core[:n])
    left, s, Q = left[:, s > rcond * s[0]], s[s > rcond * s[0]], Qt[s > rcond * s[0]].T
    P, t, right = P[:, t > rcond * t[0]], t[t > rcond * t[0]], right[t > rcond * t[0]]
    Q, P = Q / np.sqrt(s), P / np.sqrt(t)
    inside = left.T @ core @ right.T / np.sqrt(s)[:, None] / np.sqrt(t)  # X = Q inside P'
    cuts = [cut for cut in CUTS if cut > rcond]
    cuts = cuts if core.shape != (n, m) else [rcond, *cuts]
    ranks = [(int((s > cut * s[0]).sum()), int((t > cut * t[0]).sum())) for cut in cuts]
    best = 0
    if judge is not None:
        before, after = judge.C @ Q, P.T @ judge.R
        best = int(np.argmin([np.linalg.norm(before[:, :a] @ inside[:a, :b] @ after[:b] - judge.K) for a, b in ranks]))
    a, b = ranks[best]
    E, x, Ft = svd(inside[:a, :b])
    return FeatureMap(Q[:, :a] @ (E * np.sqrt(x)), P[:, :b] @ (Ft.T * np.sqrt(x)), min(ranks[0]) - min(a, b))

"""AsK-LS on landmarks from moments: every gamma after one decomposition.

He et al., Learning with Asymmetric Kernels, eq. (5), in the feature maps of `nystrom`. With A, B the centred Grams of
psi_s, psi_t and r_s, r_t their centred products with Y:

    (gamma A + ridge I) w + v = gamma r_s,    w + (gamma B + ridge I) v = gamma r_t

ridge = 0 is the paper's saddle point. Then with A = Ls Ls', B = Lt Lt', Ls'Lt = E Sigma F' it splits into modes
[1/gamma sigma; sigma 1/gamma], so one decomposition serves all gammas.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, solve, svd

from ask_dask.moments import Moments, Side
from ask_dask.nystrom import FeatureMap


@dataclass(frozen=True)
class Solution:
    """f_s(x) = k(x, Z_J) source + intercepts[0],  f_t(x) = k(X_I, x)' target + intercepts[1]."""

    source: np.ndarray
    """(m, q) coefficients at the column landmarks"""
    target: np.ndarray
    """(n, q) coefficients at the row landmarks"""
    intercepts: np.ndarray
    """(2, q)"""
    condition_number: float
    """Of the system as solved."""


@dataclass(frozen=True)
class _Centred:
    """Centred moments of one role's features: mean (r,), Gram (r, r), product with Y (r, q)."""

    mean: np.ndarray
    gram: np.ndarray
    cross: np.ndarray


class LandmarkSystem:
    """The AsK-LS system of one set of training rows, decomposed once.

    Parameters
    ----------
    moments : Moments
        Of the training rows, shapes (1, ...), at the landmarks of `maps`.
    maps : FeatureMap
    rcond : float
        Directions of A and B with variance at or below rcond times the largest are dropped.

    Attributes
    ----------
    singular_values : (r,) array, descending
        Of the centred approximate kernel (I - 11'/N) C W^+ R (I - 11'/N).
    """

    def __init__(self, moments: Moments, maps: FeatureMap, rcond: float) -> None:
        self.maps, n = maps, moments.count[0]
        self.mean_y = moments.sum_y[0] / n
        self.s = _centred(moments.sides[0], maps.source, n, self.mean_y)
        self.t = _centred(moments.sides[-1], maps.target, n, self.mean_y)
        Ls, inverse_s = _root(self.s.gram, rcond)
        Lt, inverse_t = _root(self.t.gram, rcond)
        E, self.singular_values, Ft = svd(Ls.T @ Lt, full_matrices=False)
        self._to_w, self._to_v = Lt @ Ft.T, Ls @ E
        self._u_y, self._v_y = E.T @ (inverse_s.T @ self.s.cross), Ft @ (inverse_t.T @ self.t.cross)

    def solve(self, gamma: float, damping: float = 0.0, ridge: float = 0.0) -> Solution:
        """The solution at one gamma.

        Parameters
        ----------
        damping : float
            Tikhonov on the saddle point: each eigenvalue's inverse 1/mu becomes mu / (mu^2 + damping).
        ridge : float
            0 for the saddle point; at 1 or more the primal is convex and no resonance exists.
        """
        w, v, condition = self._primal(gamma, ridge) if ridge else self._modes(gamma, damping)
        intercepts = np.stack([self.mean_y - self.s.mean @ w, self.mean_y - self.t.mean @ v])
        return Solution(self.maps.source @ w, self.maps.target @ v, intercepts, condition)

    def path(self, gammas: Sequence[float], damping: float = 0.0, ridge: float = 0.0) -> list[Solution]:
        """The solutions at every gamma."""
        return [self.solve(gamma, damping, ridge) for gamma in gammas]

    def _modes(self, gamma: float, damping: float) -> tuple[np.ndarray, np.ndarray, float]:
        plus, minus = 1 / gamma + self.singular_values, 1 / gamma - self.singular_values
        half_sum = _inverse(plus, damping)[:, None] * (self._u_y + self._v_y) / 2
        half_difference = _inverse(minus, damping)[:, None] * (self._u_y - self._v_y) / 2
        sizes = np.sqrt(np.concatenate([plus, minus]) ** 2 + damping)
        condition = np.inf if not sizes.all() else float(sizes.max() / sizes.min())
        return self._to_w @ (half_sum - half_difference), self._to_v @ (half_sum + half_difference), condition

    def _primal(self, gamma: float, ridge: float) -> tuple[np.ndarray, np.ndarray, float]:
        identity = np.eye(len(self.s.gram))
        M = np.block(
            [[gamma * self.s.gram + ridge * identity, identity], [identity, gamma * self.t.gram + ridge * identity]]
        )
        sizes = np.abs(np.linalg.eigvalsh(M))
        condition = np.inf if not sizes.all() else float(sizes.max() / sizes.min())
        found = solve(M, gamma * np.vstack([self.s.cross, self.t.cross]), assume_a="sym")
        return found[: len(identity)], found[len(identity) :], condition


def _inverse(eigenvalues: np.ndarray, damping: float) -> np.ndarray:
    """1/mu, or mu / (mu^2 + damping); an eigenvalue of exactly 0 has the pseudo-inverse's 0."""
    squares = eigenvalues**2 + damping
    return np.divide(eigenvalues, squares, out=np.zeros_like(eigenvalues), where=squares > 0)


def _centred(side: Side, transform: np.ndarray, n: float, mean_y: np.ndarray) -> _Centred:
    mean = side.sums[0] / n
    gram = side.gram[0] - n * np.outer(mean, mean)
    cross = side.cross[0] - n * np.outer(mean, mean_y)
    return _Centred(transform.T @ mean, transform.T @ gram @ transform, transform.T @ cross)


def _root(gram: np.ndarray, rcond: float) -> tuple[np.ndarray, np.ndarray]:
    """L with L L' = gram on its range, and L's pseudo-inverse transposed."""
    values, vectors = eigh((gram + gram.T) / 2)
    kept = values > rcond * max(values[-1], 0)
    vectors, root = vectors[:, kept], np.sqrt(values[kept])
    return vectors * root, vectors / root

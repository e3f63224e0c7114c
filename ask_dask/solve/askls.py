"""AsK-LS on landmarks from moments: every gamma after one decomposition, and no inverse of a small number.

He et al., Learning with Asymmetric Kernels, eq. (5), in the feature maps of `nystrom`. With A, B the centred Grams of
psi_s, psi_t and r_s, r_t their centred products with Y:

    (gamma A + ridge I) w + v = gamma r_s,    w + (gamma B + ridge I) v = gamma r_t

ridge = 0 is the paper's saddle point. With A = L L' and L'B L = E Sigma^2 E', sigma are the singular values of the
centred kernel, and the saddle point splits into modes with eigenvalues mu = 1/gamma +- sigma. A function h of mu
(1/mu, or mu / (mu^2 + damping)) acts as alpha(sigma^2) = (h(t + sigma) + h(t - sigma)) / 2 on the vector's own role and
as sigma beta(sigma^2), beta = (h(t + sigma) - h(t - sigma)) / (2 sigma), on the other one, t = 1/gamma. Writing
alpha = alpha_0 + sigma^2 alpha_1 and beta = beta_0 + sigma^2 beta_1, every sigma^2 turns into a product with B:

    v = alpha_0 r_s + L E (alpha_1 E'L'B r_s + beta E'L' r_t)
    w = alpha_0 r_t + B (beta_0 r_s + L E (beta_1 E'L'B r_s + alpha_1 E'L' r_t))

so that directions that A or B hardly has (small singular values of the core matrix) do no harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.linalg import eigh, solve  # these let other threads run, SciPy's do not

from ask_dask.moments import Moments, Side
from ask_dask.nystrom import FeatureMap
from ask_dask.solve.resonance import condition, inverse


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


def mean_solution(parts: Sequence[Solution]) -> Solution:
    """The mean of several solutions at the same landmarks: its discriminants are the mean of theirs."""
    means = {name: np.mean([getattr(part, name) for part in parts], 0) for name in ("source", "target", "intercepts")}
    return Solution(**means, condition_number=max(part.condition_number for part in parts))


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

    Attributes
    ----------
    singular_values : (r,) array, descending
        Of the centred approximate kernel (I - 11'/N) C W^+ R (I - 11'/N).
    """

    def __init__(self, moments: Moments, maps: FeatureMap) -> None:
        self.maps, n = maps, moments.count[0]
        self.mean_y = moments.sum_y[0] / n
        self.s = _centred(moments.sides[0], maps.source, n, self.mean_y)
        symmetric = len(moments.sides) == 1 and maps.target is maps.source
        self.t = self.s if symmetric else _centred(moments.sides[-1], maps.target, n, self.mean_y)
        values, vectors = eigh(self.s.gram)
        root = vectors * np.sqrt(np.maximum(values, 0))
        if symmetric:
            self._squares, self._modes = np.maximum(values[::-1], 0) ** 2, root[:, ::-1]
        else:
            squares, E = eigh(root.T @ self.t.gram @ root)
            self._squares, self._modes = np.maximum(squares[::-1], 0), root @ E[:, ::-1]
        self.singular_values = np.sqrt(self._squares)
        self._from_s, self._from_t = self._modes.T @ (self.t.gram @ self.s.cross), self._modes.T @ self.t.cross

    def solve(self, gamma: float, damping: float = 0.0, ridge: float = 0.0) -> Solution:
        """The solution at one gamma.

        Parameters
        ----------
        damping : float
            Tikhonov on the saddle point: each eigenvalue's inverse 1/mu becomes mu / (mu^2 + damping).
        ridge : float
            0 for the saddle point; at 1 or more the primal is convex and no resonance exists.
        """
        w, v, condition = self._primal(gamma, ridge) if ridge else self._saddle(gamma, damping)
        intercepts = np.stack([self.mean_y - self.s.mean @ w, self.mean_y - self.t.mean @ v])
        return Solution(self.maps.source @ w, self.maps.target @ v, intercepts, condition)

    def path(self, gammas: Sequence[float], damping: float = 0.0, ridge: float = 0.0) -> list[Solution]:
        """The solutions at every gamma."""
        return [self.solve(gamma, damping, ridge) for gamma in gammas]

    def _saddle(self, gamma: float, damping: float) -> tuple[np.ndarray, np.ndarray, float]:
        t, sigma = 1 / gamma, self.singular_values
        plus, minus = inverse(t + sigma, t, damping), inverse(t - sigma, t, damping)
        alpha_0, beta_0 = t / (t**2 + damping), (damping - t**2) / (t**2 + damping) ** 2
        alpha_1 = _divide((plus + minus) / 2 - alpha_0, self._squares)[:, None]
        beta = _divide((plus - minus) / 2, sigma, otherwise=beta_0)[:, None]
        beta_1 = _divide(beta[:, 0] - beta_0, self._squares)[:, None]
        v = alpha_0 * self.s.cross + self._modes @ (alpha_1 * self._from_s + beta * self._from_t)
        inner = beta_0 * self.s.cross + self._modes @ (beta_1 * self._from_s + alpha_1 * self._from_t)
        return alpha_0 * self.t.cross + self.t.gram @ inner, v, condition(sigma, gamma, damping)

    def _primal(self, gamma: float, ridge: float) -> tuple[np.ndarray, np.ndarray, float]:
        """The coupled system on the joint range of A and B: outside it the right-hand side is 0, and so w and v."""
        U = self._joint_range
        A, B = U.T @ self.s.gram @ U, U.T @ self.t.gram @ U
        identity = np.eye(len(A))
        M = np.block([[gamma * A + ridge * identity, identity], [identity, gamma * B + ridge * identity]])
        sizes = np.abs(np.linalg.eigvalsh(M))
        found = solve(M, gamma * np.vstack([U.T @ self.s.cross, U.T @ self.t.cross]))
        return U @ found[: len(A)], U @ found[len(A) :], float(sizes.max() / sizes.min()) if sizes.all() else np.inf

    def singular_vectors(self, smallest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the centred approximate kernel, for the singular values of at least `smallest`.

        Returns
        -------
        source, target : (m, r) arrays
            U = C source and V = R' target, each less its mean over the rows, have orthonormal columns:
            v_i = Psi_t l_i / sigma_i and u_i = Psi_s B l_i / sigma_i^2 with l_i = L e_i, so only sigma is divided by.
        sigma : (r,) array
        """
        kept = self.singular_values >= smallest
        sigma, modes = self.singular_values[kept], self._modes[:, kept]
        return self.maps.source @ (self.t.gram @ modes / sigma**2), self.maps.target @ (modes / sigma), sigma

    @cached_property
    def _joint_range(self) -> np.ndarray:
        traces = (np.trace(gram) or 1.0 for gram in (self.s.gram, self.t.gram))
        values, vectors = eigh(
            sum(gram / trace for gram, trace in zip((self.s.gram, self.t.gram), traces, strict=True))
        )
        return vectors[:, values > 1e-12 * max(values[-1], 0)]


def _divide(a: np.ndarray, b: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
    """a / b where b is not 0."""
    return np.divide(a, b, out=np.full_like(b, otherwise), where=b > 0)


def _centred(side: Side, transform: np.ndarray, n: float, mean_y: np.ndarray) -> _Centred:
    offset = side.sums[0] / n
    gram = transform.T @ (side.gram[0] - n * np.outer(offset, offset)) @ transform
    cross = side.cross[0] - n * np.outer(offset, mean_y)
    return _Centred(transform.T @ (side.origin + offset), (gram + gram.T) / 2, transform.T @ cross)

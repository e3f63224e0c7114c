"""AsK-LS exactly, from the whole kernel matrix: every gamma and every output after one decomposition.

He et al., Learning with Asymmetric Kernels, eq. (6), in the unsigned variables a = alpha y, c = beta y:

    a / gamma + K c + b1 = y,    K'a + c / gamma + b2 = y,    1'a = 1'c = 0

With weights w of the squared errors 1/gamma becomes 1/(gamma w); in a = sqrt(w) p, c = sqrt(w) q the system is the same
one of sqrt(w) K sqrt(w), whose constraints say that p and q are orthogonal to sqrt(w). On the complement of sqrt(w) the
singular value decomposition U Sigma V' splits it into modes [1/gamma sigma; sigma 1/gamma]. A symmetric K has p = q:
its eigenvectors split the system into modes 1/gamma + lambda, those of the LS-SVM.
"""

from collections.abc import Sequence

import numpy as np
from numpy.linalg import eigh

from ask_dask.nystrom import svd
from ask_dask.solve.protocol import Solution
from ask_dask.solve.resonance import condition, inverse

ROUNDED = 1e-13
"""A negative eigenvalue of less than this times the largest singular value is taken for a rounded 0."""


class DenseSystem:
    """The AsK-LS system of a whole kernel matrix, decomposed once.

    Parameters
    ----------
    K : (N, N) array
    Y : (N, q) array
    weights : (N,) array, optional
        Weight of each row's squared errors; 0 leaves the row out.
    symmetric : bool
        K is symmetric, so that f_s = f_t.

    Attributes
    ----------
    singular_values : (N,) array, descending
        Those of the centred kernel (I - 11'/N) K (I - 11'/N), and of its weighted form with weights.
    poles : array, descending
        As in `LandmarkSystem`.

    Examples
    --------
    >>> K, Y = np.array([[2.0, 0.5], [0.0, 1.0]]), np.array([[1.0], [-1.0]])
    >>> s = DenseSystem(K, Y).solve(gamma=3.0)
    >>> np.allclose(s.target / 3 + K @ s.source + s.intercepts[0], Y)
    True
    """

    def __init__(
        self, K: np.ndarray, Y: np.ndarray, weights: np.ndarray | None = None, symmetric: bool = False
    ) -> None:
        self.K, self.Y = K, Y
        self.root = np.ones(len(K)) if weights is None else np.sqrt(weights)
        self.unit = self.root / np.linalg.norm(self.root)
        scaled = K if weights is None else self.root[:, None] * K * self.root
        self._right = centred(self.root[:, None] * Y, self.unit)
        self._middle = centred(centred(scaled, self.unit).T, self.unit).T
        if symmetric:
            self._modes, self._U = eigh((self._middle + self._middle.T) / 2)
            self._V, self.singular_values = self._U, np.sort(np.abs(self._modes))[::-1]
            self.poles = np.sort(-self._modes[self._modes < -ROUNDED * self.singular_values[0]])[::-1]
        else:
            self._U, self.singular_values, Vt = svd(self._middle)
            self._V, self.poles = Vt.T, self.singular_values
            self._modes = np.concatenate([self.poles, -self.poles])

    def solve(self, gamma: float, damping: float = 0.0) -> Solution:
        """Return the solution at one gamma: f_s(x) = k(x, X) source + intercepts[0] and f_t(x) = k(X, x)' target +
        intercepts[1].

        Parameters
        ----------
        damping : float
            Tikhonov: each eigenvalue's inverse 1/mu becomes mu / (mu^2 + damping); intercepts are not damped.
        """
        p, q = self._halves(1 / gamma, damping)
        target, source = self.root[:, None] * p, self.root[:, None] * q
        mean = self.root**2 / (self.root**2).sum()
        intercepts = np.stack([mean @ (self.Y - self.K @ source), mean @ (self.Y - self.K.T @ target)])
        size = condition(self._modes, gamma, damping)
        return Solution(source, target, intercepts, size, self._amplification(p, q))

    def _halves(self, t: float, damping: float) -> tuple[np.ndarray, np.ndarray]:
        """Return p and q."""
        if self._V is self._U:
            p = self._U @ (inverse(t + self._modes, t, damping)[:, None] * (self._U.T @ self._right))
            return p, p
        sigma, from_s, from_t = self.singular_values, self._U.T @ self._right, self._V.T @ self._right
        plus, minus = inverse(t + sigma, t, damping)[:, None], inverse(t - sigma, t, damping)[:, None]
        both, difference = plus * (from_s + from_t) / 2, minus * (from_s - from_t) / 2
        return self._U @ (both + difference), self._V @ (both - difference)

    def _amplification(self, p: np.ndarray, q: np.ndarray) -> float:
        """Return `Solution.amplification`."""
        sizes = np.linalg.norm(self._right, axis=0)
        fitted = np.maximum(*(np.linalg.norm(part, axis=0) for part in (self._middle @ q, self._middle.T @ p)))
        return float((fitted[sizes > 0] / sizes[sizes > 0]).max(initial=0.0))

    def path(self, gammas: Sequence[float], damping: float = 0.0) -> list[Solution]:
        """The solutions at every gamma."""
        return [self.solve(gamma, damping) for gamma in gammas]


def centred(A: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """A less its part along a unit vector (N,), in every column; the mean is the part along the constant one."""
    return A - np.multiply.outer(unit, unit @ A)

"""AsK-LS exactly, from the whole kernel matrix: every gamma and every output after one decomposition.

He et al., Learning with Asymmetric Kernels, eq. (6), in the unsigned variables a = alpha y, c = beta y:

    a / gamma + K c + b1 = y,    K'a + c / gamma + b2 = y,    1'a = 1'c = 0

With weights w of the squared errors 1/gamma becomes 1/(gamma w); in a = sqrt(w) p, c = sqrt(w) q the system is the same
one of sqrt(w) K sqrt(w), whose constraints say that p and q are orthogonal to sqrt(w). On the complement of sqrt(w) the
singular value decomposition U Sigma V' splits it into modes [1/gamma sigma; sigma 1/gamma].
"""

from collections.abc import Sequence

import numpy as np

from ask_dask.nystrom import svd
from ask_dask.solve.askls import Solution
from ask_dask.solve.resonance import condition, inverse


class DenseSystem:
    """The AsK-LS system of a whole kernel matrix, decomposed once.

    Parameters
    ----------
    K : (N, N) array
    Y : (N, q) array
    weights : (N,) array, optional
        Weight of each row's squared errors; 0 leaves the row out.

    Attributes
    ----------
    singular_values : (N,) array, descending
        Of the centred kernel (I - 11'/N) K (I - 11'/N), and of its weighted form with weights.

    Examples
    --------
    >>> K, Y = np.array([[2.0, 0.5], [0.0, 1.0]]), np.array([[1.0], [-1.0]])
    >>> s = DenseSystem(K, Y).solve(gamma=3.0)
    >>> np.allclose(s.target / 3 + K @ s.source + s.intercepts[0], Y)
    True
    """

    def __init__(self, K: np.ndarray, Y: np.ndarray, weights: np.ndarray | None = None) -> None:
        self.K, self.Y = K, Y
        self.root = np.ones(len(K)) if weights is None else np.sqrt(weights)
        self.unit = self.root / np.linalg.norm(self.root)
        scaled = K if weights is None else self.root[:, None] * K * self.root
        right = centred(self.root[:, None] * Y, self.unit)
        self._U, self.singular_values, self._Vt = svd(centred(centred(scaled, self.unit).T, self.unit).T)
        self._from_s, self._from_t = self._U.T @ right, self._Vt @ right

    def solve(self, gamma: float, damping: float = 0.0) -> Solution:
        """The solution at one gamma: f_s(x) = k(x, X) source + intercepts[0], f_t(x) = k(X, x)' target + intercepts[1].

        Parameters
        ----------
        damping : float
            Tikhonov: each eigenvalue's inverse 1/mu becomes mu / (mu^2 + damping); intercepts are not damped.
        """
        t, sigma = 1 / gamma, self.singular_values
        plus, minus = inverse(t + sigma, t, damping)[:, None], inverse(t - sigma, t, damping)[:, None]
        both, difference = plus * (self._from_s + self._from_t) / 2, minus * (self._from_s - self._from_t) / 2
        target = self.root[:, None] * (self._U @ (both + difference))
        source = self.root[:, None] * (self._Vt.T @ (both - difference))
        mean = self.root**2 / (self.root**2).sum()
        intercepts = np.stack([mean @ (self.Y - self.K @ source), mean @ (self.Y - self.K.T @ target)])
        return Solution(source, target, intercepts, condition(sigma, gamma, damping))

    def path(self, gammas: Sequence[float], damping: float = 0.0) -> list[Solution]:
        """The solutions at every gamma."""
        return [self.solve(gamma, damping) for gamma in gammas]


def centred(A: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """A less its part along a unit vector (N,), in every column; the mean is the part along the constant one."""
    return A - np.multiply.outer(unit, unit @ A)

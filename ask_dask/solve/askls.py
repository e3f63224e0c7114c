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

A symmetric kernel with I = J has f_s = f_t (their Proposition 2): the modes 1/gamma - sigma are not excited, and
computing them would only amplify rounding. With D the signs of the core's eigenvalues it is the LS-SVM

    (A + (1 + ridge) t D) w = r_s,    v = D w,

whose eigenvalues are t + lambda, lambda those of the centred kernel; where these are positive no gamma is a resonance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.linalg import eigh, solve  # these let other threads run, SciPy's do not

from ask_dask.moments import Centred
from ask_dask.nystrom import FeatureMap
from ask_dask.solve.protocol import Model, Solution, Solve, Wants
from ask_dask.solve.resonance import condition, inverse
from ask_dask.solve.rounding import rounding


def unresolved(maps: FeatureMap, count: float, gamma: float, damping: float = 0.0, ridge: float = 0.0) -> float:
    """Return `Solution.unresolved` for the weight of the training rows."""
    dropped = maps.unresolved * count / len(maps.source)
    return float(dropped / np.hypot((1 + ridge) / gamma, np.sqrt(damping)))


class LandmarkSystem:
    """The AsK-LS system of one set of training rows, decomposed once.

    Parameters
    ----------
    centred : Centred
        The moments of the training rows in features.

    Attributes
    ----------
    singular_values : (r,) array, descending
        Those of the centred approximate kernel (I - 11'/N) C W^+ R (I - 11'/N).
    poles : array, descending
        Singular values at which gamma = 1 / sigma makes the system singular: all, or of a symmetric kernel those of
        its negative eigenvalues.
    """

    def __init__(self, centred: Centred) -> None:
        self.maps, self.n, self.mean_y, self.yy = centred.maps, centred.count, centred.mean_y, centred.yy
        self.s, self.t = centred.roles[0], centred.roles[-1]
        self.signs = centred.maps.signs if len(centred.roles) == 1 else None
        if self.signs is not None:
            self._decompose_symmetric()
            return
        values, vectors = eigh(self.s.gram)
        root = vectors * np.sqrt(np.maximum(values, 0))
        squares, E = eigh(root.T @ self.t.gram @ root)
        self._squares, self._modes = np.maximum(squares[::-1], 0), root @ E[:, ::-1]
        self.poles = self.singular_values = np.sqrt(self._squares)
        self._eigenvalues = np.concatenate([self.poles, -self.poles])

    def _decompose_symmetric(self) -> None:
        assert self.signs is not None
        values, vectors = eigh(self.s.gram)
        values = np.maximum(values, 0)
        if (self.signs > 0).all():
            self._eigenvalues, self._modes = values, vectors
        else:
            root, D = vectors * np.sqrt(values), self.signs[:, None]
            self._eigenvalues, E = eigh(root.T @ (D * root))
            self._modes = root @ E
            self.t = replace(
                self.s, mean=self.signs * self.s.mean, gram=D * self.s.gram * self.signs, cross=D * self.s.cross
            )
        order = np.argsort(-np.abs(self._eigenvalues))
        self.singular_values = np.abs(self._eigenvalues)[order]
        self.poles = np.sort(-self._eigenvalues[self._eigenvalues < 0])[::-1]

    def solve(self, gamma: float, damping: float = 0.0, ridge: float = 0.0) -> Solution:
        """Return the solution at one gamma.

        Parameters
        ----------
        damping : float
            Tikhonov on the saddle point: each eigenvalue's inverse 1/mu becomes mu / (mu^2 + damping).
        ridge : float
            0 for the saddle point; at 1 or more the primal is convex and no resonance exists.
        """
        w, v = self._coefficients(gamma, damping, ridge, self.s.cross, self.t.cross)
        intercepts = np.stack([self.mean_y - self.s.mean @ w, self.mean_y - self.t.mean @ v])
        fitted = np.maximum(self.s.energy(w), self.t.energy(v))
        known = self.yy > 0
        amplification = np.sqrt(fitted[known] / self.yy[known]).max(initial=0.0)
        rough = self._rounding(gamma, damping, ridge, w[:, known], v[:, known], self.yy[known])
        return Solution(
            self.maps.source @ w,
            self.maps.target @ v,
            intercepts,
            self._condition(gamma, damping, ridge),
            float(amplification),
            rough,
            unresolved(self.maps, self.n, gamma, damping, ridge),
        )

    def path(self, gammas: Sequence[float], damping: float = 0.0, ridge: float = 0.0) -> list[Solution]:
        """Return the solutions at every gamma."""
        return [self.solve(gamma, damping, ridge) for gamma in gammas]

    def safe_gamma(self, gamma: float, damping: float = 0.0, ridge: float = 0.0) -> float | None:
        """Return the largest gamma, in steps of 10^(1/4) down from one, that the precision resolves, if any."""
        smaller = gamma * 10.0 ** -(np.arange(1, 61) / 4)
        return next((float(g) for g in smaller if self.solve(g, damping, ridge).resolved), None)

    def _coefficients(
        self, gamma: float, damping: float, ridge: float, r_s: np.ndarray, r_t: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return w and v for products r_s, r_t (r, k) of the features with any right-hand sides."""
        if self.signs is not None:
            w = self._symmetric(gamma, damping, ridge, r_s)
            return w, self.signs[:, None] * w
        return self._primal(gamma, ridge, r_s, r_t) if ridge else self._saddle(gamma, damping, r_s, r_t)

    def _symmetric(self, gamma: float, damping: float, ridge: float, r: np.ndarray) -> np.ndarray:
        assert self.signs is not None
        t, values = (1 + ridge) / gamma, self._eigenvalues
        if (self.signs > 0).all():
            return self._modes @ (inverse(t + values, t, damping)[:, None] * (self._modes.T @ r))
        if ridge:
            values, E = eigh(self._ridged(gamma, ridge))
            kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
            return E[:, kept] @ ((E[:, kept].T @ r) / values[kept, None])
        first = t / (t**2 + damping)
        slope = _divide(inverse(t + values, t, damping) - first, values, (damping - t**2) / (t**2 + damping) ** 2)
        D = self.signs[:, None]
        return D * (first * r + self._modes @ (slope[:, None] * (self._modes.T @ (D * r))))

    def _ridged(self, gamma: float, ridge: float) -> np.ndarray:
        """Return the matrix of the primal where f_s = f_t: v = D w, with D of the signs, makes both equations one."""
        assert self.signs is not None
        return self.s.gram + np.diag((ridge + self.signs) / gamma)

    def _saddle(self, gamma: float, damping: float, r_s: np.ndarray, r_t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        t, sigma = 1 / gamma, self.singular_values
        from_s, from_t = self._modes.T @ (self.t.gram @ r_s), self._modes.T @ r_t
        plus, minus = inverse(t + sigma, t, damping), inverse(t - sigma, t, damping)
        alpha_0, beta_0 = t / (t**2 + damping), (damping - t**2) / (t**2 + damping) ** 2
        alpha_1 = _divide((plus + minus) / 2 - alpha_0, self._squares)[:, None]
        beta = _divide((plus - minus) / 2, sigma, otherwise=beta_0)[:, None]
        beta_1 = _divide(beta[:, 0] - beta_0, self._squares)[:, None]
        v = alpha_0 * r_s + self._modes @ (alpha_1 * from_s + beta * from_t)
        inner = beta_0 * r_s + self._modes @ (beta_1 * from_s + alpha_1 * from_t)
        return alpha_0 * r_t + self.t.gram @ inner, v

    def _primal(self, gamma: float, ridge: float, r_s: np.ndarray, r_t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Solve the coupled system on the joint range of A and B: outside it the right-hand side is 0."""
        U = self._joint_range
        found = solve(self._coupled(gamma, ridge), gamma * np.vstack([U.T @ r_s, U.T @ r_t]))
        return U @ found[: U.shape[1]], U @ found[U.shape[1] :]

    def _coupled(self, gamma: float, ridge: float) -> np.ndarray:
        U = self._joint_range
        A, B, identity = U.T @ self.s.gram @ U, U.T @ self.t.gram @ U, np.eye(U.shape[1])
        return np.block([[gamma * A + ridge * identity, identity], [identity, gamma * B + ridge * identity]])

    def _condition(self, gamma: float, damping: float, ridge: float) -> float:
        if not ridge:
            return condition(self._eigenvalues, gamma, damping)
        if self.signs is not None and (self.signs > 0).all():
            return condition(self._eigenvalues, gamma / (1 + ridge))
        matrix = self._coupled(gamma, ridge) if self.signs is None else self._ridged(gamma, ridge)
        sizes = np.abs(np.linalg.eigvalsh(matrix))
        return float(sizes.max() / sizes.min()) if sizes.all() else np.inf

    def _rounding(
        self, gamma: float, damping: float, ridge: float, w: np.ndarray, v: np.ndarray, yy: np.ndarray
    ) -> float:
        roles = ((self.s, w), (self.t, v))[: 1 if self.signs is not None else 2]

        def answer(role: int, noise: np.ndarray) -> np.ndarray:
            sides = (noise, np.zeros_like(noise))
            found = self._coefficients(gamma, damping, ridge, *(sides if role == 0 else sides[::-1]))
            return np.maximum(self.s.energy(found[0]), self.t.energy(found[1]))

        return rounding(roles, self.n, yy, answer)

    def singular_vectors(self, smallest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return those of the centred approximate kernel for the singular values of at least `smallest`.

        Returns
        -------
        source, target : (m, r) arrays
            U = C source and V = R' target, each less its mean over the rows, have orthonormal columns.
        sigma : (r,) array
        """
        of_modes = self.singular_values if self.signs is None else np.abs(self._eigenvalues)
        kept = of_modes >= smallest
        sigma, modes = of_modes[kept], self._modes[:, kept]
        if self.signs is not None and (self.signs > 0).all():
            modes = modes * np.sqrt(sigma)
        # v_i = Psi_t l_i / sigma_i and u_i = Psi_s B l_i / sigma_i^2 with l_i = L e_i, so only sigma is divided by
        return self.maps.source @ (self.t.gram @ modes / sigma**2), self.maps.target @ (modes / sigma), sigma

    @cached_property
    def _joint_range(self) -> np.ndarray:
        traces = (np.trace(gram) or 1.0 for gram in (self.s.gram, self.t.gram))
        values, vectors = eigh(
            sum(gram / trace for gram, trace in zip((self.s.gram, self.t.gram), traces, strict=True))
        )
        return vectors[:, values > 1e-12 * max(values[-1], 0)]


@dataclass(frozen=True)
class AsKLSSolve(Solve):
    """AsK-LS at every gamma of a grid.

    Attributes
    ----------
    grid : tuple of float
        The gammas.
    damping, ridge : as in `LandmarkSystem.solve`
    """

    grid: tuple[float, ...]
    damping: float = 0.0
    ridge: float = 0.0
    parameter = "gamma"
    wants = Wants(target=True)
    weak_when_large = True

    def decompose(self, centred: Centred) -> LandmarkSystem:
        return LandmarkSystem(centred)

    def solve(self, state: LandmarkSystem, value: float) -> Solution:
        return state.solve(value, self.damping, self.ridge)

    def model(self, state: LandmarkSystem, value: float) -> Model:
        solution = self.solve(state, value)
        safe = None if solution.resolved else state.safe_gamma(value, self.damping, self.ridge)
        solver = {"rounding": solution.rounding, "unresolved": solution.unresolved}
        return Model(solution, state.singular_values, state.poles, solver, safe)


def _divide(a: np.ndarray, b: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
    """Return a / b where b is not 0."""
    return np.divide(a, b, out=np.full_like(b, otherwise), where=b != 0)

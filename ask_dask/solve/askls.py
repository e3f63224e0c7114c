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

from ask_dask.moments import Moments, Side
from ask_dask.nystrom import FeatureMap
from ask_dask.solve.resonance import condition, inverse

TOO_ROUGH = 0.01
"""A solution whose `rounding` is above this is warned of, and not chosen where there is another."""

PROBES = 4
"""Random right-hand sides whose solutions show how much a solution changes with its rounded moments."""


@dataclass(frozen=True)
class Solution:
    """The discriminants f_s(x) = k(x, Z_J) source + intercepts[0] and f_t(x) = k(X_I, x)' target + intercepts[1].

    Attributes
    ----------
    source : (m, q)
        Coefficients at the column landmarks.
    target : (n, q)
        Coefficients at the row landmarks.
    intercepts : (2, q)
    condition_number : float
        Condition number of the system as solved.
    amplification : float
        Norm of the fitted values about their mean over the training rows, divided by that of y: the largest of both
        roles and all outputs. A least-squares fit has at most 1; only modes near a resonance exceed it.
    rounding : float
        Estimated root mean square change of the fitted values by the rounding of the moments, divided by the
        deviation of y: the largest of all outputs; 0 where no moments were summed.
    unresolved : float
        Largest singular value of the kernel that its blocks' precision does not resolve, divided by the
        regularisation 1/gamma (with damping, by the root of 1/gamma^2 + damping). Above 1 the model lacks directions
        of the kernel that the regularisation would let it use.
    """

    source: np.ndarray
    target: np.ndarray
    intercepts: np.ndarray
    condition_number: float
    amplification: float = 0.0
    rounding: float = 0.0
    unresolved: float = 0.0

    @property
    def resolved(self) -> bool:
        """Return whether the precision of the rows resolves the regularisation."""
        return self.rounding <= TOO_ROUGH and self.unresolved <= 1

    def of_units(self, centre: np.ndarray, scale: np.ndarray) -> "Solution":
        """Return the solution for y = centre + scale * Y, each (q,), where this is that for Y."""
        intercepts = self.intercepts * scale + centre
        return replace(self, source=self.source * scale, target=self.target * scale, intercepts=intercepts)


def mean_solution(parts: Sequence[Solution]) -> Solution:
    """Return the mean of solutions at the same landmarks: its discriminants are the mean of theirs."""
    means = {name: np.mean([getattr(part, name) for part in parts], 0) for name in ("source", "target", "intercepts")}
    worst = {name: max(getattr(part, name) for part in parts)
             for name in ("condition_number", "amplification", "rounding", "unresolved")}  # fmt: skip
    return Solution(**means, **worst)


def unresolved(maps: FeatureMap, count: float, gamma: float, damping: float = 0.0, ridge: float = 0.0) -> float:
    """Return `Solution.unresolved` for the weight of the training rows."""
    dropped = maps.unresolved * count / len(maps.source)
    return float(dropped / np.hypot((1 + ridge) / gamma, np.sqrt(damping)))


@dataclass(frozen=True)
class _Centred:
    """Centred moments of one role's features.

    Attributes
    ----------
    mean : (r,)
    gram : (r, r)
    cross : (r, q)
        Products with Y.
    summed, evaluated : (r,)
        How products and kernel entries were rounded. Products changed entry (a, b) of the Gram by about
        eps sqrt(summed_a summed_b), and entries changed feature a of a row by about eps sqrt(evaluated_a).
    T : (m, r)
        The features' coefficients.
    columns : (m,)
        Mean squares of the kernel columns.
    eps : float
    """

    mean: np.ndarray
    gram: np.ndarray
    cross: np.ndarray
    summed: np.ndarray
    evaluated: np.ndarray
    T: np.ndarray
    columns: np.ndarray
    eps: float

    @classmethod
    def of(cls, side: Side, transform: np.ndarray, n: float, mean_y: np.ndarray) -> "_Centred":
        T, offset = side.frame.transform(transform), side.sums[0] / n
        gram = T.T @ (side.gram[0] - n * np.outer(offset, offset)) @ T
        cross = side.cross[0] - n * np.outer(offset, mean_y)
        mean = transform.T @ side.frame.origin[: len(transform)] + T.T @ offset
        columns = (side.frame.origin**2 + np.maximum(side.frame.squares(side.gram[0]), 0) / n)[: len(transform)]
        summed, evaluated = np.diag(side.gram[0]) @ T**2, columns @ transform**2
        return cls(mean, (gram + gram.T) / 2, T.T @ cross, summed, evaluated, transform, columns, side.frame.eps)

    def energy(self, w: np.ndarray) -> np.ndarray:
        """Return the sum of squares over the rows of the features times each column of w, about their mean: (k,)."""
        return np.abs((w * (self.gram @ w)).sum(0))


class LandmarkSystem:
    """The AsK-LS system of one set of training rows, decomposed once.

    Parameters
    ----------
    moments : Moments
        Those of the training rows, shapes (1, ...), at the landmarks of `maps`.
    maps : FeatureMap

    Attributes
    ----------
    singular_values : (r,) array, descending
        Those of the centred approximate kernel (I - 11'/N) C W^+ R (I - 11'/N).
    poles : array, descending
        Singular values at which gamma = 1 / sigma makes the system singular: all, or of a symmetric kernel those of
        its negative eigenvalues.
    """

    def __init__(self, moments: Moments, maps: FeatureMap) -> None:
        self.maps, self.n = maps, moments.count[0]
        n = self.n
        self.mean_y = moments.sum_y[0] / n
        self.yy = np.maximum(moments.yy[0] - n * self.mean_y**2, 0)
        self.s = _Centred.of(moments.sides[0], maps.source, n, self.mean_y)
        self.signs = maps.signs if len(moments.sides) == 1 else None
        if self.signs is not None:
            self._decompose_symmetric()
            return
        self.t = _Centred.of(moments.sides[-1], maps.target, n, self.mean_y)
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
            self._eigenvalues, self._modes, self.t = values, vectors, self.s
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
        rounding = self._rounding(gamma, damping, ridge, w[:, known], v[:, known], self.yy[known])
        return Solution(
            self.maps.source @ w,
            self.maps.target @ v,
            intercepts,
            self._condition(gamma, damping, ridge),
            float(amplification),
            rounding,
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
        """Return the estimate of `Solution.rounding`.

        To first order an error E of the Gram changes the solution by that for the right-hand side -E w, which has the
        signs of noise, as the probes have, and in row a the size of `summed` or `evaluated` times that of the fitted
        values. Rounded kernel entries also change the fitted values themselves.
        """
        if not len(yy):
            return 0.0
        none, change = np.zeros((len(self.s.mean), 2 * PROBES)), np.zeros(len(yy))
        for role, (side, c) in enumerate(((self.s, w), (self.t, v))[: 1 if self.signs is not None else 2]):
            sizes = np.sqrt(np.repeat([side.summed, side.evaluated], PROBES, axis=0)).T
            noise = sizes * self._signs
            found = self._coefficients(gamma, damping, ridge, *((noise, none) if role == 0 else (none, noise)))
            answers = np.maximum(self.s.energy(found[0]), self.t.energy(found[1])).reshape(2, PROBES).mean(1)
            change += answers @ [side.summed @ c**2 + yy, side.energy(c) + yy]
            change += self.n * (side.columns @ (side.T @ c) ** 2)
        return float(self.s.eps * np.sqrt(change / yy).max())

    @cached_property
    def _signs(self) -> np.ndarray:
        return np.random.default_rng(0).choice([-1.0, 1.0], (len(self.s.mean), 2 * PROBES))

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


def _divide(a: np.ndarray, b: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
    """Return a / b where b is not 0."""
    return np.divide(a, b, out=np.full_like(b, otherwise), where=b != 0)

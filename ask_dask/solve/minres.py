"""MINRES on many symmetric systems at once: each column has its own system, and a step makes one product for them all.

Paige and Saunders, Solution of sparse indefinite systems of linear equations (1975), with a positive definite
preconditioner. Of a singular system without a solution it finds a least-squares one; taking from it its part along the
residual gives the smallest of these, the pseudo-inverse's (Liu, Milzarek and Roosta, Obtaining pseudo-inverse solutions
with MINRES).
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

Operator = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(n, k) vectors and the numbers (k,) of their systems -> (n, k)."""


@dataclass
class State:
    """Where MINRES stands on k systems: vectors (n, k) and scalars (k,) in the letters of the paper."""

    x: np.ndarray
    y: np.ndarray
    r1: np.ndarray
    r2: np.ndarray
    w: np.ndarray
    w2: np.ndarray
    beta: np.ndarray
    beta1: np.ndarray
    old_beta: np.ndarray
    d_bar: np.ndarray
    epsilon: np.ndarray
    phi_bar: np.ndarray
    cosine: np.ndarray
    sine: np.ndarray
    size: np.ndarray
    """Squared Frobenius norm of the Lanczos matrix so far"""
    slope: np.ndarray
    """|A r| / |r|"""

    @classmethod
    def start(cls, right: np.ndarray, precondition: Operator, systems: np.ndarray) -> "State":
        """At x = 0."""
        y = precondition(right, systems)
        beta = np.sqrt(np.maximum((right * y).sum(0), 0))
        zero, x, w, w2 = np.zeros_like(beta), *(np.zeros_like(right) for _ in range(3))
        return cls(x, y, right, right.copy(), w, w2, beta, beta.copy(), zero, zero, zero, beta, zero - 1, zero, zero,
                   zero + np.inf)  # fmt: skip

    @property
    def residual(self) -> np.ndarray:
        """(k,) norm of the residual over that of the right-hand side, both in the preconditioner's norm."""
        return self.phi_bar / np.where(self.beta1 > 0, self.beta1, 1)

    @property
    def flatness(self) -> np.ndarray:
        """(k,) |A r| / (|A| |r|): near 0 where nothing of the residual is in the range of A."""
        return self.slope / np.sqrt(np.where(self.size > 0, self.size, 1))

    def keep(self, kept: np.ndarray) -> "State":
        """Only some of the systems."""
        return State(**{f.name: getattr(self, f.name)[..., kept] for f in fields(self)})

    def step(self, apply: Operator, precondition: Operator, systems: np.ndarray) -> "State":
        """Where it stands after one more iteration; this one stays as it is."""
        v = self.y * _reciprocal(self.beta)
        r = apply(v, systems) - self.r1 * (self.beta * _reciprocal(self.old_beta))
        alpha = (v * r).sum(0)
        r -= self.r2 * (alpha * _reciprocal(self.beta))
        y = precondition(r, systems)
        beta = np.sqrt(np.maximum((r * y).sum(0), 0))
        return self._rotated(v, r, y, alpha, beta)

    def _rotated(self, v: np.ndarray, r: np.ndarray, y: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> "State":
        """The QR step on the Lanczos matrix and the update of x."""
        delta = self.cosine * self.d_bar + self.sine * alpha
        g_bar = self.sine * self.d_bar - self.cosine * alpha
        d_bar = -self.cosine * beta
        rotated = np.maximum(np.hypot(g_bar, beta), np.finfo(float).tiny)
        cosine, sine = g_bar / rotated, beta / rotated
        w = (v - self.epsilon * self.w2 - delta * self.w) / rotated
        return State(
            x=self.x + cosine * self.phi_bar * w, y=y, r1=self.r2, r2=r, w=w, w2=self.w, beta=beta, beta1=self.beta1,
            old_beta=self.beta, d_bar=d_bar, epsilon=self.sine * beta, phi_bar=sine * self.phi_bar, cosine=cosine,
            sine=sine, size=self.size + alpha**2 + self.beta**2 + beta**2, slope=np.hypot(g_bar, d_bar),
        )  # fmt: skip


def smallest(x: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """The smallest least-squares solution: x less its part along the residual, which is in the null space."""
    size = (residual**2).sum(0)
    return x - residual * np.divide((residual * x).sum(0), size, out=np.zeros_like(size), where=size > 0)


def _reciprocal(values: np.ndarray) -> np.ndarray:
    return np.divide(1, values, out=np.zeros_like(values), where=values > 0)

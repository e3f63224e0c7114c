"""Where the AsK-LS system is singular: gamma * sigma = 1 for a singular value sigma of the centred kernel."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

TOO_CLOSE = 1e-3
"""A gap |1 - gamma sigma| below this is warned of: the mode's coefficient is multiplied by more than 1000."""

AMPLIFIED = 2.0
"""Fitted values this many times as large as y are warned of: a least-squares fit has at most 1."""

SINGULAR = 1e-9
"""A gap below this is taken for 0: the mode gets no coefficient, which is the pseudo-inverse's (smallest) solution."""


@dataclass(frozen=True)
class Resonance:
    """How near a solution is to a resonance and what was done about it."""

    gamma: float
    sigma: float
    """The singular value for which |1 - gamma sigma| is smallest."""
    gap: float
    """min |1 - gamma sigma|"""
    condition_number: float
    """Of the AsK-LS system on the singular modes, eigenvalues 1/gamma +- sigma, as solved (after damping or ridge)."""
    nearest: tuple[float, ...]
    """The five singular values nearest to 1/gamma."""
    treatment: str
    """"none", "damping x", "ridge x" or "pseudo-inverse"."""
    safe_gamma: float
    """The gamma nearest to the one used with a gap of at least 100 times the warning's bound, or the best there is."""
    warning: str | None
    """One sentence when the gap is too small and nothing was done, else None."""
    fold_gap: float | None = None
    """About the smallest gap of the folds' models, where their mean is used; from their condition number."""
    amplification: float = 0.0
    """Norm of the fitted values divided by that of y, the largest of all training sets (`Solution.amplification`)."""

    def to_dict(self) -> dict[str, Any]:
        """JSON values; an infinite condition number is the text "inf"."""
        condition = self.condition_number if np.isfinite(self.condition_number) else "inf"
        return asdict(self) | {"nearest": list(self.nearest), "condition_number": condition}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Resonance":
        """The Resonance that `to_dict` described."""
        parsed = {"nearest": tuple(values["nearest"]), "condition_number": float(values["condition_number"])}
        return cls(**(values | parsed))


def inverse(mu: np.ndarray, t: float, damping: float) -> np.ndarray:
    """1/mu, or mu / (mu^2 + damping), of eigenvalues mu = t +- sigma, t = 1/gamma; 0 for one that is taken for 0."""
    kept = np.abs(mu) > SINGULAR * t if not damping else np.full(mu.shape, True)
    return np.divide(mu, mu**2 + damping, out=np.zeros_like(mu), where=kept)


def condition(modes: np.ndarray, gamma: float, damping: float = 0.0) -> float:
    """Return the condition number of the system, infinite if it is singular.

    Parameters
    ----------
    modes : array
        Eigenvalues of the system less 1/gamma: both signs of each singular value of the centred kernel, or the
        eigenvalues of a symmetric one.
    """
    t = 1 / gamma
    sizes = np.sqrt(np.append(t, t + modes) ** 2 + damping)
    return float(sizes.max() / sizes.min()) if sizes.min() > SINGULAR * t else np.inf


def resonance(
    sigma: np.ndarray,
    gamma: float,
    damping: float,
    condition: float,
    ridge: float = 0.0,
    fold_condition: float | None = None,
    *,
    poles: np.ndarray | None = None,
    amplification: float = 0.0,
) -> Resonance:
    """Describe the system at one gamma.

    Parameters
    ----------
    sigma : (r,) array
        Singular values of the centred kernel, descending.
    condition : float
        Condition number of the system as solved.
    fold_condition : float, optional
        The largest of the folds' systems, where the mean of their models is used.
    poles : array, optional
        Those at which the system is singular, by default all.
    amplification : float
        The largest `Solution.amplification` of all training sets.

    Examples
    --------
    >>> found = resonance(np.array([0.5, 0.1]), gamma=2.0, damping=0.0, condition=np.inf)
    >>> found.gap, found.sigma
    (0.0, 0.5)
    >>> found.warning[:47], round(found.safe_gamma, 2)
    ('gamma=2 is at a resonance (gamma * sigma = 1 wi', 2.2)
    """
    poles = sigma if poles is None else poles
    near = np.atleast_1d(poles) if np.size(poles) else np.zeros(1)
    gaps = np.abs(1 - gamma * near)
    order = np.argsort(gaps)[:5]
    safe = _safe_gamma(near, gamma)
    treatment = f"damping {damping:g}" if damping else f"ridge {ridge:g}" if ridge else "none"
    warning = None
    if gaps[order[0]] < TOO_CLOSE and treatment == "none":
        dropped = int((gaps < SINGULAR).sum())
        treatment = "pseudo-inverse" if dropped else "none"
        said = f"; {dropped} such modes were left out, as the pseudo-inverse does" if dropped else ""
        warning = (
            f"gamma={gamma:g} is at a resonance (gamma * sigma = 1 within {gaps[order[0]]:.1e} for the singular value "
            f"{near[order[0]]:.6g}{said}): use gamma={safe:.4g}, or damping or ridge above 0."
        )
    largest = float(np.max(sigma, initial=0.0))
    fold_gap = None if fold_condition is None else float((1 + gamma * largest) / fold_condition)
    if fold_gap is not None and fold_gap < TOO_CLOSE and treatment == "none" and warning is None and np.size(poles):
        safe = _safe_gamma(near, 1.1 * gamma)  # of the fold only the gap is known, which is next to gamma
        warning = (
            f"gamma={gamma:g} is at a resonance of a fold's model (gap about {fold_gap:.1e}), and stacking uses these: "
            f"use another gamma, such as {safe:.4g}, or damping or ridge above 0."
        )
    if amplification > AMPLIFIED and warning is None:
        warning = (
            f"gamma={gamma:g} is near a resonance: singular values near 1/gamma make the fitted values "
            f"{amplification:.2g} times as large as y, and predictions of new rows unreliable. Use "
            + (f"more than {treatment}." if damping or ridge else "another gamma, or damping or ridge above 0.")
        )
    return Resonance(
        gamma=float(gamma),
        sigma=float(near[order[0]]),
        gap=float(gaps[order[0]]),
        condition_number=float(condition),
        nearest=tuple(float(near[i]) for i in order),
        treatment=treatment,
        safe_gamma=float(safe),
        warning=warning,
        fold_gap=fold_gap,
        amplification=float(amplification),
    )


def _safe_gamma(sigma: np.ndarray, gamma: float) -> float:
    """The candidate nearest to gamma (on a log scale) that is far from every 1/sigma, else the farthest one."""
    poles = 1 / sigma[sigma > 0]
    if not len(poles):
        return gamma
    grid = gamma * np.exp(np.concatenate([[0.0], *np.outer(np.geomspace(1e-2, 20, 400), [1, -1])]))
    gaps = np.abs(1 - np.outer(grid, 1 / poles)).min(1)
    far = np.flatnonzero(gaps >= 100 * TOO_CLOSE)
    return float(grid[far[0]] if len(far) else grid[gaps.argmax()])

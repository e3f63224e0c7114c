"""Where the AsK-LS system is singular: gamma * sigma = 1 for a singular value sigma of the centred kernel."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

TOO_CLOSE = 1e-3
"""A gap |1 - gamma sigma| below this is warned of: the mode's coefficient is multiplied by more than 1000."""

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


def condition(sigma: np.ndarray, gamma: float, damping: float = 0.0) -> float:
    """Condition number of the system on the singular modes, eigenvalues 1/gamma +- sigma; infinite if one is 0."""
    t = 1 / gamma
    sizes = np.sqrt(np.concatenate([[t], t + sigma, t - sigma]) ** 2 + damping)
    return float(sizes.max() / sizes.min()) if sizes.min() > SINGULAR * t else np.inf


def resonance(
    sigma: np.ndarray,
    gamma: float,
    damping: float,
    condition: float,
    ridge: float = 0.0,
    fold_condition: float | None = None,
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

    Examples
    --------
    >>> found = resonance(np.array([0.5, 0.1]), gamma=2.0, damping=0.0, condition=np.inf)
    >>> found.gap, found.sigma
    (0.0, 0.5)
    >>> found.warning[:47], round(found.safe_gamma, 2)
    ('gamma=2 is at a resonance (gamma * sigma = 1 wi', 2.2)
    """
    sigma = np.atleast_1d(sigma) if np.size(sigma) else np.zeros(1)
    gaps = np.abs(1 - gamma * sigma)
    order = np.argsort(gaps)[:5]
    safe = _safe_gamma(sigma, gamma)
    treatment = f"damping {damping:g}" if damping else f"ridge {ridge:g}" if ridge else "none"
    warning = None
    if gaps[order[0]] < TOO_CLOSE and treatment == "none":
        dropped = int((gaps < SINGULAR).sum())
        treatment = "pseudo-inverse" if dropped else "none"
        said = f"; {dropped} such modes were left out, as the pseudo-inverse does" if dropped else ""
        warning = (
            f"gamma={gamma:g} is at a resonance (gamma * sigma = 1 within {gaps[order[0]]:.1e} for the singular value "
            f"{sigma[order[0]]:.6g}{said}): use gamma={safe:.4g}, or damping or ridge above 0."
        )
    fold_gap = None if fold_condition is None else float((1 + gamma * sigma.max()) / fold_condition)
    if fold_gap is not None and fold_gap < TOO_CLOSE and treatment == "none" and warning is None:
        safe = _safe_gamma(sigma, 1.1 * gamma)  # of the fold only the gap is known, which is next to gamma
        warning = (
            f"gamma={gamma:g} is at a resonance of a fold's model (gap about {fold_gap:.1e}), and stacking uses these: "
            f"use another gamma, such as {safe:.4g}, or damping or ridge above 0."
        )
    return Resonance(
        gamma=float(gamma),
        sigma=float(sigma[order[0]]),
        gap=float(gaps[order[0]]),
        condition_number=float(condition),
        nearest=tuple(float(sigma[i]) for i in order),
        treatment=treatment,
        safe_gamma=float(safe),
        warning=warning,
        fold_gap=fold_gap,
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

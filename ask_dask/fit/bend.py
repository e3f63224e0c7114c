"""Discriminants bent before they are merged, so that a few far rows do not decide.

A regression on out-of-fold discriminants must not depend on a few far rows, and must hold on new rows, whose
discriminants may lie farther off. `Bend` therefore clips each discriminant to the range seen out of fold, but for a
small slope that keeps the order of rows, and compresses it beyond some robust deviations from its median.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

WIDTHS = {
    "regression": (np.inf, 16.0, 2.0, 0.3),
    "classification": (16.0, 2.0, 0.3),
    "multilabel": (16.0, 2.0, 0.3),
    "balanced": (16.0, 2.0),
}
"""Robust deviations within which a discriminant stays as it is; beyond, its logarithm counts. The width that fits the
out-of-fold rows best is used, so that scores are compressed only where their tails are heavy. Balanced merging serves
the choice among classes, which a stronger compression spoils while it fits the sides of each class better."""

FARTHEST = 3.0
"""Robust deviations to which discriminants are clipped instead, where that fits better: a few rows lie far off. Not
for balanced merging, as above."""

LEAK = 0.01
"""Slope of a discriminant outside the range, in shares of the slope inside."""

QUANTILES = ((0.25, 0.75), (0.05, 0.95), (0.01, 0.99), (0.0, 1.0))
"""Ranges that give the robust deviation, the next where one holds equal values only."""


@dataclass(frozen=True)
class Bend:
    """Clip to a range and compress around a centre: an increasing function with slope 1 at the centre.

    Beyond the range it rises by LEAK of the range and less, so that rows keep their order.

    Attributes
    ----------
    lower, upper : array
        The range; infinite where nothing is clipped.
    centre, width : array
        Values farther than `width` from the centre count by their logarithm; infinite is linear.

    Examples
    --------
    >>> bend = Bend(np.array(-50.0), np.array(50.0), np.array(0.0), np.array(1.0))
    >>> bend(np.array([0.01, 5.0, 50.0, 1e9])).round(2)
    array([0.01, 2.31, 4.61, 4.9 ])
    """

    lower: np.ndarray
    upper: np.ndarray
    centre: np.ndarray
    width: np.ndarray

    @classmethod
    def linear(cls, shape: tuple[int, ...]) -> Self:
        """Return the bend that leaves every value as it is."""
        infinite = np.full(shape, np.inf)
        return cls(-infinite, infinite, np.zeros(shape), infinite)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        clipped, curved = np.clip(values, self.lower, self.upper), np.isfinite(self.width)
        if (clipped != values).any():
            span = self.upper - self.lower
            known = np.isfinite(span) & (span > 0)
            span = np.where(known, span, 1.0)
            clipped += np.where(known, LEAK * span, 0.0) * np.arcsinh((values - clipped) / span)
        if not curved.any():
            return clipped
        width = np.where(curved, self.width, 1.0)
        return np.where(curved, self.centre + width * np.arcsinh((clipped - self.centre) / width), clipped)

    def rows(self) -> list[np.ndarray]:
        """Return the four arrays, in the order of the constructor."""
        return [self.lower, self.upper, self.centre, self.width]

    def side(self, number: int) -> "Bend":
        """Return that of f_s (0) or f_t (1)."""
        return Bend(*(row[number] for row in self.rows()))


def bends_of(features: np.ndarray, weight: np.ndarray | None, purpose: str) -> list[Bend]:
    """Return the bends to choose from, for a task or balanced merging: one range and centre, several widths."""
    lower, upper, centre = features.min(0), features.max(0), _quantiles(features, [0.5], weight)[0]
    farthest = np.maximum(upper - centre, centre - lower)
    scale, known = np.ones(len(centre)), np.zeros(len(centre), bool)
    for low, high in QUANTILES:
        between = np.subtract(*_quantiles(features, [high, low], weight)) / 1.349
        new = ~known & (between > 1e-6 * farthest)
        scale[new], known = between[new], known | new
        if known.all():
            break
    near = np.maximum(lower, centre - FARTHEST * scale), np.minimum(upper, centre + FARTHEST * scale)
    bent = [Bend(lower, upper, centre, width * scale) for width in WIDTHS[purpose]]
    return bent if purpose == "balanced" else [*bent, Bend(*near, centre, np.inf * scale)]


def _quantiles(features: np.ndarray, shares: list[float], weight: np.ndarray | None) -> np.ndarray:
    """(shares, k); a weight is the number of times that a row counts."""
    return np.quantile(features, shares, axis=0, method="inverted_cdf", weights=weight)

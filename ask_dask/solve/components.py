"""Kernel principal components on moments, from the centred Gram of landmark features.

Shawe-Taylor and Sun, Kernel methods and support vector machines, eqs. (33) to (38): the eigenvectors of the centred
Gram of the features give the directions, and k(x, x) summed gives the share of the variance that they hold.
"""

from dataclasses import dataclass

import numpy as np
from numpy.linalg import eigh

from ask_dask.moments import Centred, Moments, squared_errors
from ask_dask.solve.protocol import Functions, Solution, Solve, Wants

LEAST = 32.0
"""Times the precision of the blocks: components of a smaller share of the first eigenvalue are rounding."""


@dataclass(frozen=True)
class Components(Solve):
    """The first principal components of a kernel.

    Attributes
    ----------
    grid : tuple of one float
        How many components.
    """

    grid: tuple[float, ...]
    parameter = "n_components"
    from_moments = True
    wants = Wants(diagonal=True)

    def decompose(self, centred: Centred) -> tuple[Centred, np.ndarray, np.ndarray]:
        """Return the moments, and eigenvalues and vectors of the Gram, the largest first."""
        values, vectors = eigh(centred.source.gram)
        return centred, np.maximum(values[::-1], 0), vectors[:, ::-1]

    def solve(self, state: tuple[Centred, np.ndarray, np.ndarray], value: float) -> Solution:
        """Return the scores f = (phi - mean)'V; `more["mean"]` is k(x, .) of the mean."""
        c, values, vectors = state
        mean, T = c.source.mean, c.maps.source
        kept = min(int(value), int((values > LEAST * c.source.eps * values.max(initial=0)).sum()))
        V = vectors[:, :kept]
        V = V * np.where((T @ V)[np.abs(T @ V).argmax(0), np.arange(kept)] < 0, -1.0, 1.0)
        total = c.kk - c.count * mean @ mean
        statistics = {
            "eigenvalues": values[:kept].tolist(),
            "total": float(total),
            "share": (values[:kept] / total if total > 0 else values[:kept]).tolist(),
            "mean_square": float(mean @ mean),
        }
        more = {"mean": Functions((T @ mean)[:, None], np.zeros(1))}
        return Solution.of_one_role(T @ V, -mean @ V, more=more, statistics=statistics)

    def held_out(self, solution: Solution, cell: Moments) -> tuple[np.ndarray, np.ndarray]:
        """Return how much of the variance of held-out rows about the mean the components leave, and all of it."""
        n = cell.count[0]
        of_scores = _without_y(cell, solution.source.shape[1])
        captured = squared_errors(of_scores, solution.source, solution.intercepts[0]).sum()
        side, mean = cell.sides[0], solution.more["mean"].coefficients
        sums = n * side.frame.origin[: len(mean)] @ mean + side.sums[0] @ side.frame.transform(mean)
        total = cell.kk[0] - 2 * sums[0] + n * solution.statistics["mean_square"]
        return np.array([max(total - captured, 0.0)]), np.array([max(total, 0.0)])


def _without_y(cell: Moments, q: int) -> Moments:
    """Return the moments of the same rows where Y is zero in q columns."""
    none, sides = np.zeros((1, q)), cell.sides
    zeros = tuple(type(side)(side.frame, side.sums, side.gram, np.zeros((*side.sums.shape, q))) for side in sides)
    return Moments(cell.count, none, none, cell.kk, zeros)

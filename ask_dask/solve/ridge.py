"""Kernel ridge regression on moments: every alpha after one decomposition.

Shawe-Taylor and Sun, Kernel methods and support vector machines, eqs. (3) to (8), in the features of landmarks. With
the centred Gram A = V diag(d) V' and cross products r the coefficients are w = V (d + alpha)^-1 V'r, the degrees of
freedom df = 1 + sum d / (d + alpha), and generalised cross-validation (Golub, Heath and Wahba, Technometrics 1979, eq.
1.4) is N RSS / (N - df)^2 with the residual sum of squares RSS from the moments too.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.linalg import eigh

from ask_dask.moments import Centred, Moments, squared_errors
from ask_dask.solve.protocol import Functions, Model, Solution, Solve
from ask_dask.solve.rounding import rounding


@dataclass(frozen=True)
class RidgeSystem:
    """The moments of a training set, decomposed.

    Attributes
    ----------
    centred : Centred
        About the means, or about zero without an intercept.
    values, vectors : (r,), (r, r)
        Of the Gram.
    """

    centred: Centred
    values: np.ndarray
    vectors: np.ndarray

    @cached_property
    def spread(self) -> Functions:
        """The features along the eigenvectors, about their mean."""
        role = self.centred.source
        return Functions(self.centred.maps.source @ self.vectors, role.mean @ self.vectors)

    def answer(self, alpha: float, right: np.ndarray) -> np.ndarray:
        """Return (A + alpha I)^-1 times right-hand sides (r, k)."""
        return self.vectors @ ((self.vectors.T @ right) / (self.values + alpha)[:, None])


@dataclass(frozen=True)
class Ridge(Solve):
    """Ridge regression at every alpha of a grid.

    Attributes
    ----------
    grid : tuple of float
        Penalties alpha of |w|^2 against the sum of the squared errors.
    intercept : bool
        An intercept, which has no penalty; without one the features are not centred.

    Examples
    --------
    >>> from ask_dask import moments, nystrom
    >>> from ask_dask.kernels import RBF
    >>> X = np.linspace(0, 3, 50)[:, None]
    >>> at, rows = RBF(1.0).at(*2 * [X[::5]], 50), moments.Rows(np.sin(X), np.asarray, np.zeros(50, int))
    >>> found = moments.of_rows(X, rows, at, 1)
    >>> method, maps = Ridge((1e-6,)), nystrom.feature_map(at.source(X[::5]), 1e-12)
    >>> solution = method.solve(method.decompose(moments.Centred.of(found, maps)), 1e-6)
    >>> f = at.source(X) @ solution.source + solution.intercepts[0]
    >>> bool(np.abs(f - np.sin(X)).max() < 1e-2)
    True
    """

    grid: tuple[float, ...]
    intercept: bool = True
    parameter = "alpha"
    from_moments = True

    def decompose(self, centred: Centred) -> RidgeSystem:
        """Return the decomposed Gram."""
        centred = centred if self.intercept else centred.about_zero()
        values, vectors = eigh(centred.source.gram)
        return RidgeSystem(centred, np.maximum(values, 0), vectors)

    def solve(self, state: RidgeSystem, value: float) -> Solution:
        """Return f, its degrees of freedom and the noise that it leaves."""
        c, role = state.centred, state.centred.source
        n, rho, left = c.count, state.vectors.T @ role.cross, state.values + value
        w = state.vectors @ (rho / left[:, None])
        freedom = float(self.intercept + (state.values / left).sum())
        squares = c.yy - (rho**2 * ((left + value) / left**2)[:, None]).sum(0)
        known = c.yy > 0
        statistics = {
            "degrees_of_freedom": freedom,
            "rows": n if self.intercept else None,
            "gcv": float((n * np.maximum(squares, 0)).mean() / max(n - freedom, 1.0) ** 2),
        }
        return Solution.of_one_role(
            c.maps.source @ w,
            c.mean_y - role.mean @ w,
            condition_number=float(left.max(initial=value) / left.min(initial=left.max(initial=value))),
            rounding=rounding([(role, w[:, known])], n, c.yy[known], lambda _, b: role.energy(state.answer(value, b))),
            unresolved=c.maps.unresolved * n / len(c.maps.source) / value,
            noise=np.maximum(squares, 0) / max(n - freedom, 1.0),
            statistics=statistics,
        )

    def model(self, state: RidgeSystem, value: float) -> Model:
        """Return the solution, with an alpha that the precision resolves where it does not resolve this one.

        The squares of the functions `more["spread"]`, added, give the variance of f.
        """
        solution = self.solve(state, value)
        larger: Any = value * 10.0 ** (np.arange(1, 61) / 4) if not solution.resolved else ()
        safe = next((float(alpha) for alpha in larger if self.solve(state, alpha).resolved), None)
        told = {"rounding": solution.rounding, "unresolved": solution.unresolved}
        spread = replace(state.spread, scale=1 / np.sqrt(state.values + value))
        return Model(replace(solution, more={"spread": spread}), solver=told, safe=safe)

    def held_out(self, solution: Solution, cell: Moments) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared errors on rows that were held out, and the squares of y about its mean, (q,) each."""
        n = cell.count[0]
        total = np.maximum(cell.yy[0] - cell.sum_y[0] ** 2 / n, 0) if n else np.zeros(len(cell.yy[0]))
        return squared_errors(cell, solution.source, solution.intercepts[0]), total

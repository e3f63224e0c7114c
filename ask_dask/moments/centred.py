"""Moments in features and about their means: what every solve on moments starts from."""

from dataclasses import dataclass, replace

import numpy as np

from ask_dask.moments.sums import Moments, Side
from ask_dask.nystrom import FeatureMap


@dataclass(frozen=True)
class Role:
    """One role's features, about their mean over the rows.

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
        Distance from 1 to the next number in the precision of the blocks.
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
    def of(cls, side: Side, transform: np.ndarray, n: float, mean_y: np.ndarray) -> "Role":
        """Return the features with coefficients `transform` (m, r) of a side of moments of one cell."""
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


@dataclass(frozen=True)
class Centred:
    """The moments of one training set in the features of a Nystrom approximation, about their means.

    Attributes
    ----------
    count : float
        Rows, or the sum of their weights.
    mean_y, yy : (q,)
        Means of Y, and sums of its squares about them.
    kk : float
        Sum of k(x, x), where it was wanted.
    roles : tuple of Role
        Source and target, or one that serves both or is the only one wanted.
    maps : FeatureMap
        The features.
    """

    count: float
    mean_y: np.ndarray
    yy: np.ndarray
    kk: float
    roles: tuple[Role, ...]
    maps: FeatureMap

    @classmethod
    def of(cls, moments: Moments, maps: FeatureMap) -> "Centred":
        """Return the moments of one cell, shapes (1, ...), in the features of the landmarks that they are of."""
        n = float(moments.count[0])
        mean_y = moments.sum_y[0] / n
        coefficients = (maps.source, maps.target)[: len(moments.sides)]
        roles = (Role.of(side, T, n, mean_y) for side, T in zip(moments.sides, coefficients, strict=True))
        yy = np.maximum(moments.yy[0] - n * mean_y**2, 0)
        return cls(n, mean_y, yy, float(moments.kk[0]), tuple(roles), maps)

    def about_zero(self) -> "Centred":
        """Return the same moments about zero in place of the means."""
        n, y = self.count, self.mean_y
        roles = tuple(
            replace(
                role, mean=np.zeros_like(role.mean), gram=role.gram + n * np.outer(role.mean, role.mean),
                cross=role.cross + n * np.outer(role.mean, y),
            )
            for role in self.roles
        )  # fmt: skip
        return replace(self, mean_y=np.zeros_like(y), yy=self.yy + n * y**2, roles=roles)

    @property
    def source(self) -> Role:
        """The features of rows in the source role."""
        return self.roles[0]


def squared_errors(moments: Moments, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Return the sums (q,) over the rows of one cell of (y - f)^2, f(x) = k(x, Z) coefficients + intercepts.

    They are a quadratic form in the cell's moments, so that held-out errors need no pass over the rows.

    Parameters
    ----------
    moments : Moments
        Those of one cell, shapes (1, ...), source columns first.
    coefficients : (m, q)
    intercepts : (q,)

    Examples
    --------
    >>> from ask_dask import moments
    >>> from ask_dask.kernels import RBF
    >>> X, y, w = np.arange(6.0)[:, None], np.arange(6.0)[:, None] ** 2, np.ones((2, 1))
    >>> at = RBF(3.0).at(*2 * [X[:2]], 6)
    >>> found = moments.of_rows(X, moments.Rows(y, np.asarray, np.zeros(6, int)), at, 1)
    >>> bool(np.isclose(squared_errors(found, w, np.ones(1)), ((y - at.source(X) @ w - 1) ** 2).sum())[0])
    True
    """
    side, n = moments.sides[0], moments.count[0]
    if not n:
        return np.zeros(len(intercepts))
    S, offset, mean_y = side.frame.transform(coefficients), side.sums[0] / n, moments.sum_y[0] / n
    residual = mean_y - intercepts - coefficients.T @ side.frame.origin[: len(coefficients)] - S.T @ offset
    spread = (S * ((side.gram[0] - n * np.outer(offset, offset)) @ S)).sum(0)
    shared = (S * (side.cross[0] - n * np.outer(offset, mean_y))).sum(0)
    return np.maximum(moments.yy[0] - n * mean_y**2 - 2 * shared + spread, 0) + n * residual**2

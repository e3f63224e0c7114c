"""Singular vectors of a kernel matrix from one pass: everything N or M long is a product with landmark coefficients.

Tao, Tonin et al., Learning in Feature Spaces via Coupled Covariances (CCE), section 3. The Grams of C and R' that the
pass leaves hold the norms of the vectors of eq. (9), the exact decomposition of C W^+ R, and, where some rows and
columns beside the landmarks went along, how far these are from the singular vectors of K.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.linalg import eigh

from ask_dask.errors import InputError
from ask_dask.moments import Side
from ask_dask.nystrom.maps import FeatureMap, svd

UNSEEN = 2
"""Times the largest squared error of a sample: that of a row which the sample may lack."""


@dataclass(frozen=True)
class Gram:
    """Of one role's kernel columns over all its rows: count, sums and products, around zero.

    Attributes
    ----------
    sums : (m,) float64
    products : (m, m) float64
    """

    count: float
    sums: np.ndarray
    products: np.ndarray

    @classmethod
    def of(cls, count: float, side: Side) -> "Gram":
        """Return the Gram of moments around any origin, in a frame without pivots."""
        o, sums = side.frame.origin, side.sums[0]
        cross = np.outer(o, sums)
        return cls(count, sums + count * o, side.gram[0] + cross + cross.T + count * np.outer(o, o))

    def at(self, kept: Any) -> "Gram":
        """Of some of the columns."""
        return Gram(self.count, self.sums[kept], self.products[kept][:, kept])

    def of_features(self, coefficients: np.ndarray, center: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean (r,), or zeros, and Gram (r, r) around it of the columns times (m, r) coefficients."""
        mean = coefficients.T @ self.sums / self.count if center else np.zeros(coefficients.shape[1])
        products = coefficients.T @ self.products @ coefficients - self.count * np.outer(mean, mean)
        return mean, (products + products.T) / 2


@dataclass(frozen=True)
class SingularVectors:
    """U = C source - offsets[0] and V = R' target - offsets[1], row by row.

    Attributes
    ----------
    source : (|J|, r) float64
    target : (|I|, r) float64
    offsets : (2, r) float64
        Means over the training rows and columns where the kernel is centred, else 0.
    values : (r,) float64, descending
    left_out : int
        Features of the core that its error on the probes asked to leave out.
    """

    source: np.ndarray
    target: np.ndarray
    offsets: np.ndarray
    values: np.ndarray
    left_out: int = 0


def scaled(core: np.ndarray, C: Gram, R: Gram, n_components: int, center: bool, rcond: float) -> SingularVectors:
    """The singular vectors of W extended to all rows and columns, of unit length: CCE, eq. (9).

    Values are those of W times sqrt(N M / (n m)). Vectors are orthogonal only as far as the sample is; those of values
    so small that the Grams do not resolve them are left out.

    Parameters
    ----------
    core : (n, m) array, W = K[I, J]
    C, R : Gram
        Of K[:, J] over the N rows, of K[I, :]' over the M columns.
    center : bool
        The core is centred by its own means, the vectors by those of all rows.
    """
    n, m = core.shape
    P, s, Qt = svd(_centred(core) if center else core)
    kept = min(n_components, int((s > rcond * s[0]).sum()))
    source, target = Qt[:kept].T / s[:kept], P[:, :kept] / s[:kept]
    offsets, squares = [], []
    for coefficients, gram in ((source, C), (target, R)):
        mean, products = gram.of_features(coefficients, center)
        offsets.append(mean)
        squares.append(np.diag(products))
    # The sampled rows alone have the length 1, so that what comes out shorter is rounding.
    found = np.minimum(*squares) > 0.5
    lengths = [np.sqrt(side[found]) for side in squares]
    values = s[:kept][found] * np.sqrt(C.count * R.count / (n * m))
    offset = np.stack([mean[found] / length for mean, length in zip(offsets, lengths, strict=True)])
    return SingularVectors(source[:, found] / lengths[0], target[:, found] / lengths[1], offset, values)


def orthonormal(maps: FeatureMap, C: Gram, R: Gram, n_components: int, center: bool, rcond: float) -> SingularVectors:
    """The exact singular value decomposition of C X R, centred or not, X being the core that the maps are made of.

    With Psi_s = C source and Psi_t = R' target, A = Psi_s'Psi_s = L L', B = Psi_t'Psi_t = M M' and L'M = E S F':
    U = Psi_s L^-T E and V = Psi_t M^-T F have orthonormal columns and Psi_s Psi_t' = U S V'.

    Examples
    --------
    >>> from ask_dask.nystrom.maps import feature_map
    >>> rng = np.random.default_rng(0)
    >>> K = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 7))
    >>> C, R = K[:, :3], K[:4]
    >>> grams = [Gram(len(X), X.sum(0), X.T @ X) for X in (C, R.T)]
    >>> found = orthonormal(feature_map(K[:4, :3], 1e-12), *grams, n_components=2, center=False, rcond=1e-12)
    >>> U, V = C @ found.source, R.T @ found.target
    >>> np.allclose(U * found.values @ V.T, K), np.allclose(U.T @ U, np.eye(2))
    (True, True)
    """
    (mean_s, A), (mean_t, B) = C.of_features(maps.source, center), R.of_features(maps.target, center)
    (L, inverse_s), (M, inverse_t) = _root(A, rcond), _root(B, rcond)
    E, s, Ft = svd(L.T @ M)
    kept = min(n_components, int((s > rcond * s.max(initial=0)).sum()))
    left, right = inverse_s @ E[:, :kept], inverse_t @ Ft[:kept].T
    offsets = np.stack([left.T @ mean_s, right.T @ mean_t])
    return SingularVectors(maps.source @ left, maps.target @ right, offsets, s[:kept], maps.left_out)


def _root(gram: np.ndarray, rcond: float) -> tuple[np.ndarray, np.ndarray]:
    """L with L L' = gram on its range, and L^-T."""
    values, vectors = eigh(gram)
    kept = values > rcond * max(values[-1], 0)
    root = np.sqrt(values[kept])
    return vectors[:, kept] * root, vectors[:, kept] / root


def signed(vectors: SingularVectors, U: np.ndarray) -> SingularVectors:
    """Each pair with the sign that makes the largest entry of some rows of U positive."""
    if not U.size:
        return vectors
    sign = np.where(U[np.abs(U).argmax(0), np.arange(U.shape[1])] < 0, -1.0, 1.0)
    return replace(vectors, source=vectors.source * sign, target=vectors.target * sign, offsets=vectors.offsets * sign)


@dataclass(frozen=True)
class Error:
    """How far K V is from U S, and K'U from V S, estimated from rows and columns that are no landmarks.

    Where every row is a landmark, or every column, that side is exact.

    Attributes
    ----------
    left, right : float
        Estimates of ||K V - U S||_F / ||S||_F and ||K'U - V S||_F / ||S||_F.
    left_deviation, right_deviation : float
        Their standard errors; 0 of all rows. As few rows bear most of the error, they are wider than the spread of the
        sample says: two of them above the estimate lies the upper end, on a log scale, of an interval of two standard
        errors of the mean square, with a row of `UNSEEN` times the largest square taken for missed. On 400 problems of
        five kinds two held the true error of a side in 94 % with 40 probes and in 96 % with 100; of points of very
        different sizes, where one row may bear a third of the error, in 83 and 85 %. Where they did not, the
        estimate was too small.
    """

    left: float
    right: float
    left_deviation: float
    right_deviation: float

    @property
    def largest(self) -> float:
        """Of both sides."""
        return max(self.left, self.right)


def estimated_error(vectors: SingularVectors, core: np.ndarray, C: Gram, R: Gram, center: bool) -> Error:
    """From the Grams alone, which hold K[S, :] V for rows S that went along as further landmarks.

    Parameters
    ----------
    core : (n + p, m + q) array
        K at the landmarks, then p rows and q columns beside them, drawn uniformly.
    C, R : Gram
        Of all m + q columns and n + p rows.

    Raises
    ------
    InputError
        One row or column beside the landmarks, or none though they are not all.
    """
    v, m, n = vectors, len(vectors.source), len(vectors.target)
    first, first_column = 0 if n == C.count else n, 0 if m == R.count else m  # from 0 where all are landmarks
    of_rows = core[first:, :m] @ v.source - v.offsets[0]
    of_columns = core[:n, first_column:].T @ v.target - v.offsets[1]
    left = _side_error(R, first, v.target, v.offsets[1], of_rows * v.values, center)
    right = _side_error(C, first_column, v.source, v.offsets[0], of_columns * v.values, center)
    total = float(np.linalg.norm(v.values)) or 1.0
    (left, left_deviation), (right, right_deviation) = (
        (np.sqrt(N) * found / total, np.sqrt(N) * deviation / total)
        for N, (found, deviation) in ((C.count, left), (R.count, right))
    )
    return Error(float(left), float(right), float(left_deviation), float(right_deviation))


def _side_error(
    gram: Gram, first: int, coefficients: np.ndarray, offset: np.ndarray, expected: np.ndarray, center: bool
) -> tuple[float, float]:
    """Root mean square over rows S of |K[S, :] V - U[S] values|, and its standard error (`Error`); S are all if `first`
    is 0.

    K[S, :] V comes from the Gram of the row landmarks and the rows S, which start at `first`, over all columns.
    """
    if len(expected) < 2:
        raise InputError("An error is estimated from two or more rows and columns beside the landmarks: leave some.")
    n = len(coefficients)
    residual = gram.products[first:, :n] @ coefficients - np.outer(gram.sums[first:], offset) - expected
    if center:  # the mean over all rows is 0: here that of the sample
        residual = (residual - residual.mean(0)) * (np.sqrt(len(residual) / (len(residual) - 1)) if first else 1)
    squares = (residual**2).sum(1)
    found = np.sqrt(squares.mean())
    if not first or not found:
        return found, 0.0
    # Few rows bear most of the error: a sample may lack one larger than all it has, which its spread does not show.
    spread = squares.std(ddof=1) / np.sqrt(len(squares))
    doubt = np.hypot(spread, UNSEEN * squares.max() / len(squares)) / squares.mean()
    return found, found * np.expm1(doubt) / 2


def _centred(core: np.ndarray) -> np.ndarray:
    return core - core.mean(0) - core.mean(1)[:, None] + core.mean()

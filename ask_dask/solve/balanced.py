"""Feature maps turned so that the features of both roles have about the same, diagonal, Gram matrix.

With A0, B0 the centred Grams of psi_s, psi_t on a sample of rows, scaled to all, A0 = L L' and L'B0 L = E Sigma^2 E',

    G_s = L'^-1 E Sigma^1/2,  G_t = L E Sigma^-1/2:   G_s'A0 G_s = Sigma = G_t'B0 G_t,  G_s'G_t = I,

so that psi_s G_s and psi_t G_t have the products of psi_s and psi_t, which are the kernel's approximation, and Sigma
are its singular values on the sample. It is what balances a linear system (Laub, Heath, Paige and Ward, Computation
of system balancing transformations, 1987).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.linalg import cholesky, eigh

from ask_dask import blocks, budget
from ask_dask.kernels.base import Block, LandmarkKernel
from ask_dask.nystrom import FeatureMap

JITTER = 1e-13
"""Of the trace, added to the diagonal of a Gram before it is factorised."""


@dataclass(frozen=True)
class Balanced:
    """Balanced features C source and R' target.

    Attributes
    ----------
    maps : tuple of (m, r) arrays
        The source's and the target's; the source's alone where it is both.
    sigma : (r,) array
        About the Gram's diagonal.
    """

    maps: tuple[np.ndarray, ...]
    sigma: np.ndarray


@dataclass(frozen=True)
class Sample:
    """Rows whose Grams stand for those of all.

    Attributes
    ----------
    points : (n, d) block
    weights : (n,) array
        Which add to the weight of all rows.
    """

    points: Block
    weights: np.ndarray


def of_core(maps: FeatureMap, n_rows: float, roles: int) -> Balanced:
    """As if the landmarks were the sample: the Grams of both roles are then n_rows / m times W's singular values."""
    sizes = (maps.source**2).sum(0)  # the inverse singular values
    return Balanced((maps.source, maps.target)[:roles], n_rows / len(maps.source) / sizes)


def of_sample(maps: FeatureMap, roles: int, sample: Sample, kernel: LandmarkKernel, means: Any) -> Balanced:
    """By the Grams of a sample of rows around means (for each role (m,)) of all.

    Examples
    --------
    >>> from ask_dask.kernels import SNE
    >>> from ask_dask.nystrom import feature_map
    >>> X = np.random.default_rng(0).normal(size=(90, 2))
    >>> at = SNE().at(X[:9], X[:9], 90)
    >>> found = of_sample(feature_map(at.source(X[:9]), 1e-12), 2, Sample(X, np.ones(90)), at, [np.zeros(9)] * 2)
    >>> features = [K @ turned for K, turned in zip(at.both(X), found.maps)]
    >>> all(np.allclose(F.T @ F, np.diag(found.sigma)) for F in features)
    True
    """
    turned = [maps.source, maps.target][:roles]
    grams = _grams(turned, sample, kernel, means)
    if roles == 1:
        values, G = eigh(grams[0])
        return Balanced((turned[0] @ G,), np.maximum(values, JITTER * values[-1]))
    L = cholesky(_shifted(grams[0]))
    inner = L.T @ grams[1] @ L
    grams.clear()
    squares, E = eigh(inner)
    sigma = np.sqrt(np.maximum(squares, JITTER * squares[-1]))
    target = turned[1] @ (L @ E / np.sqrt(sigma))
    E = scipy.linalg.solve_triangular(L, E, trans=1, lower=True, overwrite_b=True, check_finite=False)
    return Balanced((turned[0] @ (E * np.sqrt(sigma)), target), sigma)


def _grams(turned: list[np.ndarray], sample: Sample, kernel: LandmarkKernel, means: Any) -> list[np.ndarray]:
    grams = [np.zeros((each.shape[1],) * 2) for each in turned]
    roots = np.sqrt(sample.weights)[:, None]
    for part in blocks.row_blocks(sample.points, budget.CACHE_ROWS):
        for each, gram, mean, K in zip(turned, grams, means, kernel.both(sample.points[part]), strict=False):
            F = (K - mean) @ each
            F *= roots[part]
            np.add(gram, F.T @ F, out=gram)
    return grams


def _shifted(gram: np.ndarray) -> np.ndarray:
    """With a diagonal that keeps the factorisation from breaking down; all of it where there is nothing else."""
    gram[np.diag_indices(len(gram))] += JITTER * np.trace(gram) or 1.0
    return gram

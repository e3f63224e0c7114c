"""Landmarks that are the rows nearest to k-means centres: real rows, spread as the data are."""

import warnings

import numpy as np
import scipy.sparse as sp

from ask_dask.errors import InputError
from ask_dask.kernels.base import Block
from ask_dask.landmarks.sampled import Seed, fill_uniformly, require_enough

WIDEST = 1024
"""Points of more columns are projected first, since centres are dense: 1000 of them with a million columns are 8 GB."""
PROJECTED = 256
"""Columns after the projection."""


def kmeans(points: Block, n_landmarks: int, random_state: Seed) -> np.ndarray:
    """Positions of the points nearest to k-means centres, those of the largest clusters first.

    Points of more than 1024 columns are first projected to 256 by a seeded sparse random projection, which keeps
    distances to about a tenth. Where fewer than n_landmarks points are distinct, or two centres have the same nearest
    point, the rest is drawn uniformly. A prefix holds the largest clusters of this choice, which is not the choice
    that k-means with fewer centres would make.

    Parameters
    ----------
    points : (n, d) ndarray or scipy.sparse CSR
        Candidates.

    Returns
    -------
    (n_landmarks,) int64, distinct

    Raises
    ------
    InputError
        Too few candidates, NaN or infinity.

    Notes
    -----
    Zhang, Tsang and Kwok, Improved Nyström low-rank approximation and error analysis, ICML 2008. scikit-learn's KMeans
    does the work: the start of dask-ml's finds fewer centres than asked for when they are a hundred, it refuses sparse
    points, and on candidates, which fit in memory, it is slower.

    Examples
    --------
    >>> points = np.array([[0.0], [0.1], [0.2], [0.9], [9.0]])
    >>> kmeans(points, 2, random_state=0)
    array([2, 4])
    """
    from sklearn.metrics import pairwise_distances_argmin

    require_enough(n_landmarks, points.shape[0])
    if not np.isfinite(points.data if sp.issparse(points) else points).all():
        raise InputError("Candidates for k-means hold NaN or infinity: impute or remove such rows.")
    rng = np.random.default_rng(random_state)
    points = _narrow(points, int(rng.integers(2**31)))
    centres, sizes = _cluster(points, n_landmarks, int(rng.integers(2**31)))
    nearest = pairwise_distances_argmin(centres[np.argsort(-sizes, kind="stable")], points)
    return fill_uniformly(_first_of_each(nearest), points.shape[0], n_landmarks, rng)


def _narrow(points: Block, seed: int) -> Block:
    if points.shape[1] <= WIDEST:
        return points.astype(np.float64)
    from sklearn.random_projection import SparseRandomProjection

    projection = SparseRandomProjection(PROJECTED, dense_output=True, random_state=seed)
    return projection.fit_transform(points.astype(np.float64))


def _cluster(points: Block, n_clusters: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres and how many points each has."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # fewer distinct points than clusters: the caller fills up
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(n_clusters, n_init=1, random_state=seed).fit(points)
    return model.cluster_centers_, np.bincount(model.labels_, minlength=n_clusters)


def _first_of_each(values: np.ndarray) -> np.ndarray:
    """Distinct values in the order in which they first appear."""
    _, first = np.unique(values, return_index=True)
    return values[np.sort(first)]

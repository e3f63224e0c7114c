"""Which rows and columns of K = k(X, Z) are kept as landmarks, chosen by seed and row number: independent of chunking.

>>> import numpy as np
>>> from ask_dask.kernels import SNE
>>> X = np.random.default_rng(0).normal(size=(300, 2))
>>> rows, columns = choose("cross", X, X, SNE(1.0), (20, 30), random_state=0)
>>> len(set(rows)), len(set(columns))
(20, 30)
"""

from ask_dask.landmarks.choose import BY_POINTS, HOWS, choose
from ask_dask.landmarks.coverage import DISCOUNT, coverage
from ask_dask.landmarks.cross import cross_approximation
from ask_dask.landmarks.greedy import greedy
from ask_dask.landmarks.kmeans import kmeans
from ask_dask.landmarks.leverage import leverage, ridge_leverage_scores
from ask_dask.landmarks.sampled import candidates, stratified, uniform

__all__ = [
    "BY_POINTS",
    "DISCOUNT",
    "HOWS",
    "candidates",
    "choose",
    "coverage",
    "cross_approximation",
    "greedy",
    "kmeans",
    "leverage",
    "ridge_leverage_scores",
    "stratified",
    "uniform",
]

"""Kernels k(x, z): small immutable objects on plain NumPy/SciPy blocks; `+`, `*` and scaling compose them.

>>> import numpy as np
>>> k = 0.5 * RBF(bandwidth=2.0) + SNE(bandwidth=1.0) * Linear()
>>> k(np.eye(3), np.eye(3)).shape
(3, 3)
>>> kernel_from_dict(k.to_dict()) == k
True
"""

from ask_dask.kernels.base import ExpNegative, Kernel, LandmarkKernel, Product, Scaled, Sum, kernel_from_dict
from ask_dask.kernels.conditional import ConditionalProbability
from ask_dask.kernels.divergence import KLDivergence, discrete_divergence, gaussian_divergence
from ask_dask.kernels.local import LocalRBF
from ask_dask.kernels.mixtures import Mixtures, fit_mixtures
from ask_dask.kernels.montecarlo import divergences
from ask_dask.kernels.normalised import SNE, StudentT
from ask_dask.kernels.numbered import DirectedGraph, Precomputed
from ask_dask.kernels.pointwise import RBF, Laplacian, Linear, Polynomial
from ask_dask.kernels.symmetrised import Symmetrised

__all__ = [
    "RBF",
    "SNE",
    "ConditionalProbability",
    "DirectedGraph",
    "ExpNegative",
    "KLDivergence",
    "Kernel",
    "LandmarkKernel",
    "Laplacian",
    "Linear",
    "LocalRBF",
    "Mixtures",
    "Polynomial",
    "Precomputed",
    "Product",
    "Scaled",
    "StudentT",
    "Sum",
    "Symmetrised",
    "discrete_divergence",
    "divergences",
    "fit_mixtures",
    "gaussian_divergence",
    "kernel_from_dict",
]

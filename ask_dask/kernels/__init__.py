"""Kernels k(x, z): small immutable objects on plain NumPy/SciPy blocks; `+`, `*` and scaling compose them.

>>> import numpy as np
>>> k = 0.5 * RBF(bandwidth=2.0) + SNE(bandwidth=1.0) * Linear()
>>> k(np.eye(3), np.eye(3)).shape
(3, 3)
>>> kernel_from_dict(k.to_dict()) == k
True
"""

from ask_dask.kernels.base import Kernel, LandmarkKernel, Product, Scaled, Sum, kernel_from_dict
from ask_dask.kernels.normalised import SNE, StudentT
from ask_dask.kernels.pointwise import RBF, Laplacian, Linear, Polynomial

__all__ = [
    "RBF",
    "SNE",
    "Kernel",
    "LandmarkKernel",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Product",
    "Scaled",
    "StudentT",
    "Sum",
    "kernel_from_dict",
]

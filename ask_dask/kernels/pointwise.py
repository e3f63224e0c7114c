"""Kernels of x and z alone, all symmetric: RBF, Laplacian, linear, polynomial."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from ask_dask.kernels.base import Block, Kernel, require_positive
from ask_dask.kernels.exponential import exp_nonpositive


@dataclass(frozen=True)
class RBF(Kernel):
    """exp(-|x - z|^2 / bandwidth^2).

    >>> RBF(bandwidth=2.0)(np.zeros((1, 1)), np.array([[2.0]])).round(4)
    array([[0.3679]])
    """

    symmetric: ClassVar[bool] = True
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, bandwidth=self.bandwidth)

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        return exp_nonpositive(negative_sqdist(X, Z, self.bandwidth**-2))


@dataclass(frozen=True)
class Laplacian(Kernel):
    """exp(-|x - z|_1 / bandwidth), with the sum of absolute differences.

    >>> Laplacian(bandwidth=2.0)(np.zeros((1, 2)), np.ones((1, 2))).round(4)
    array([[0.3679]])
    """

    symmetric: ClassVar[bool] = True
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, bandwidth=self.bandwidth)

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        distance = cdist(_dense(X), _dense(Z), "cityblock")
        return np.exp(distance / -self.bandwidth).astype(X.dtype, copy=False)


@dataclass(frozen=True)
class Linear(Kernel):
    """x'z.

    >>> Linear()(np.eye(2), np.array([[3.0, 4.0]]))
    array([[3.], [4.]])
    """

    symmetric: ClassVar[bool] = True

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        return inner(X, Z)


@dataclass(frozen=True)
class Polynomial(Kernel):
    """(scale x'z + offset)^degree.

    >>> Polynomial(degree=2)(np.eye(2), np.array([[1.0, 2.0]]))
    array([[4.], [9.]])
    """

    symmetric: ClassVar[bool] = True
    degree: int = 3
    scale: float = 1.0
    offset: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, degree=self.degree, scale=self.scale)

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        return (self.scale * inner(X, Z) + self.offset) ** self.degree


def inner(X: Block, Z: Block) -> np.ndarray:
    """X Z', dense, shape (n, m), for dense or sparse X and Z."""
    product = X @ Z.T
    return product.toarray() if sp.issparse(product) else np.asarray(product)


def negative_sqdist(X: Block, Z: Block, scale: float) -> np.ndarray:
    """-scale |x - z|^2, shape (n, m), in the dtype of X; above zero by rounding alone.

    Two more columns carry the squared norms into the matrix product, so that no pass of its own adds them; dense
    points are centred first, because the difference of large norms cancels.
    """
    if sp.issparse(X) or sp.issparse(Z):
        out = inner(X, Z)
        out *= 2
        out -= _square_norms(X)[:, None]
        out -= _square_norms(Z)
        out *= scale
    else:
        centre = Z.mean(0)
        X, Z = X - centre, Z - centre
        left = np.column_stack([X, np.ones(len(X), X.dtype), _square_norms(X)])
        right = np.column_stack([2 * Z, -_square_norms(Z), -np.ones(len(Z), Z.dtype)])
        right *= scale
        out = left @ right.T
    return out


def _square_norms(X: Block) -> np.ndarray:
    return np.asarray(X.multiply(X).sum(1)).ravel() if sp.issparse(X) else np.einsum("ij,ij->i", X, X)


def _dense(X: Block) -> Any:
    return X.toarray() if sp.issparse(X) else X

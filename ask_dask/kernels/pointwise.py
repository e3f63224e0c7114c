"""Kernels of x and z alone, all symmetric: RBF, Laplacian, linear, polynomial."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.utils.sparsefuncs import mean_variance_axis

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

    def diagonal(self, X: Block) -> np.ndarray:
        return np.ones(X.shape[0])

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        return self.to(Z)(X)

    def to(self, Z: Block) -> Callable[[Block], np.ndarray]:
        return partial(_exp_of, NegativeSqdist(Z, self.bandwidth**-2))


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

    def diagonal(self, X: Block) -> np.ndarray:
        return np.ones(X.shape[0])

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

    def diagonal(self, X: Block) -> np.ndarray:
        return _squares(X)

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

    def diagonal(self, X: Block) -> np.ndarray:
        return (self.scale * _squares(X) + self.offset) ** self.degree

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        return (self.scale * inner(X, Z) + self.offset) ** self.degree


def _squares(X: Block) -> np.ndarray:
    """Return x'x of each row, (n,) float64."""
    X = X.astype(np.float64)
    return np.asarray(X.multiply(X).sum(1)).ravel() if sp.issparse(X) else np.einsum("ij,ij->i", X, X)


def inner(X: Block, Z: Block) -> np.ndarray:
    """X Z', dense, shape (n, m), for dense or sparse X and Z."""
    product = X @ Z.T
    return product.toarray() if sp.issparse(product) else np.asarray(product)


FAR = 10.0
"""Deviations of a column's mean from zero beyond which squared norms would lose two digits of a distance or more."""


@dataclass(frozen=True)
class Shift:
    """Points less a point amid them, which leaves their distances; sparse ones stay sparse.

    Of sparse points only the columns that lie far from zero are shifted; they hold few zeros.

    Attributes
    ----------
    centre : (d,) float64
    far : (k,) column numbers, optional
        Columns of sparse points where the centre is not zero; None of dense points.

    Examples
    --------
    >>> points = sp.csr_matrix([[1e9, 0.0], [1e9 + 2, 5.0]])
    >>> Shift.of(points)(points).toarray()
    array([[ 0., -1.],
           [ 5.,  1.]])
    """

    centre: np.ndarray
    far: np.ndarray | None

    @classmethod
    def of(cls, points: Block) -> "Shift":
        """Return the shift by the mean of some points."""
        if not sp.issparse(points):
            return cls(points.mean(0, dtype=np.float64), None)
        mean, variance = mean_variance_axis(sp.csr_matrix(points).astype(np.float64), 0)
        return cls(mean, np.flatnonzero(np.abs(mean) > FAR * np.sqrt(variance)))

    def __call__(self, X: Block) -> Block:
        """Return shifted rows; of sparse ones the far columns come last."""
        if self.far is None:
            return _dense(X) - self.centre.astype(X.dtype)
        if not len(self.far):
            return sp.csr_matrix(X)
        X, near = sp.csr_matrix(X), np.setdiff1d(np.arange(X.shape[1]), self.far)
        far = X[:, self.far].toarray() - self.centre[self.far].astype(X.dtype)
        return sp.hstack([X[:, near], sp.csr_matrix(far)], format="csr")


@dataclass(frozen=True)
class NegativeSqdist:
    """-scale |x - z|^2 of blocks of rows X to points Z, less something of each: (n, m), in the dtype of X.

    Where nothing is taken off it is above zero by rounding alone.

    Two more columns carry the squared norms into the matrix product, so that no pass of its own adds them. Dense points
    are centred first, because the difference of large norms cancels; of sparse points the few columns that lie far from
    zero are taken as dense ones. What depends on Z alone is done once for all blocks.

    >>> NegativeSqdist(np.array([[2.0]]), 0.5)(np.zeros((1, 1)))
    array([[-2.]])
    """

    Z: Block
    scale: float
    less: np.ndarray | None = None
    """(m,), taken off at each point"""

    def __call__(self, X: Block) -> np.ndarray:
        if sp.issparse(X) or sp.issparse(self.Z):
            return self._of_sparse(X)
        centre, right = self._centred
        left = np.empty((len(X), len(right)), np.result_type(X, centre))
        points = np.subtract(X, centre, out=left[:, :-2])
        left[:, -2] = 1
        np.einsum("ij,ij->i", points, points, out=left[:, -1])
        return left @ right

    @cached_property
    def _centred(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean of Z, and the right factor (d + 2, m) of the product."""
        centre = self.Z.mean(0, dtype=np.float64).astype(self.Z.dtype)
        Z = self.Z - centre
        right = np.column_stack([2 * Z, -_square_norms(Z), -np.ones(len(Z), Z.dtype)])
        right *= self.scale
        if self.less is not None:
            right[:, -2] -= self.less
        return centre, np.ascontiguousarray(right.T)

    def _of_sparse(self, X: Block) -> np.ndarray:
        X = self._shift(X)
        out = inner(X, self._shifted)
        out *= 2
        out -= _square_norms(X)[:, None]
        out -= self._norms
        out *= self.scale
        if self.less is not None:
            out -= self.less
        return out

    @cached_property
    def _norms(self) -> np.ndarray:
        return _square_norms(self._shifted)

    @cached_property
    def _shift(self) -> "Shift":
        return Shift.of(sp.csr_matrix(self.Z))

    @cached_property
    def _shifted(self) -> Block:
        return self._shift(self.Z)


def _exp_of(logits: NegativeSqdist, X: Block) -> np.ndarray:
    return exp_nonpositive(logits(X))


def _square_norms(X: Block) -> np.ndarray:
    return np.asarray(X.multiply(X).sum(1)).ravel() if sp.issparse(X) else np.einsum("ij,ij->i", X, X)


def _dense(X: Block) -> Any:
    return X.toarray() if sp.issparse(X) else X

"""Kernels normalised over the data, asymmetric: SNE and Student-t.

k(x, z) = e(x, z) / D(x) with D(x) = sum of e(x, z') over the training targets z'. At landmarks D is either exact
(`normaliser="exact"`, every target, O(N M) work) or estimated from the column landmarks, (M/m) sum_j e(x, z_j).
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np

from ask_dask import compute
from ask_dask.budget import BLOCK_ROWS, CACHE_ROWS
from ask_dask.compute.compiled import compiled
from ask_dask.errors import InputError
from ask_dask.kernels.base import Block, Kernel, LandmarkKernel, require_positive
from ask_dask.kernels.exponential import exp_below_largest
from ask_dask.kernels.pointwise import NegativeSqdist

Normaliser = Literal["landmarks", "exact"]
Affinity = Callable[[Block], tuple[np.ndarray, np.ndarray]]


class _Normalised(Kernel):
    normaliser: Normaliser

    @abstractmethod
    def affinity(self, Z: Block, log_over: np.ndarray | None = None) -> Affinity:
        """X -> E (n, m) and log-scales t (n,): e(x_i, z_j) = exp(t_i) E_ij, with E of a size that float can hold.

        With `log_over` (m,) it is of e(x_i, z_j) / exp(log_over_j), neither of which a float may be able to hold.
        """

    def __post_init__(self) -> None:
        if self.normaliser not in ("landmarks", "exact"):
            raise InputError(
                f"{type(self).__name__}: normaliser is {self.normaliser!r} and must be 'landmarks' or 'exact'."
            )

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return True

    @property
    def needs_targets(self) -> bool:  # type: ignore[override]
        return self.normaliser == "exact"

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        """k(X, Z) with Z as the targets that the normaliser sums over."""
        E, _ = self.affinity(Z)(X)
        E /= E.sum(1, keepdims=True)
        return E

    def at(self, rows: Block, columns: Block, n_targets: int, targets: Block | None = None) -> LandmarkKernel:
        if self.needs_targets and targets is None:
            raise InputError(f"{type(self).__name__}(normaliser='exact') needs all training targets.")
        bound = _AtLandmarks(self, rows, columns, targets if self.needs_targets else None, n_targets)
        starts = range(0, rows.shape[0], CACHE_ROWS)
        task = compute.task(bound.log_normaliser)
        parts = compute.run([task(rows[start : start + CACHE_ROWS]) for start in starts], None, local=True)
        return replace(bound, log_normaliser_rows=np.concatenate(parts), n_rows=rows.shape[0])


@dataclass(frozen=True)
class SNE(_Normalised):
    """exp(-|x - z|^2 / bandwidth^2) / sum over the targets z' of exp(-|x - z'|^2 / bandwidth^2).

    Computed as a softmax, so that a point far from every target does not give 0/0. He et al., Learning with
    Asymmetric Kernels, section 4.3.

    >>> SNE(bandwidth=1.0)(np.array([[1e6]]), np.array([[0.0], [1.0]])).round(3)
    array([[0., 1.]])
    """

    bandwidth: float = 1.0
    normaliser: Normaliser = "landmarks"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, bandwidth=self.bandwidth)

    def affinity(self, Z: Block, log_over: np.ndarray | None = None) -> Affinity:
        return partial(_gaussian, NegativeSqdist(Z, self.bandwidth**-2, log_over))


def _gaussian(logits: NegativeSqdist, X: Block) -> tuple[np.ndarray, np.ndarray]:
    return exp_below_largest(logits(X))


@dataclass(frozen=True)
class StudentT(_Normalised):
    """(1 + |x - z|^2)^-1 / sum over the targets z' of (1 + |x - z'|^2)^-1.

    He et al., Learning with Asymmetric Kernels, section 4.3, the T kernel.

    >>> StudentT()(np.array([[0.0]]), np.array([[0.0], [1.0]])).round(4)
    array([[0.6667, 0.3333]])
    """

    normaliser: Normaliser = "landmarks"

    def affinity(self, Z: Block, log_over: np.ndarray | None = None) -> Affinity:
        return partial(_student, NegativeSqdist(Z, 1.0), one_over(log_over))


def one_over(log: np.ndarray | None) -> np.ndarray | float:
    """exp(-log), of nothing 1."""
    return 1.0 if log is None else np.exp(-log)


def _student(negative: NegativeSqdist, size: np.ndarray | float, X: Block) -> tuple[np.ndarray, np.ndarray]:
    E = negative(X)
    np.subtract(1, np.minimum(E, 0, out=E), out=E)
    return np.divide(size, E, out=E), np.zeros(len(E), E.dtype)


@compiled
def _two_roles(E: np.ndarray, source: np.ndarray, target: np.ndarray, columns: np.ndarray, C: np.ndarray) -> None:
    """C_ij = E_ij source_i, and E_ij target_i columns_j in place of E."""
    for i in range(E.shape[0]):
        for j in range(E.shape[1]):
            value = E[i, j]
            C[i, j] = value * source[i]
            E[i, j] = value * target[i] * columns[j]


@dataclass(frozen=True)
class _AtLandmarks:
    kernel: _Normalised
    rows: Block
    columns: Block
    targets: Block | None
    """All training targets for an exact normaliser, else None."""
    n_targets: int
    log_normaliser_rows: np.ndarray | None = None
    n_rows: int = 0
    n_columns: int | None = None

    def log_normaliser(self, X: Block) -> np.ndarray:
        """Return log D(x) of each row of X, (n,): the sum over all targets, or over those known in proportion."""
        summed = self.columns if self.targets is None else self.targets
        parts = []
        for start in range(0, summed.shape[0], BLOCK_ROWS):
            E, scale = self.kernel.affinity(summed[start : start + BLOCK_ROWS])(X)
            parts.append(scale + np.log(E.sum(1)))
        weight = np.asarray(np.log(self.n_targets / summed.shape[0]), parts[0].dtype)
        return np.logaddexp.reduce(parts) + weight

    @cached_property
    def _to_columns(self) -> Affinity:
        return self.kernel.affinity(self.columns)

    @cached_property
    def _to_rows(self) -> Affinity:
        """Over the normalisers of the row landmarks that are below 1: of one far from every target a float holds
        neither that nor its inverse."""
        assert self.log_normaliser_rows is not None  # set by Kernel.at
        return self.kernel.affinity(self.rows[: self.n_rows], np.minimum(self.log_normaliser_rows[: self.n_rows], 0))

    @cached_property
    def _over_others(self) -> np.ndarray:
        """1 over the normalisers above 1, (|I|,)."""
        assert self.log_normaliser_rows is not None  # set by Kernel.at
        return np.exp(-np.maximum(self.log_normaliser_rows, 0))

    def both(self, X: Block) -> tuple[np.ndarray, np.ndarray]:
        if self.rows is not self.columns:
            return self.source(X), self.target(X)
        E, scale = self._to_columns(X)  # one exponential serves both roles where I = J
        C = np.empty_like(E)
        _two_roles(E, self._over_normaliser(X, E.sum(1), scale), np.exp(scale), self._over_rows, C)
        return C[:, : self.n_columns], E[:, : self.n_rows]

    def products(self, X: Block, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """C source and R' target; not C and R' are scaled row by row but their products."""
        E, scale = self._to_columns(X)
        q, one = source.shape[1], self.rows is self.columns
        target = target * (self._over_rows if one else self._over_others)[: len(target), None]
        coefficients = np.zeros((E.shape[1], (2 if one else 1) * q + 1))
        coefficients[: len(source), :q], coefficients[:, -1] = source, 1
        if one:
            coefficients[: len(target), q:-1] = target
        found = compute.product(E, coefficients)
        f_source = found[:, :q] * self._over_normaliser(X, found[:, -1], scale)[:, None]
        if one:
            return f_source, found[:, q:-1] * np.exp(scale)[:, None]
        E, scale = self._to_rows(X)
        return f_source, compute.product(E, target) * np.exp(scale)[:, None]

    def source(self, X: Block) -> np.ndarray:
        E, scale = self._to_columns(X)
        over = self._over_normaliser(X, E.sum(1), scale)
        E = E[:, : self.n_columns]
        E *= over[:, None]
        return E

    def _over_normaliser(self, X: Block, sums: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """What E, of these sums of rows, is multiplied by, row by row, to be k(X, columns), shape (n,)."""
        if self.targets is None:
            return self.columns.shape[0] / (self.n_targets * sums)
        return np.exp(scale - self.log_normaliser(X))

    def target(self, X: Block) -> np.ndarray:
        E, scale = self._to_rows(X)
        E *= np.exp(scale)[:, None]
        E *= self._over_others[: self.n_rows]
        return E

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        assert self.log_normaliser_rows is not None  # set by Kernel.at
        E, scale = self.kernel.affinity(self.columns[columns])(self.rows[rows])
        E *= np.exp(scale - self.log_normaliser_rows[rows])[:, None]
        return E

    @cached_property
    def _over_rows(self) -> np.ndarray:
        """1 / D(x_i) of the row landmarks, shape (|I|,)."""
        assert self.log_normaliser_rows is not None  # set by Kernel.at
        return np.exp(-self.log_normaliser_rows)

    def prefix(self, n: int, m: int | None = None) -> "_AtLandmarks":
        return replace(self, n_rows=min(n, self.rows.shape[0]), n_columns=m or n)

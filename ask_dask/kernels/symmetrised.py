"""What is left of an asymmetric kernel once it is made symmetric: the baselines that show what asymmetry buys."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ask_dask.errors import InputError
from ask_dask.kernels.base import Block, Kernel, LandmarkKernel

How = Literal["mean", "K'K", "KK'"]
HOWS = ("mean", "K'K", "KK'")


@dataclass(frozen=True)
class Symmetrised(Kernel):
    """(K + K') / 2, K'K or KK' of an asymmetric kernel: symmetric, so that AsK-LS becomes the LS-SVM and f_s = f_t.

    In K'K and KK' the sum runs over the training points; at landmarks it is estimated from them, times N / n.

    Parameters
    ----------
    kernel : Kernel
    how : {"mean", "K'K", "KK'"}

    Examples
    --------
    >>> from ask_dask.kernels import Precomputed
    >>> K = np.array([[1.0, 0.5], [0.0, 1.0]])
    >>> X = np.arange(2)[:, None]
    >>> [Symmetrised(Precomputed(K), how)(X, X).tolist() for how in ("mean", "K'K")]
    [[[1.0, 0.25], [0.25, 1.0]], [[1.0, 0.5], [0.5, 1.25]]]
    """

    kernel: Kernel
    how: How = "mean"
    symmetric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            raise InputError(f"Symmetrised: how={self.how!r} must be one of {', '.join(HOWS)}.")

    @property
    def needs_targets(self) -> bool:  # type: ignore[override]
        return self.kernel.needs_targets

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return self.how != "mean" or self.kernel.relative

    @property
    def shape(self) -> tuple[int, int] | None:  # type: ignore[override]
        return self.kernel.shape

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        """k(X, Z), with Z as the points that sums run over."""
        return self.at(Z, Z, Z.shape[0], Z).source(X)

    def at(self, rows: Block, columns: Block, n_targets: int, targets: Block | None = None) -> LandmarkKernel:
        if rows is not columns:
            raise InputError("A symmetrised kernel has one set of landmarks: give one, not a pair.")
        inner = self.kernel.at(rows, rows, n_targets, targets)
        if self.how == "mean":
            return _Mean(inner)
        everything = slice(0, rows.shape[0])
        return _Product(inner, self.how == "K'K", inner.tile(everything, everything), n_targets / rows.shape[0])


class _OneSide(ABC):
    """Both roles are one, so that a subclass says k(X, Z_J) only and one Gram matrix serves both."""

    @abstractmethod
    def source(self, X: Block) -> np.ndarray:
        """k(X, Z_J)"""

    def target(self, X: Block) -> np.ndarray:
        return self.source(X)

    def both(self, X: Block) -> tuple[np.ndarray, np.ndarray]:
        C = self.source(X)
        return C, C


@dataclass(frozen=True)
class _Mean(_OneSide):
    inner: LandmarkKernel

    def source(self, X: Block) -> np.ndarray:
        C, R = self.inner.both(X)
        return (C + R) / 2

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        return (self.inner.tile(rows, columns) + self.inner.tile(columns, rows).T) / 2

    @property
    def sparse(self) -> Any:
        """The core matrix where it is sparse, else None."""
        found = getattr(self.inner, "sparse", None)
        return None if found is None else (found + found.T) / 2

    def prefix(self, n: int, m: int | None = None) -> "_Mean":
        return _Mean(self.inner.prefix(n))


@dataclass(frozen=True)
class _Product(_OneSide):
    """sum over landmarks w of k(w, x) k(w, z), or of k(x, w) k(z, w), times a weight."""

    inner: LandmarkKernel
    target_side: bool
    core: np.ndarray
    weight: float
    n: int | None = None

    def source(self, X: Block) -> np.ndarray:
        if self.target_side:
            return self.inner.target(X) @ (self.weight * self.core[:, : self.n])
        return self.inner.source(X) @ (self.weight * self.core[: self.n].T)

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        core: Any = self.core if self.target_side else self.core.T
        return self.weight * core[:, rows].T @ core[:, columns]

    def prefix(self, n: int, m: int | None = None) -> "_Product":
        return replace(self, n=n)

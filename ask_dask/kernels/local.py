"""An RBF whose width belongs to the target: asymmetric, narrow where data are dense and wide where they are thin."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ask_dask.errors import InputError
from ask_dask.kernels.base import Block, Kernel, LandmarkKernel, require_positive
from ask_dask.kernels.divergence import float_type
from ask_dask.kernels.exponential import exp_nonpositive
from ask_dask.kernels.pointwise import NegativeSqdist, Shift


@dataclass(frozen=True, eq=False)
class LocalRBF(Kernel):
    """k(x, z) = exp(-|x - z|^2 / h(z)^2), with h(z) = scale times the width of the anchor nearest to z.

    The asymmetric form is that of the locally adaptive bandwidths (LAB RBF) of F. He, M. He, Shi, Huang and Suykens,
    Enhancing Kernel Flexibility via Learning Asymmetric Locally-Adaptive Kernels (arXiv 2310.05236), who learn a width
    for each feature of each training point; here a point has one width, taken from its neighbours or given.

    Parameters
    ----------
    neighbours : int
        An anchor's width is the distance to its nearest distinct anchor of this rank (the last, where there are fewer;
        1 where there is none).
    scale : float
    anchors : (M, d) block, optional
        Points that have a width. By default the column landmarks, all of them whatever the prefix; in k(X, Z), Z.
    bandwidths : (M,) array, optional
        Widths of the anchors, instead of those from neighbours.

    Raises
    ------
    InputError
        A parameter that is not what it must be; bandwidths without anchors, or not one above 0 for each.

    Examples
    --------
    >>> Z = np.array([[0.0], [1.0], [3.0]])
    >>> LocalRBF(neighbours=1)(Z, Z).round(3)
    array([[1.   , 0.368, 0.105],
           [0.368, 1.   , 0.368],
           [0.   , 0.018, 1.   ]])
    """

    neighbours: int = 10
    scale: float = 1.0
    anchors: Any = field(default=None, repr=False)
    bandwidths: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_positive(self, neighbours=self.neighbours, scale=self.scale)
        if self.neighbours != int(self.neighbours):
            raise InputError(f"LocalRBF: neighbours is {self.neighbours} and must be a whole number.")
        if self.anchors is None and self.bandwidths is not None:
            raise InputError("LocalRBF: bandwidths were given without anchors: give the points that have these widths.")
        if self.anchors is not None:
            object.__setattr__(self, "anchors", _check_points(self.anchors))
        if self.bandwidths is not None:
            object.__setattr__(self, "bandwidths", _check_widths(self.bandwidths, self.anchors.shape[0]))

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return self.anchors is None

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        bound = self.bound(Z)
        return _local_rbf(X, Z, bound.scale * (bound.bandwidths if bound.anchors is Z else bound._nearest(Z)))

    def at(self, rows: Block, columns: Block, n_targets: int, targets: Block | None = None) -> LandmarkKernel:
        bound = self.bound(columns)
        widths = bound.bandwidths if bound.anchors is columns else bound._nearest(columns)
        return _AtLandmarks(bound, rows, columns, widths)

    def bound(self, anchors: Block) -> "LocalRBF":
        """The same kernel with every width known; these are the anchors where it has none of its own."""
        if self.bandwidths is not None:
            return self
        if self.anchors is not None:
            return replace(self, bandwidths=neighbour_distances(self.anchors, int(self.neighbours)))
        widths = neighbour_distances(anchors, int(self.neighbours))
        bound = replace(self, anchors=anchors, bandwidths=widths)
        object.__setattr__(bound, "anchors", anchors)  # the very object, so that anchors and landmarks can be compared
        return bound

    def _nearest(self, Z: Block) -> np.ndarray:
        """The width of the anchor nearest to each row, (n,) float64."""
        from sklearn.metrics import pairwise_distances_argmin

        shift = Shift.of(self.anchors)
        return self.bandwidths[pairwise_distances_argmin(shift(_float64(Z)), shift(_float64(self.anchors)))]


@dataclass(frozen=True)
class _AtLandmarks:
    kernel: LocalRBF
    rows: Block
    columns: Block
    widths: np.ndarray
    """Widths of the column landmarks, before the scale."""

    def both(self, X: Block) -> tuple[np.ndarray, np.ndarray]:
        return self.source(X), self.target(X)

    def source(self, X: Block) -> np.ndarray:
        return _local_rbf(X, self.columns, self.kernel.scale * self.widths)

    def target(self, X: Block) -> np.ndarray:
        return _local_rbf(self.rows, X, self.kernel.scale * self.kernel._nearest(X)).T

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        return _local_rbf(self.rows[rows], self.columns[columns], self.kernel.scale * self.widths[columns])

    def prefix(self, n: int, m: int | None = None) -> "_AtLandmarks":
        rows, m = self.rows[:n], m or n
        columns = rows if self.rows is self.columns and m == n else self.columns[:m]
        return replace(self, rows=rows, columns=columns, widths=self.widths[:m])


def neighbour_distances(points: Block, neighbours: int) -> np.ndarray:
    """The distance of each point to its nearest distinct point of this rank: (n,) float64, above 0.

    Equal points count once. Where fewer are distinct the farthest is taken, and 1 where all are equal.

    >>> neighbour_distances(np.array([[0.0], [0.0], [1.0], [3.0]]), 2)
    array([3., 3., 2., 3.])
    """
    from sklearn.neighbors import NearestNeighbors

    first, group = _distinct(points)
    if len(first) == 1:
        return np.ones(points.shape[0])
    distinct = _float64(points[first])
    finder = NearestNeighbors(n_neighbors=min(neighbours, len(first) - 1)).fit(Shift.of(distinct)(distinct))
    found = finder.kneighbors()[0][:, -1]  # of the points fitted, each without itself
    if not found.all():  # distinct points whose distance rounds to zero
        found[found == 0] = found[found > 0].min(initial=1.0)
    return found[group]


def _distinct(points: Block) -> tuple[np.ndarray, np.ndarray]:
    """Where each distinct row is first, and for each row the number of its distinct one."""
    if sp.issparse(points):
        points = sp.csr_array(points, copy=True)
        points.sum_duplicates()
        points.eliminate_zeros()
        bounds = zip(points.indptr[:-1], points.indptr[1:], strict=True)
        rows = [points.indices[a:b].tobytes() + points.data[a:b].tobytes() for a, b in bounds]
    else:
        rows = [row.tobytes() for row in np.ascontiguousarray(points) + 0.0]  # so that -0.0 is 0.0
    _, first, group = np.unique(np.array(rows, object), return_index=True, return_inverse=True)
    return first, group


def _local_rbf(X: Block, Z: Block, widths: np.ndarray) -> np.ndarray:
    """exp(-|x - z_j|^2 / widths_j^2): (n, m) in the dtype of X.

    Distances are float64: beside a width that is small against the spread of the data, those of float32 are noise.
    """
    out = NegativeSqdist(_float64(Z), 1.0)(_float64(X))
    with np.errstate(over="ignore", divide="ignore"):
        out *= np.minimum(np.square(1 / widths), np.finfo(np.float64).max)
    return exp_nonpositive(out.astype(float_type(X), copy=False))


def _float64(X: Block) -> Any:
    return X.astype(np.float64, copy=False)


def _check_points(anchors: Any) -> Block:
    anchors = sp.csr_matrix(anchors) if sp.issparse(anchors) else np.asarray(anchors, np.float64)
    if anchors.ndim != 2 or 0 in anchors.shape:
        raise InputError(f"LocalRBF: anchors have shape {anchors.shape} and must be points, one a row.")
    if not np.isfinite(anchors.data if sp.issparse(anchors) else anchors).all():
        raise InputError("LocalRBF: anchors hold NaN or infinity: give finite points.")
    return anchors


def _check_widths(bandwidths: Any, n_anchors: int) -> np.ndarray:
    widths = np.asarray(bandwidths, np.float64)
    if widths.shape != (n_anchors,):
        raise InputError(
            f"LocalRBF: bandwidths have shape {widths.shape} and must be one for each of {n_anchors} anchors."
        )
    wrong = np.flatnonzero(~((widths > 0) & (widths < np.inf)))
    if len(wrong):
        raise InputError(f"LocalRBF: bandwidth {wrong[0]} is {widths[wrong[0]]} and must be a finite number above 0.")
    return widths

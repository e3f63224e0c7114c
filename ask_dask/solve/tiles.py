"""K c and K'a of a whole kernel matrix that is never held: each tile is evaluated once and used for both.

A matrix that is sparse, as a graph's, is kept as it is instead.
"""

import numpy as np

from ask_dask import compute
from ask_dask.kernels.base import LandmarkKernel

TILE = 512
"""Rows and columns of one tile: 2 MiB of float64, which stays in a core's cache."""

BANDS = 64
"""Most bands of rows, each a task. They depend on the rows alone, as then do the sums over them, to the last bit,
whichever workers come and go."""


class Tiles:
    """The kernel over all training points, a tile at a time.

    Parameters
    ----------
    kernel : LandmarkKernel
        With every training point as row and column landmark.
    n_rows, n_columns : int
        The second one by default the first.

    Attributes
    ----------
    evaluations : int
        How often the whole matrix was evaluated.

    Examples
    --------
    >>> from ask_dask.kernels import SNE
    >>> X = np.random.default_rng(0).normal(size=(700, 2))
    >>> c, a = X[:, :1], X[:, 1:]
    >>> Kc, Ka = Tiles(SNE().at(X, X, len(X)), len(X)).products(c, a)
    >>> np.allclose(Kc, SNE()(X, X) @ c), np.allclose(Ka, SNE()(X, X).T @ a)
    (True, True)
    """

    def __init__(self, kernel: LandmarkKernel, n_rows: int, n_columns: int | None = None) -> None:
        self.kernel, self.shape, self.evaluations = compute.Shared(kernel), (n_rows, n_columns or n_rows), 0
        self.sparse = getattr(kernel, "sparse", None)

    def products(self, c: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """K c (N, k) and K'a (M, l) of c (M, k) and a (N, l), in float64; a task walks a band of rows."""
        self.evaluations += 1
        if self.sparse is not None:
            return self.sparse @ c, self.sparse.T @ a
        bands = slices(self.shape[0], max(TILE, -(-self.shape[0] // BANDS)))
        sources, total = [], np.zeros((self.shape[1], a.shape[1]))
        for some in slices(len(bands), 2 * compute.workers()):  # so few, since each has a sum as long as the total
            for source, target in self.kernel.run(_band, [(rows, c, a[rows]) for rows in bands[some]]):
                sources.append(source)
                total += target
        return np.concatenate(sources), total

    def matrix(self) -> np.ndarray:
        """The whole matrix, (N, M) float64, for a size that memory allows."""
        bands = slices(self.shape[0], TILE)
        return np.concatenate(self.kernel.run(_rows, [(rows, self.shape[1]) for rows in bands]))


def slices(n: int, size: int) -> list[slice]:
    """0..n in slices of a size.

    >>> slices(5, 3)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _band(kernel: LandmarkKernel, band: slice, c: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    source, target = np.zeros((len(a), c.shape[1])), np.zeros((len(c), a.shape[1]))
    with compute.one_blas_thread():
        for inside in slices(len(a), TILE):
            rows = slice(band.start + inside.start, band.start + inside.stop)
            for columns in slices(len(c), TILE):
                tile = kernel.tile(rows, columns).astype(np.float64, copy=False)
                source[inside] += tile @ c[columns]
                target[columns] += tile.T @ a[inside]
    return source, target


def _rows(kernel: LandmarkKernel, rows: slice, n_columns: int) -> np.ndarray:
    return np.hstack([kernel.tile(rows, columns) for columns in slices(n_columns, 8 * TILE)]).astype(
        np.float64, copy=False
    )

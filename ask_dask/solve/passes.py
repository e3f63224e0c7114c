"""Products with C = K[:, J] and R' = K[I, :]' of all rows, a shard at a time: nothing of N x m is ever held.

Roles are numbered: 0 is the source's, with blocks of C, and 1 the target's, with blocks of R'. Where one serves both
there is role 0 alone. A training set is told by the fold that it leaves out, -1 for none.

Kernel entries are of the rows' own precision, products and sums are float64: the operator that iterations see is then
symmetric to rounding, whatever the order of its sums.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ask_dask import blocks, budget, compute
from ask_dask.kernels.base import Block, LandmarkKernel
from ask_dask.moments import Rows


class Passes:
    """The rows of a fit, read again by every product.

    Parameters
    ----------
    X : numpy, scipy.sparse, dask or zarr, (N, d)
    rows : Rows
    kernel : LandmarkKernel
    n_folds : int
    sizes : sequence of int
        Kernel columns of each role.

    Attributes
    ----------
    done : int
        Passes over the rows so far.

    Examples
    --------
    >>> from ask_dask.kernels import SNE
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> rows = Rows(X[:, :1], np.asarray, np.arange(50) % 5)
    >>> at, c = SNE().at(X[:8], X[:8], 50), np.ones((8, 1))
    >>> (source, target), _ = Passes(X, rows, at, 5, (8, 8)).grams([c, c], [np.zeros(1)] * 2, np.array([2]))
    >>> C = at.source(X[rows.folds != 2])
    >>> np.allclose(source, C.T @ (C @ c))
    True
    """

    def __init__(self, X: Any, rows: Rows, kernel: LandmarkKernel, n_folds: int, sizes: Sequence[int]) -> None:
        self.X, self.rows, self.n_folds, self.sizes, self.done = X, rows, max(1, n_folds), tuple(sizes), 0
        self.kernel = compute.shared(kernel)

    def moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return for each fold the sums of weights, Y, squares of Y, and [1, Y] times each kernel column.

        Returns
        -------
        count (F,), sum_y (F, q), yy (F, q), and for each role (F, m, 1 + q)

        Raises
        ------
        InputError
            X holds a NaN or infinity: names the row and column.
        """
        task = compute.task(_moments)
        found = self._sum("sums", [task(s.block, self.rows[s.start : s.stop], self.kernel, self.sizes, self.n_folds,
                                        s.start) for s in blocks.shards(self.X)])  # fmt: skip
        *columns, own, squares = (part.reshape(len(part), self.n_folds, -1).swapaxes(0, 1) for part in found)
        return own[:, 0, 0], own[:, 0, 1:], squares[:, 0, 1:], columns

    def grams(
        self, coefficients: Sequence[np.ndarray], offsets: Sequence[np.ndarray], left_out: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """K' D (K c - offset) and 1' D (K c - offset) of each role's kernel columns K; D are a training set's weights.

        Parameters
        ----------
        coefficients : for each role (m, k)
        offsets : for each role (k,)
        left_out : (k,) fold that each column's training set leaves out, -1 for none

        Returns
        -------
        for each role (m, k), for each role (k,)
        """
        task, given = (
            compute.task(_grams),
            compute.shared((coefficients, offsets, left_out)),
        )
        found = self._sum(None, [task(s.block, self.rows.folds[s.start : s.stop], self._weights(s), self.kernel, given)
                                 for s in blocks.shards(self.X)])  # fmt: skip
        return found[: self._roles], [total[0] for total in found[self._roles :]]

    @property
    def _roles(self) -> int:
        return len(self.sizes)

    def _weights(self, shard: blocks.Shard) -> np.ndarray | None:
        return None if self.rows.weights is None else self.rows.weights[shard.start : shard.stop]

    def _sum(self, label: str | None, parts: Sequence[Any]) -> list[np.ndarray]:
        """What the tasks give, added and cut: the kernel columns of each role, and rows of their own."""
        self.done += 1
        whole = compute.run_sum(parts, label)
        ends = np.cumsum([*self.sizes, *[1] * (len(whole) - sum(self.sizes))])
        return np.split(whole, ends[:-1])


def _moments(
    X: Block, rows: Rows, kernel: LandmarkKernel, sizes: Sequence[int], n_folds: int, first_row: int
) -> np.ndarray:
    blocks.require_finite(X, first_row)
    q = rows[:1].Y.shape[1]
    found = np.zeros((sum(sizes) + 2, n_folds * (1 + q)))
    with compute.one_blas_thread():
        for part in blocks.row_blocks(X, budget.cache_rows(max(sizes))):
            D = _in_folds(rows[part], n_folds)
            squares = D * np.tile(_with_ones(rows[part].Y), n_folds)
            found += np.vstack([*(K.T @ D for K in _columns(kernel, X[part], len(sizes))), D.sum(0), squares.sum(0)])
    return found


def _in_folds(rows: Rows, n_folds: int) -> np.ndarray:
    """(n, F (1 + q)): the weight times [1, y] at the fold of a row, else 0."""
    Y = _with_ones(rows.Y)
    Y = Y if rows.weights is None else rows.weights[:, None] * Y
    return ((rows.folds[:, None] == np.arange(n_folds))[:, :, None] * Y[:, None]).reshape(len(Y), -1)


def _with_ones(Y: np.ndarray) -> np.ndarray:
    return np.hstack([np.ones((len(Y), 1)), Y])


def _grams(X: Block, folds: np.ndarray, weights: np.ndarray | None, kernel: LandmarkKernel, given: Any) -> np.ndarray:
    coefficients, offsets, left_out = given
    found, totals = [np.zeros_like(c) for c in coefficients], np.zeros((len(coefficients), len(left_out)))
    with compute.one_blas_thread():
        for part in blocks.row_blocks(X, budget.cache_rows(max(map(len, coefficients)))):
            weight = folds[part, None] != left_out
            weight = weight if weights is None else weight * weights[part, None]
            for role, K in enumerate(_columns(kernel, X[part], len(coefficients))):
                Z = K @ coefficients[role]
                Z -= offsets[role]
                Z *= weight
                found[role] += K.T @ Z
                totals[role] += Z.sum(0)
    return np.vstack([*found, totals])


def _columns(kernel: LandmarkKernel, X: Block, roles: int) -> list[np.ndarray]:
    """Each role's kernel columns of some rows, float64."""
    return [K.astype(np.float64, copy=False) for K in kernel.both(X)[:roles]]

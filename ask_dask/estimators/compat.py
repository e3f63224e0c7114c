"""The compatibility of the rows and columns of a data matrix, which live in different spaces.

Tao, Tonin et al., Learning in Feature Spaces via Coupled Covariances, section 2: with a compatibility matrix, rows x
(M numbers) and columns z (N numbers) of A can be arguments of one kernel.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import dask
import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import svd_flip

from ask_dask import blocks, budget, compute
from ask_dask.errors import InputError
from ask_dask.estimators.inputs import is_lazy
from ask_dask.kernels.base import Block

HOWS = ("pinv", "pca", "random")

WIDEST = 1 << 20
"""Numbers of a row, or columns of a matrix, that are projected at a time."""


class Compatibility(Protocol):
    """Rows and columns of a data matrix as points of one space."""

    def of_rows(self, rows: Block) -> Block:
        """(n, M) -> (n, d)"""

    def of_columns(self, columns: Block) -> Block:
        """(n, N), a column of the data matrix in each row -> (n, d)"""


@dataclass(frozen=True)
class Linear:
    """A matrix for each role; None leaves that role as it is."""

    rows: np.ndarray | None = None
    columns: np.ndarray | None = None

    def of_rows(self, rows: Block) -> Block:
        return rows if self.rows is None else rows @ self.rows

    def of_columns(self, columns: Block) -> Block:
        return columns if self.columns is None else columns @ self.columns


@dataclass(frozen=True)
class Sketch:
    """A seeded sparse projection of each role to d numbers, made anew wherever it is needed.

    Row i of the projection has `entries` random signs at random places, which depend on i and the seed alone: nothing
    as large as the data matrix exists, and how it is cut into blocks does not matter.
    """

    d: int
    seed: int
    entries: int = 4

    def of_rows(self, rows: Block) -> np.ndarray:
        return self._applied(rows, 0)

    def of_columns(self, columns: Block) -> np.ndarray:
        return self._applied(columns, 1)

    def part_of_columns(self, rows: Block, first_row: int, kept: slice = slice(None)) -> np.ndarray:
        """What some rows of the data matrix add to the projection of its columns, or of those kept, (M, d) float64."""
        return _array(rows[:, kept].T @ self.projection(1, first_row, rows.shape[0]))

    def projection(self, role: int, first: int, n: int) -> sp.csr_array:
        """Rows first .. first + n of a role's projection, (n, d) float64; places that agree add up."""
        index = np.arange(first, first + n, dtype=np.uint64)[:, None]
        word = _scrambled(index * np.uint64(self.entries) + np.arange(self.entries, dtype=np.uint64))
        word = _scrambled(word ^ _scrambled(np.array(2 * self.seed + role, np.uint64)))
        signs = np.where(word >> np.uint64(63), 1.0, -1.0) / np.sqrt(self.entries)
        places, ends = (word % np.uint64(self.d)).astype(np.int32), np.arange(n + 1) * self.entries
        return sp.csr_array((signs.ravel(), places.ravel(), ends), shape=(n, self.d))

    def _applied(self, block: Block, role: int) -> np.ndarray:
        """A few rows at a time: the result is the only array as long as the block that is not sparse."""
        n, width = block.shape
        found = np.zeros((n, self.d), block.dtype)
        for start in range(0, width, WIDEST):
            part = block[:, start : start + WIDEST] if width > WIDEST else block
            projection = self.projection(role, start, part.shape[1])
            for rows in blocks.row_blocks(part, budget.BLOCK_ROWS):
                found[rows] += _array(part[rows] @ projection)
        return found


def _array(found: Any) -> np.ndarray:
    return found.toarray() if sp.issparse(found) else np.asarray(found)


def _scrambled(words: np.ndarray) -> np.ndarray:
    """64-bit words mixed as by splitmix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators)."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def compatible(A: Any, how: str | None, d: int | None, seed: int) -> tuple[Any, Any, Compatibility]:
    """Rows and columns of a data matrix as points of one space, and how new ones become so.

    Parameters
    ----------
    A : (N, M) numpy, scipy.sparse, dask or zarr
        Out of memory only with how="random" and a dimension.
    how : {None, "pinv", "pca", "random"}
        None takes them as they are, which needs N = M; "pinv" brings columns to rows by A^+; "pca" the larger role to
        its principal axes, not centred, as many as the other has numbers.
    d : int, optional
        Dimension that "random" brings both roles to; None brings the larger to the smaller one's, by a dense matrix.
    """
    n, m = A.shape
    if how not in (None, *HOWS):
        raise InputError(f"compat={how!r} must be None, {', '.join(map(repr, HOWS))} or 'learned'.")
    if how is None and n != m:
        raise InputError(
            f"The data matrix is {n} x {m}, so its rows and columns have {m} and {n} numbers: set compat to "
            f"{', '.join(map(repr, HOWS))}, or give two sets, X and Z."
        )
    if how == "random" and d is not None:
        sketch = Sketch(d, seed)
        return sketched(A, sketch)
    if is_lazy(A):
        raise InputError("Of a data matrix that is not in memory the rows and columns meet only in random projections: "
                         "set compat='random' and compat_dim.")  # fmt: skip
    found = _linear(A, how, seed)
    return found.of_rows(A), found.of_columns(A.T.tocsr() if sp.issparse(A) else np.ascontiguousarray(A.T)), found


def _linear(A: Any, how: str | None, seed: int) -> Linear:
    n, m = A.shape
    if how is None:
        return Linear()
    if how == "pinv":
        return Linear(columns=np.linalg.pinv(_dense(A)).T)
    d = min(n, m)
    if how == "random":
        matrix = np.random.default_rng(seed).standard_normal((max(n, m), d)) / np.sqrt(d)
    else:
        large = _dense(A) if m >= n else _dense(A).T
        matrix = svd_flip(*np.linalg.svd(large, full_matrices=False)[::2], u_based_decision=False)[1][:d].T
    matrix = matrix.astype(A.dtype, copy=False)
    if n == m:
        return Linear(rows=matrix)
    return Linear(rows=matrix) if m > n else Linear(columns=matrix)


def _dense(A: Any) -> np.ndarray:
    return A.toarray() if sp.issparse(A) else np.asarray(A)


def sketched(A: Any, sketch: Sketch) -> tuple[Any, np.ndarray, Sketch]:
    """Rows as they are read; columns in memory, some at a time where there are many, each time in a pass over A."""
    X = blocks.map_rows(A, sketch.of_rows, sketch.d, "rows projected")
    n_columns, step = A.shape[1], 2 * budget.shard_rows(8 * sketch.d)
    Z = np.empty((n_columns, sketch.d), X.dtype)
    task = dask.delayed(sketch.part_of_columns, pure=False)
    for start in range(0, n_columns, step):
        kept = slice(start, min(start + step, n_columns))
        parts = [task(shard.block, shard.start, kept) for shard in blocks.shards(A)]
        Z[kept] = compute.run_sum(parts, f"columns projected, {kept.stop:,} of {n_columns:,}")
    return X, Z, sketch

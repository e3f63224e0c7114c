"""Seeded sparse projections of the rows and columns of a data matrix, made anew wherever they are needed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ask_dask import blocks, budget
from ask_dask.compute.compiled import compiled
from ask_dask.kernels.base import Block

_U = np.uint64


@compiled
def _scrambled(word: Any) -> Any:
    """A 64-bit word mixed as by splitmix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators)."""
    word = word + _U(0x9E3779B97F4A7C15)
    word = (word ^ (word >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> _U(27))) * _U(0x94D049BB133111EB)
    return word ^ (word >> _U(31))


@compiled
def _add(out: Any, number: int, value: float, key: Any, entries: int) -> None:
    """Add to `out` (d,) a value times row `number` of a projection."""
    for k in range(entries):
        word = _scrambled(_scrambled(_U(number) * _U(entries) + _U(k)) ^ key)
        out[word % _U(len(out))] += value if word >> _U(63) else -value


@compiled
def _add_rows(data: Any, indices: Any, indptr: Any, key: Any, entries: int, scale: float, out: Any) -> None:
    """Projections of rows, (n, d): each is the sum of its entries times those of their columns."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            _add(out[i], indices[e], data[e] * scale, key, entries)


@compiled
def _add_columns(
    data: Any, indices: Any, indptr: Any, first: int, key: Any, entries: int, scale: float, out: Any
) -> None:
    """What rows first, first + 1, .. add to the projections of the columns, (M, d)."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            _add(out[indices[e]], first + i, data[e] * scale, key, entries)


@dataclass(frozen=True)
class Sketch:
    """A seeded sparse projection of each role to d numbers, made anew wherever it is needed.

    Row i of the projection has `entries` random signs at random places, which depend on i and the seed alone: nothing
    as large as the data matrix exists, and how it is cut into blocks does not matter. Of sparse rows only the signs of
    their entries are made.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(5, 30))
    >>> sketch = Sketch(8, seed=0)
    >>> np.allclose(sketch.of_rows(sp.csr_matrix(rows)), rows @ sketch.projection(0, 0, 30))
    True
    """

    d: int
    seed: int
    entries: int = 4

    def of_rows(self, rows: Block) -> np.ndarray:
        """(n, M) -> (n, d)"""
        return self._applied(rows, 0)

    def of_columns(self, columns: Block) -> np.ndarray:
        """(n, N), a column of the data matrix in each row -> (n, d)"""
        return self._applied(columns, 1)

    def part_of_columns(self, rows: np.ndarray, first_row: int) -> np.ndarray:
        """What some rows of the data matrix add to the projection of all its columns, (M, d) float64."""
        return np.asarray(rows.T @ self.projection(1, first_row, rows.shape[0]))

    def add_columns(self, rows: sp.csr_matrix, first_row: int, out: np.ndarray) -> None:
        """Add the same of sparse rows to `out` (M, d), entry by entry in their order, however they are cut."""
        _add_columns(rows.data, rows.indices, rows.indptr, first_row, *self._recipe(1), out)

    def projection(self, role: int, first: int, n: int) -> np.ndarray:
        """Rows first .. first + n of a role's projection, (n, d) float64."""
        found = np.zeros((n, self.d))
        number, ends = np.arange(first, first + n), np.arange(n + 1)
        _add_rows(np.ones(n), number, ends, *self._recipe(role), found)
        return found

    def _recipe(self, role: int) -> tuple[Any, int, float]:
        key = _scrambled(_U(2 * self.seed + role))
        return _U(key), self.entries, 1 / np.sqrt(self.entries)

    def _applied(self, block: Block, role: int) -> np.ndarray:
        if not sp.issparse(block):
            return self._applied_to_dense(block, role)
        rows, found = block.tocsr(), np.empty((block.shape[0], self.d), block.dtype)
        for part in blocks.row_blocks(rows, budget.BLOCK_ROWS):  # float64 inside: a sum of few, in cache
            taken, sums = rows[part], np.zeros((part.stop - part.start, self.d))
            _add_rows(taken.data, taken.indices, taken.indptr, *self._recipe(role), sums)
            found[part] = sums
        return found

    def _applied_to_dense(self, block: np.ndarray, role: int) -> np.ndarray:
        width, step = block.shape[1], max(1, (1 << 22) // self.d)
        parts = (
            block[:, start : start + step] @ self.projection(role, start, min(step, width - start))
            for start in range(0, width, step)
        )
        return np.asarray(sum(parts)).astype(block.dtype, copy=False)

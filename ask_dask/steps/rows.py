"""Rows that a kernel cannot take, found before any work and named as they are in the store."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import zarr

from ask_dask import blocks, compute, store
from ask_dask.errors import InputError
from ask_dask.kernels import ConditionalProbability, Kernel, KLDivergence
from ask_dask.kernels.base import Block
from ask_dask.kernels.divergence import SMALLEST_VARIANCE
from ask_dask.sparse import rows_of


@dataclass(frozen=True)
class _Rule:
    """Columns from `first` on hold `least` or more, and where `filled` no row holds only zeros."""

    says: str
    first: int = 0
    least: float = 0.0
    filled: bool = False


def require_rows(kernel: Kernel | None, data: zarr.Group) -> None:
    """Raise InputError for the first row of a dataset store with a value that its kernel does not take.

    Weights below 0 or a row of zeros, of distributions; counts below 0; variances that are not above 0. Kernels refuse
    these too, but know only the rows of a block.
    """
    X = rows_of(data)
    rule = _rule(kernel, X.shape[1])
    if rule is None:
        return
    task = compute.task(_first_wrong)
    tasks = [task(shard.block, shard.start, rule) for shard in blocks.shards(X)]
    wrong = next((place for place in compute.run(tasks, "check of rows", rows=X.shape[0]) if place), None)
    if wrong:
        row, column, value = wrong
        names = store.about(data).get("feature_names") or range(X.shape[1])
        held = "only zeros" if column is None else f"{value:g} in column {names[column]!r}"
        raise InputError(
            f"{store.place(data)}, row {row} holds {held}, and this kernel takes {rule.says}: correct or remove such "
            "rows, and ingest again."
        )


def _rule(kernel: Kernel | None, n_columns: int) -> _Rule | None:
    inner = getattr(kernel, "kernel", kernel)  # of a symmetrised one
    if isinstance(inner, ConditionalProbability):
        return _Rule("counts of 0 or more")
    if not isinstance(inner, KLDivergence):
        return None
    if inner.family == "discrete":
        return _Rule("distributions, weights of 0 or more that are not all 0", filled=True)
    return _Rule("means, then as many variances above 0", (n_columns + 1) // 2, SMALLEST_VARIANCE)


def _first_wrong(block: Block, start: int, rule: _Rule) -> tuple[int, int | None, float] | None:
    """Row, column and value of the first one; no column where the row holds only zeros."""
    below = _along_rows(block[:, rule.first :].min(axis=1)) < rule.least
    empty = _along_rows(abs(block).max(axis=1)) == 0 if rule.filled else np.full(len(below), False)
    rows = np.flatnonzero(below | empty)
    if not len(rows):
        return None
    row = int(rows[0])
    if empty[row]:
        return start + row, None, 0.0
    column = rule.first + int(np.argmax(_along_rows(block[[row]])[rule.first :] < rule.least))
    return start + row, column, float(block[row, column])


def _along_rows(values: Block) -> np.ndarray:
    """One number a row, or the numbers of one row, as (n,)."""
    return np.ravel(values.toarray() if sp.issparse(values) else values)

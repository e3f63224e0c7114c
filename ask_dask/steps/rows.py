"""Rows that a kernel cannot take, found before any work and named as they are in the store."""

from dataclasses import dataclass

import dask
import numpy as np
import zarr

from ask_dask import blocks, compute, store
from ask_dask.errors import InputError
from ask_dask.kernels import ConditionalProbability, Kernel, KLDivergence
from ask_dask.kernels.divergence import SMALLEST_VARIANCE


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
    X = store.array(data, "X")
    rule = _rule(kernel, X.shape[1])
    if rule is None:
        return
    task = dask.delayed(_first_wrong, pure=False)
    tasks = [task(shard.block, shard.start, rule) for shard in blocks.shards(X)]
    wrong = next((place for place in compute.run(tasks, "check of rows") if place), None)
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


def _first_wrong(block: np.ndarray, start: int, rule: _Rule) -> tuple[int, int | None, float] | None:
    """Row, column and value of the first one; no column where the row holds only zeros."""
    below = block[:, rule.first :] < rule.least
    empty = np.asarray(~block.any(1)) if rule.filled else np.full(len(block), False)
    rows = np.flatnonzero(below.any(1) | empty)
    if not len(rows):
        return None
    row = int(rows[0])
    column = None if empty[row] else rule.first + int(below[row].argmax())
    return start + row, column, 0.0 if column is None else float(block[row, column])

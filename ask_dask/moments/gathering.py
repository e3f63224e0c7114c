"""The pass over an input that gathers moments, a task a shard, kept in a checkpoint while it goes on."""

import math
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from ask_dask import blocks, budget, compute
from ask_dask.kernels.base import Block, Columns
from ask_dask.moments.frame import PIVOTS
from ask_dask.moments.rows import Diagonal, Rows, frames_of, of_shards
from ask_dask.moments.sums import Moments
from ask_dask.store import Checkpoint, Parts


def gather(
    X: Any,
    rows: Rows,
    n_folds: int,
    kernel: Columns,
    typical: Block,
    checkpoint: Checkpoint | None = None,
    per_row: int | None = None,
    pivots: int = PIVOTS,
    diagonal: Diagonal | None = None,
) -> Moments:
    """Return the moments of an input after one pass, the same bits whatever the workers.

    A task sums neighbouring shards, in pairs as `compute.run_sum` adds the sums of the tasks.

    Parameters
    ----------
    X : numpy, scipy.sparse, dask or zarr, (N, d)
    typical : (s, d) block
        A few rows like those of X, from which the frames of the sums come.
    checkpoint : Checkpoint, optional
        The known part of the sum is written there now and then, with the moments that each worker has computed beside
        it. An interrupted pass goes on from there, in the frames that it began with.
    per_row : as in `blocks.shards`
    pivots : int
        Most pivots of a frame; 0 where the Grams of the columns themselves are wanted.
    diagonal : as in `moments.of_shards`

    Raises
    ------
    InputError
        X holds a NaN or infinity: names the row and column.
    """
    height = blocks.height(X, per_row, n_folds * budget.GRAM_ROWS)
    known, together = _load(checkpoint, height) if checkpoint else ({}, None)
    together, shards = together or _together(X, height), blocks.shards(X, height)
    shares = [shards[first : first + together] for first in range(0, len(shards), together)]
    cut = {"height": height, "together": together, "total": len(shares)}
    keep = _Kept(checkpoint.parts, cut) if checkpoint and checkpoint.parts else None

    def told(known: compute.Sums) -> None:
        if checkpoint:
            parts = [number for start, (stop, _) in known.items() for number in range(start, stop)]
            checkpoint.offer(lambda: _arrays(known), parts=parts, **_facts(known, cut))

    begun = next(iter(known.values()), None)
    frames = frames_of(kernel, typical, pivots) if begun is None else tuple(side.frame for side in begun[1].sides)
    shared = compute.shared((kernel, frames, diagonal, keep))
    task = compute.task(_kept_part)
    parts = [
        task(number, [s.block for s in share], rows[share[0].start : share[-1].stop], shared, n_folds, share[0].start)
        for number, share in enumerate(shares)
    ]
    with checkpoint.kept() if checkpoint else nullcontext():
        return compute.run_sum(parts, "moments", known=known, told=told, rows=X.shape[0])


def _together(X: Any, height: int) -> int:
    """Return how many shards of so many rows a task takes: all workers end at about the same time, with few sums."""
    n, workers = math.ceil(X.shape[0] / height), compute.workers()
    choices = [1 << i for i in range(compute.PAIRED.bit_length()) if height << i <= max(height, blocks.most_rows(X))]
    return min(reversed(choices), key=lambda together: math.ceil(math.ceil(n / together) / workers) * together)


@dataclass(frozen=True)
class _Kept:
    """The folder where a worker keeps the moments of its tasks, and how the rows are cut into tasks."""

    parts: Parts
    cut: dict[str, int]


def _kept_part(
    number: int, X: list[Block], rows: Rows, shared: tuple[Any, ...], n_folds: int, first_row: int
) -> Moments:
    """Return the moments of the shards of one task, after keeping them where this runs."""
    kernel, frames, diagonal, keep = shared
    started = time.monotonic()
    found = _of_shards(X, rows, (kernel, frames, diagonal), n_folds, first_row)
    if keep:
        seconds, known = time.monotonic() - started, {number: (number + 1, found)}
        keep.parts.keep(number, lambda: _arrays(known), seconds, **_facts(known, keep.cut))
    return found


def _arrays(known: compute.Sums) -> dict[str, np.ndarray]:
    """Return the arrays that a checkpoint keeps of each sum."""
    return {f"sum_{start}": moments.vector() for start, (_, moments) in known.items()}


def _facts(known: compute.Sums, cut: dict[str, int]) -> dict[str, Any]:
    """Return the attributes of a checkpoint: the shards of each sum, how rows are cut, sizes, and the progress."""
    shards = [(start, stop) for start, (stop, _) in known.items()]
    sizes = next(moments.sizes for _, moments in known.values())
    done = sum(stop - start for start, stop in shards)
    return {"step": "moments", "done": done, "unit": "shards", "sizes": sizes, "shards": shards, **cut}


def _load(checkpoint: Checkpoint, height: int) -> tuple[compute.Sums, int | None]:
    """Return the sums of a checkpoint and of its parts, and the shards of a task; none without any."""
    sums: compute.Sums = {}
    together, frames = None, None
    for found, facts in checkpoint.with_parts(compute.workers()):
        together = together or facts["together"]
        if (facts["height"], facts["together"]) != (height, together):  # of a job before, whose worker was late
            continue
        for start, stop in facts["shards"]:
            part = Moments.of_vector(found[f"sum_{start}"], facts["sizes"])
            frames = frames or [side.frame for side in part.sides]
            known = any(first <= start < last for first, (last, _) in sums.items())  # the checkpoint has it by now
            if not known and frames == [side.frame for side in part.sides]:
                sums[start] = stop, part
    return sums, together


def _of_shards(X: list[Block], rows: Rows, shared: tuple[Any, ...], n_folds: int, first_row: int) -> Moments:
    kernel, frames, diagonal = shared
    for block in X:
        blocks.require_finite(block, first_row)
        first_row += block.shape[0]
    return of_shards(X, rows, kernel, n_folds, frames, diagonal)

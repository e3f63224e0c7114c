"""The pass over an input that gathers moments, a task a shard, kept in a checkpoint while it goes on."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np

from ask_dask import blocks, compute
from ask_dask.kernels.base import Block, Columns
from ask_dask.moments.frame import PIVOTS
from ask_dask.moments.rows import Rows, frames_of, of_rows
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
) -> Moments:
    """Return the moments of an input after one pass, a task a shard, partial sums added in the order of the shards.

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

    Raises
    ------
    InputError
        X holds a NaN or infinity: names the row and column.
    """
    known, height = _load(checkpoint) if checkpoint else ({}, None)
    shards = blocks.shards(X, height, per_row)  # as they were cut, which may depend on the number of workers

    keep = _Kept(checkpoint.parts, shards[0].stop, len(shards)) if checkpoint and checkpoint.parts else None

    def told(known: compute.Sums) -> None:
        if checkpoint:
            parts = [number for start, (stop, _) in known.items() for number in range(start, stop)]
            checkpoint.offer(lambda: _arrays(known), parts=parts, **_facts(known, shards[0].stop, len(shards)))

    begun = next(iter(known.values()), None)
    frames = frames_of(kernel, typical, pivots) if begun is None else tuple(side.frame for side in begun[1].sides)
    shared = dask.delayed((kernel, frames, keep), traverse=False, pure=False)
    task = dask.delayed(_kept_part, pure=False, traverse=False)
    parts = [task(i, s.block, rows[s.start : s.stop], shared, n_folds, s.start) for i, s in enumerate(shards)]
    with checkpoint.kept() if checkpoint else nullcontext():
        return compute.run_sum(parts, "moments", known=known, told=told, rows=X.shape[0])


@dataclass(frozen=True)
class _Kept:
    """The folder where a worker keeps the moments of its shards, the rows of a shard, and the number of shards."""

    parts: Parts
    height: int
    total: int


def _kept_part(number: int, X: Block, rows: Rows, shared: tuple[Any, ...], n_folds: int, first_row: int) -> Moments:
    """Return the moments of one shard, after keeping them where this runs."""
    kernel, frames, keep = shared
    started = time.monotonic()
    found = _of_shard(X, rows, (kernel, frames), n_folds, first_row)
    if keep:
        seconds, known = time.monotonic() - started, {number: (number + 1, found)}
        keep.parts.keep(number, lambda: _arrays(known), seconds, **_facts(known, keep.height, keep.total))
    return found


def _arrays(known: compute.Sums) -> dict[str, np.ndarray]:
    """Return the arrays that a checkpoint keeps of each sum."""
    return {f"sum_{start}": moments.vector() for start, (_, moments) in known.items()}


def _facts(known: compute.Sums, height: int, total: int) -> dict[str, Any]:
    """Return the attributes of a checkpoint: the shards of each sum, rows of a shard, sizes, and the progress."""
    shards = [(start, stop) for start, (stop, _) in known.items()]
    sizes = next(moments.sizes for _, moments in known.values())
    done = sum(stop - start for start, stop in shards)
    return {"step": "moments", "done": done, "total": total, "unit": "shards", "height": height, "sizes": sizes,
            "shards": shards}  # fmt: skip


def _load(checkpoint: Checkpoint) -> tuple[compute.Sums, int | None]:
    """Return the sums of a checkpoint and of its parts, and the rows of a shard; none without any."""
    sums: compute.Sums = {}
    height, frames = None, None
    for found, facts in checkpoint.with_parts(compute.workers()):
        height = height or facts["height"]
        if facts["height"] != height:  # of a job before, whose worker was late
            continue
        for start, stop in facts["shards"]:
            part = Moments.of_vector(found[f"sum_{start}"], facts["sizes"])
            frames = frames or [side.frame for side in part.sides]
            known = any(first <= start < last for first, (last, _) in sums.items())  # the checkpoint has it by now
            if not known and frames == [side.frame for side in part.sides]:
                sums[start] = stop, part
    return sums, height


def _of_shard(X: Block, rows: Rows, shared: tuple[Any, Any], n_folds: int, first_row: int) -> Moments:
    kernel, frames = shared
    blocks.require_finite(X, first_row)
    return of_rows(X, rows, kernel, n_folds, frames)

"""Predictions of a dataset store, streamed to zarr a shard at a time."""

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from ask_dask import blocks, budget, compute, store
from ask_dask.sparse import SparseRows, read, row_bytes, rows_of
from ask_dask.steps.kernel import OF_NUMBERS

if TYPE_CHECKING:
    from ask_dask.estimators.fitted import LandmarkEstimator

SHARDS = 16
"""Of a predictions store at least, where the data have as many chunks: so many workers have as much to do each."""

DONE = "done"
"""The array of finished shards, while there are others."""


def write_predictions(
    model: "LandmarkEstimator", data: zarr.Group, group: zarr.Group, memory: int | None = None
) -> str:
    """Predict every row of a dataset store into a predictions store, one task per shard; its fingerprint.

    In a group that an interrupted prediction has left (`store.create(..., work=...)`) only the other shards are made.

    Arrays: the model's own, (N, k) float32, of which AsK-LS has f_source, f_target and score (N, q), and probability
    (N, n_classes) unless values are regressed; row_id (N,), the ids of the data, the numbers of nodes or items, or of
    rows; and file, line, y and weight where the data have them.

    Raises
    ------
    BudgetError
        Prediction takes more than `memory` bytes; names the number of workers that fits.
    """
    X, widths = rows_of(data), model.output_widths
    n = X.shape[0]
    plan = partial(
        budget.predict_plan,
        shard=min(n, store.rows_of_shard(X, SHARDS)),
        row_bytes=row_bytes(X),
        n_landmarks=model.basis_.row_points.shape[0],
        n_columns=sum(widths.values()),
    )
    budget.check(plan, compute.workers(), memory or compute.machine_memory(), "workers")
    numbered = store.about(data).get("format") in OF_NUMBERS
    ids = store.array(data, "id") if "id" in data else X if numbered else None
    copied = {name: store.array(data, name) for name in ("file", "line", "y", "weight") if name in data}
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {name: ((n, width), np.float32) for name, width in widths.items()}
    shapes["row_id"] = ((n,), np.int64 if ids is None else ids.dtype)
    shapes |= {name: (found.shape, found.dtype) for name, found in copied.items()}
    out, done = _arrays(group, shapes, X)
    left, task = _unfinished(out, done), compute.task(_predict_shard)
    shared = compute.shared((model, out, done, copied, ids))
    rows = min(n, len(left) * _height(out))
    compute.run([task(shared, X, shard) for shard in left], "predict", rows=rows)
    found = store.read(done)
    del group[DONE]
    return store.fingerprint(*found)


def _arrays(
    group: zarr.Group, shapes: dict[str, tuple[tuple[int, ...], Any]], X: Any
) -> tuple[dict[str, zarr.Array], zarr.Array]:
    """The arrays, and the fingerprints of finished shards: those of an interrupted prediction where all are sound."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        out, done = {name: store.array(group, name) for name in shapes}, store.array(group, DONE)
        if store.read(done).any():
            return out, done
    out = store.create_aligned(group, shapes, like=X, least=SHARDS)
    return out, store.create_marks(group, DONE, -(-X.shape[0] // _height(out)))


def _height(out: dict[str, zarr.Array]) -> int:
    return out["row_id"].shards[0]  # type: ignore[index]


def _unfinished(out: dict[str, zarr.Array], done: zarr.Array) -> list[int]:
    """Shards without a mark, and those whose files are not what was marked: a machine may have gone down."""
    marks = store.read(done)
    task, marked = compute.task(_as_marked), np.flatnonzero(marks != "")
    sound = compute.run([task(out, int(shard), marks[shard]) for shard in marked], None)
    return sorted(set(range(len(marks))) - {int(shard) for shard, same in zip(marked, sound, strict=True) if same})


def _as_marked(out: dict[str, zarr.Array], shard: int, mark: str) -> bool:
    rows = shard * _height(out), (shard + 1) * _height(out)
    with suppress(OSError, ValueError):
        return store.fingerprint(*(store.read(out[name], *rows) for name in sorted(out))) == mark
    return False


def _predict_shard(shared: tuple[Any, ...], X: zarr.Array | SparseRows, shard: int) -> None:
    model, out, done, copied, ids = shared
    start, stop = shard * _height(out), min((shard + 1) * _height(out), X.shape[0])
    block = read(X, start, stop)
    blocks.require_finite(block, start)
    values = model.block_outputs(block)
    values["row_id"] = np.arange(start, stop) if ids is None else store.read(ids, start, stop).ravel()
    values |= {name: store.read(found, start, stop) for name, found in copied.items()}
    for name, value in values.items():
        out[name][start:stop] = value
    done[shard] = store.fingerprint(*(np.asarray(values[name], out[name].dtype) for name in sorted(values)))

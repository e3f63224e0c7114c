"""Predictions of a dataset store, streamed to zarr a shard at a time."""

from functools import partial
from typing import Any

import dask
import numpy as np
import zarr

from ask_dask import blocks, budget, compute, store
from ask_dask.estimators.base import AsKLS
from ask_dask.sparse import SparseRows, read, row_bytes, rows_of
from ask_dask.steps.kernel import OF_NUMBERS

SHARDS = 16
"""Of a predictions store at least, where the data have as many chunks: so many workers have as much to do each."""


def write_predictions(model: AsKLS, data: zarr.Group, group: zarr.Group, memory: int | None = None) -> str:
    """Predict every row of a dataset store into a predictions store, one task per shard; its fingerprint.

    Arrays: f_source, f_target and score (N, q), probability (N, n_classes) unless values are regressed, float32; row_id
    (N,), the ids of the data, the numbers of nodes or items, or of rows, and file, line and y where the data have them.

    Raises
    ------
    BudgetError
        Prediction takes more than `memory` bytes; names the number of workers that fits.
    """
    X = rows_of(data)
    n, q = X.shape[0], model.n_outputs_
    n_classes = 0 if model.task_ == "regression" else len(model.classes_)
    plan = partial(
        budget.predict_plan,
        shard=min(n, (X.shards or X.chunks)[0]),
        row_bytes=row_bytes(X),
        n_landmarks=model.placed_.row_points.shape[0],
        n_outputs=q,
        n_classes=n_classes,
    )
    budget.check(plan, compute.workers(), memory or compute.machine_memory(), "workers")
    numbered = store.about(data).get("format") in OF_NUMBERS
    ids = store.array(data, "id") if "id" in data else X if numbered else None
    copied = {name: store.array(data, name) for name in ("file", "line", "y") if name in data}
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        name: ((n, q), np.float32) for name in ("f_source", "f_target", "score")
    }
    if n_classes:
        shapes["probability"] = ((n, n_classes), np.float32)
    shapes["row_id"] = ((n,), np.int64 if ids is None else ids.dtype)
    shapes |= {name: (found.shape, found.dtype) for name, found in copied.items()}
    out = store.create_aligned(group, shapes, like=X, least=SHARDS)
    task = dask.delayed(_predict_shard, pure=False)
    shared = dask.delayed((model, out, copied, ids), traverse=False, pure=False)
    height = out["score"].shards[0]  # type: ignore[index]
    bounds = [(start, min(start + height, n)) for start in range(0, n, height)]
    return store.fingerprint(*compute.run([task(shared, X, start, stop) for start, stop in bounds], "predict", rows=n))


def _predict_shard(shared: tuple[Any, ...], X: zarr.Array | SparseRows, start: int, stop: int) -> str:
    model, out, copied, ids = shared
    block = read(X, start, stop)
    blocks.require_finite(block, start)
    f = model.block_discriminants(block)
    q = f.shape[1] // 2
    values = {"f_source": f[:, :q], "f_target": f[:, q:], "score": model.merged_(f)}
    if "probability" in out:
        values["probability"] = model.merger_.probability(f)
    values["row_id"] = np.arange(start, stop) if ids is None else store.read(ids, start, stop).ravel()
    values |= {name: store.read(found, start, stop) for name, found in copied.items()}
    for name, value in values.items():
        out[name][start:stop] = value
    return store.fingerprint(*(np.asarray(values[name], out[name].dtype) for name in sorted(values)))

"""What is wrong with a store, and how far a job is that writes one."""

from pathlib import Path
from typing import Any

import dask
import zarr

from ask_dask import compute, store
from ask_dask.errors import InputError, StoreError


def verify(path: Path) -> dict[str, Any]:
    """Read every chunk of a store: {"path", "arrays", "bytes", "problems"}, the last a list of sentences.

    What stops a store from being opened is the only problem that is then told; damaged chunks are all told, each by
    array and rows.
    """
    facts: dict[str, Any] = {"path": str(store.located(path)), "arrays": 0, "bytes": 0, "problems": []}
    try:
        arrays = [found for _, found in store.open_store(path).members(max_depth=None) if isinstance(found, zarr.Array)]
    except StoreError as error:
        return facts | {"problems": [str(error)]}
    task = dask.delayed(_problem, pure=False, traverse=False)
    tasks = [task(array, *bounds) for array in arrays for bounds in _parts(array)]
    found = [problem for problem in compute.run(tasks, "verify", "parts") if problem]
    return facts | {"arrays": len(arrays), "bytes": store.stored_bytes(path), "problems": found}


def status(path: Path) -> dict[str, Any]:
    """How far the job is that writes a store: `store.state`.

    Raises
    ------
    InputError
        There is no store, and no job that writes or wrote one.
    """
    found = store.state(path)
    if found["state"] == "nothing":
        raise InputError(f"There is no store at {path}, and no job that writes one: check the path.")
    return found


def _parts(array: zarr.Array) -> list[tuple[int, int]]:
    """Rows of each chunk or shard, the unit that can be damaged by itself."""
    if not array.ndim:
        return [(0, 1)]
    height = (array.shards or array.chunks)[0]
    return [(start, min(start + height, array.shape[0])) for start in range(0, array.shape[0], height)]


def _problem(array: zarr.Array, start: int, stop: int) -> str | None:
    try:
        store.read(array, start, stop)
    except StoreError as error:
        return str(error)
    return None

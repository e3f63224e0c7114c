"""What is wrong with a store, and how far a job is that writes one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zarr

from ask_dask import compute, store
from ask_dask.errors import InputError, StoreError


def verify(path: Path) -> dict[str, Any]:
    """Read every chunk of a store: {"path", "arrays", "bytes", "problems"}, the last a list of sentences.

    Files that are missing, cut short or changed are all told, and damaged chunks each by array and rows. What stops a
    store from being opened at all is the only problem that is then told. Two chunks of one size that changed places are
    not told: a checksum does not say whose it is.
    """
    facts: dict[str, Any] = {"path": str(store.located(path)), "arrays": 0, "bytes": 0, "problems": []}
    try:
        arrays, told = store.look_over(path)
    except StoreError as error:
        return facts | {"problems": [str(error)]}
    task = compute.task(_problem)
    tasks = [task(array, *bounds) for array in arrays for file, bounds in _parts(array) if file not in told]
    found = [problem for problem in compute.run(tasks, "verify", "parts") if problem]
    return facts | {"arrays": len(arrays), "bytes": store.stored_bytes(path), "problems": [*told.values(), *found]}


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


def _parts(array: zarr.Array) -> Iterator[tuple[str, tuple[int, int]]]:
    """The file and the rows of each chunk or shard, the unit that can be damaged by itself: each is of whole rows."""
    rows, height = (array.shape[0], (array.shards or array.chunks)[0]) if array.ndim else (1, 1)
    for number, start in enumerate(range(0, rows, height)):
        key = array.metadata.encode_chunk_key((number, *[0] * array.ndim)[: array.ndim])
        yield f"{array.path}/{key}", (start, min(start + height, rows))


def _problem(array: zarr.Array, start: int, stop: int) -> str | None:
    try:
        store.read(array, start, stop)
    except StoreError as error:
        return str(error)
    return None

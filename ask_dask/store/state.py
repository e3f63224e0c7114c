"""How far a store is: complete, being written by a job, or left by one that was stopped and can go on."""

import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from filelock import FileLock, Timeout

from ask_dask.errors import StoreError
from ask_dask.store.arrays import array, read
from ask_dask.store.attributes import about
from ask_dask.store.checkpoint import parts_of
from ask_dask.store.leases import holder
from ask_dask.store.opening import open_store, stored_bytes
from ask_dask.store.paths import data_place
from ask_dask.store.places import VERSION, Place, Url, contents, located, zarr_store
from ask_dask.store.publish import PARTIAL, work_of, worked


def checkpoint_of(path: Path) -> Path:
    """Where the checkpoint of a fit is whose model goes to this path."""
    return path.with_name(f".{path.name}.checkpoint")


def state(path: str | os.PathLike) -> dict[str, Any]:
    """What is known of a store and of the job that writes it.

    Returns
    -------
    dict
        state : "complete", "running", "stopped" or "nothing"
        goes_on : whether the same command goes on where a stopped one was, or starts again
        made : when the complete store was made, if there is one
        last_sign : when a stopped job that held a lease on object storage was alive last, by its own clock
        written : {"bytes", "parts", "parts_planned"} of what a job is writing, or left; of what goes on also "seconds"
            of work so far and, once a twentieth is there, "seconds_left" at the rate so far
        checkpoint : {"step", "done", "total", "unit", "written", "seconds", "seconds_left"}, if there is one

    Raises
    ------
    StoreError
        What is there is damaged, or no store.
    """
    path = located(path)
    held, kept, parts = _held(path), _checkpoint(checkpoint_of(path)), _written(path)
    found: dict[str, Any] = {"path": str(path)}
    if path.exists():
        of = about(open_store(path))
        found |= {"schema": of["schema"], "made": of["made_by"]["time"]}
    running, left = held and held["alive"], held or kept or parts
    word = "running" if running else "stopped" if left else "complete" if path.exists() else "nothing"
    found |= {"last_sign": held["last_sign"]} if held and held.get("last_sign") and not running else {}
    found |= {"state": word} | ({"checkpoint": kept} if kept else {}) | ({"written": parts} if parts else {})
    return found | {
        "goes_on": bool(kept and "damaged" not in kept) or (isinstance(path, Path) and work_of(path).is_dir())
    }


def _held(path: Place) -> dict[str, Any] | None:
    """The job that holds the place, as `leases.holder` tells it; the lock of one that was killed is there and free."""
    if isinstance(path, Url):
        return holder(path)
    file = path.with_name(f".{path.name}.lock")
    if not file.exists():
        return None
    lock = FileLock(file, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return {"alive": True}
    except OSError:  # where nothing can be written no job writes
        return None
    lock.release()
    return None


def _checkpoint(path: Path) -> dict[str, Any] | None:
    """How far a fit was, and what the rest costs at the rate so far."""
    try:
        groups = [open_store(place, "checkpoint") for place in [path, *parts_of(path)] if place.exists()]
    except StoreError as error:
        return {"damaged": str(error)}
    if not groups:
        return None
    facts = max(map(about, groups), key=lambda facts: facts.get("seconds", 0))
    found: dict[str, Any] = {"written": facts["made_by"]["time"]}
    found |= {key: facts[key] for key in ("step", "done", "total", "unit", "seconds") if key in facts}
    if "residuals" in groups[0]:
        residuals = read(array(groups[0], "residuals"))
        found |= {"step": "minres", "done": len(residuals), "unit": "iterations", "residual": float(residuals[-1])}
        found |= _left(facts["seconds"], -np.log(residuals[-1]), -np.log(facts["tol"])) if "tol" in facts else {}
    if "shards" in facts:
        found["done"] = len({n for group in groups for bounds in about(group)["shards"] for n in range(*bounds)})
    return found | (_left(found["seconds"], found["done"], found["total"]) if "total" in found else {})


def _left(seconds: float, done: float, total: float) -> dict[str, float]:
    """What the rest takes where each part takes as long; of MINRES parts are digits that the residual loses."""
    return {"seconds_left": round(seconds / done * max(0, total - done), 1)} if done > 0 else {}


def _written(path: Place) -> dict[str, Any] | None:
    """How much of the store that a job writes is there; chunks of zeros are never written."""
    found: dict[str, Any] = {"bytes": 0, "parts": 0, "parts_planned": 0}
    places = _unfinished(path)
    for place in places:
        with suppress(Exception):  # it is being made or removed, or was damaged in whatever way
            found["bytes"] += stored_bytes(place)
            for one in _arrays(place):
                found["parts"] += min(one.nchunks_initialized, one.nchunks)
                found["parts_planned"] += one.nchunks
    if isinstance(path, Path):
        with suppress(Exception):  # none, or that of samples, which says no time
            work = work_of(path)
            seconds = worked(zarr.open_group(work, mode="r", zarr_format=3), work)
            found["seconds"] = round(seconds, 1)
            if found["parts"] > found["parts_planned"] / 20:  # of fewer the start is most of the time
                found |= _left(seconds, found["parts"], found["parts_planned"])
    return found if places else None


def _unfinished(path: Place) -> list[Place]:
    """Where jobs write what will be this store, or have left it."""
    if isinstance(path, Path):
        return [*path.parent.glob(f".{path.name}{PARTIAL}*"), *filter(Path.is_dir, [work_of(path)])]
    current = data_place(path).name
    return [path / name for name in contents(path) if VERSION.fullmatch(name) and name != current]


def _arrays(place: Place) -> list[zarr.Array]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of files that are being written
        members = zarr.open_group(zarr_store(place, read_only=True), mode="r", zarr_format=3).members(max_depth=None)
        return [member for _, member in members if isinstance(member, zarr.Array)]

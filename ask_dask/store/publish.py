"""Writing a store: under a temporary name, by one job at a time, renamed when whole; on object storage see `remote`."""

import errno
import os
import platform
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import zarr
from filelock import FileLock, Timeout

from ask_dask.errors import Stopped, StoreError
from ask_dask.store import listing, remote
from ask_dask.store.attributes import VERSIONS, about, describe
from ask_dask.store.paths import refuse_existing
from ask_dask.store.places import Url, files, last_written, located, remove, zarr_store
from ask_dask.store.signals import undisturbed

PARTIAL, OLD, WORK = ".partial-", ".old-", ".work"
FULL = (errno.ENOSPC, errno.EDQUOT)
OUTSIDE = (*FULL, errno.EROFS)
"""Why a disk may refuse what it took before, through no fault of the work that is there."""


@contextmanager
def create(
    path: str | os.PathLike, schema: str, overwrite: bool = False, work: str | None = None
) -> Iterator[zarr.Group]:
    """A new store, open for writing; published whole when the block ends, removed when it raises.

    Parameters
    ----------
    path : path or URL
        Where the store will be. With `overwrite` it replaces a store of the same schema, and never anything else.
    schema : {"dataset", "model", "embedding", "predictions", "checkpoint"}
    work : str, optional
        Fingerprint of all that decides what is written: when the block is cut off from outside, or for want of room,
        what is there stays in a folder `.NAME.work` beside the path, and the next block of the same work finds it. Not
        on object storage.

    Yields
    ------
    zarr.Group
        Set `describe(group, ...)` and write arrays with `create_array` or `write_array`.

    Raises
    ------
    StoreError
        Something is there that may not be replaced, another job writes it, or the place cannot be written.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from ask_dask.store import open_store, write_array
    >>> path = tempfile.mkdtemp() + "/p.zarr"
    >>> with create(path, "predictions") as group:
    ...     _ = write_array(group, "score", np.arange(3.0))
    >>> open_store(path, "predictions")["score"][:]
    array([0., 1., 2.])
    """
    path, begun = located(path), {"schema": schema, "version": VERSIONS[schema], "made_by": _made_by()}
    if isinstance(path, Url):
        with remote.create(path, schema, overwrite, begun) as group:
            yield group
        return
    refuse_existing(path, overwrite, schema)
    with _writable(path), _alone(path):
        _tidy(path)
        partial, old = work_of(path) if work else _beside(path, PARTIAL), _beside(path, OLD)
        tries, kept = 1, False
        try:
            group = _begun(partial, work)
            describe(group, **begun)
            yield group
            _sweep(partial)
            listing.close(group, partial)
            _publish(partial, path, old, overwrite)
            if work_of(path).is_dir():  # of what was to be here before
                _discard(work_of(path))
        except BaseException as error:
            kept = bool(work) and _from_outside(error)
            tries = 4 if isinstance(error, KeyboardInterrupt) else 1  # zarr's thread still ends what it was writing
            raise
        finally:
            for number in range(0 if kept else tries):
                time.sleep(0.05 if number else 0)
                shutil.rmtree(partial, ignore_errors=True)
            if path.exists():  # interrupted after it was published
                _discard(old)


def _from_outside(error: BaseException) -> bool:
    """Whether the same work could go on where it was, had this not come."""
    full = isinstance(error, OSError) and error.errno in OUTSIDE
    return full or isinstance(error, Stopped) or not isinstance(error, Exception)


def work_of(path: Path) -> Path:
    """Where work stays that the same command goes on with."""
    return path.with_name(f".{path.name}{WORK}")


def open_work(place: Path, key: str) -> zarr.Group:
    """Return the group that unfinished work is kept in: one that is there for the same work, or a new one.

    Raises
    ------
    StoreError
        Something else is there, or the place cannot be written.
    """
    try:
        if place.is_dir() and files(place):
            group = zarr.open_group(zarr_store(place), mode="r+", zarr_format=3)
            found = about(group).get("work")
            if found == key:
                return group
            if found is None:
                raise ValueError("it holds something else")
            remove(place)
        if not isinstance(place, Url):
            place.parent.mkdir(parents=True, exist_ok=True)
        group = zarr.open_group(zarr_store(place), mode="w", zarr_format=3)
        describe(group, work=key)
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(
            f"Cannot keep unfinished work in {place} ({error}): remove it, or choose another place."
        ) from error
    return group


def _begun(partial: Path, work: str | None) -> zarr.Group:
    """What the same work has written so far, or an empty group."""
    if partial.is_symlink() or (partial.exists() and not partial.is_dir()):
        raise StoreError(f"{partial} is in the way, where unfinished work is kept: remove it, or choose another place.")
    if work and partial.is_dir():
        with suppress(Exception):  # of what is damaged, in whatever way, nothing is kept
            group = zarr.open_group(partial, mode="r+", zarr_format=3)
            if about(group)["work"]["of"] == work:
                describe(group, work={"of": work, "since": time.time() - worked(group, partial)})
                return group
    group = zarr.open_group(partial, mode="w", zarr_format=3)
    if work:
        describe(group, work={"of": work, "since": time.time()})
    return group


def worked(group: zarr.Group, place: Path) -> float:
    """Seconds for which jobs have worked at what `create` keeps, until the last that was written there."""
    seconds = float(last_written(place)) - float(about(group)["work"]["since"])
    return seconds if 0 <= seconds < np.inf else 0.0  # a clock that was set, times that a copy did not keep


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}{kind}{uuid.uuid4().hex[:8]}")


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    """Errors of the file system in one sentence."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if isinstance(error, StoreError) or error.errno is None:
            raise
        what_to_do = "make room there or choose" if error.errno in FULL else "choose"
        raise StoreError(
            f"Cannot write {path}: {error.strerror}; nothing was published there: {what_to_do} another place."
        ) from error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Refuse a second job that writes the same store; the system frees the lock of a job that was killed.

    On a file system without locks the file is itself the lock, so nothing else may make it.
    """
    file = path.with_name(f".{path.name}.lock")
    lock = FileLock(file, timeout=0)
    try:
        try:
            with undisturbed():
                with TemporaryFile(dir=path.parent):
                    pass  # says why nothing can be written here, where the lock would only say that it cannot be had
                lock.acquire()
        except Timeout as error:
            said = "is being written by another job: wait for it, or choose another place."
            raise StoreError(f"{path} {said}") from error
        yield
    finally:
        if lock.is_locked:
            file.unlink(missing_ok=True)
            lock.release()


def _tidy(path: Path) -> None:
    """Remove what a job that was killed left, and put back a store that it was about to replace."""
    for left in list(path.parent.iterdir()):
        if left.name.startswith(f".{path.name}{PARTIAL}") or (
            path.exists() and left.name.startswith(f".{path.name}{OLD}")
        ):
            _discard(left)
        elif left.name.startswith(f".{path.name}{OLD}"):
            left.rename(path)


def _sweep(partial: Path) -> None:
    """Remove what zarr was writing on a worker that died."""
    for left in partial.rglob("*.partial"):
        left.unlink(missing_ok=True)


def settle(path: Path) -> None:
    """Put in order what a job that was killed left, such as a store that it was about to replace."""
    if isinstance(path, Url):  # where nothing is renamed
        return
    with suppress(OSError), _alone(path):
        _tidy(path)


def erase(path: Path) -> None:
    """Remove a store, and what jobs that were killed left of it; that of another job stays."""
    if isinstance(path, Url):
        remove(path)
        return
    with suppress(OSError), _alone(path):
        _tidy(path)
        _discard(path)


def _publish(partial: Path, path: Path, old: Path, overwrite: bool) -> None:
    refuse_existing(path, overwrite)  # another run may have published there meanwhile
    try:
        with undisturbed():
            if path.exists():
                path.rename(old)
            partial.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    _discard(old)


def _discard(old: Path) -> None:
    if old.is_dir() and not old.is_symlink():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.unlink(missing_ok=True)


def _made_by() -> dict[str, str]:
    return {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **_versions()}


@cache
def _versions() -> dict[str, str]:
    packages = ("ask_dask", "numpy", "scipy", "zarr", "dask", "scikit-learn")
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in packages}

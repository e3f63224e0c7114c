"""zarr v3 layout of every store: schema and version, checksummed chunks, atomic publish, fingerprints.

A store is a directory with one zarr group. Its attributes hold, under `ask_dask`, the schema (dataset, model,
predictions or checkpoint), the version, who made it from what, and what was measured while it was made. It is written
under a temporary name beside its place and renamed when whole, so a half-written store is never taken for a complete
one.
Nothing in it is pickled: arrays of numbers and fixed-width text, and JSON.
"""

import hashlib
import os
import platform
import re
import shutil
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from ask_dask import budget
from ask_dask.errors import StoreError

VERSIONS = {"dataset": 1, "embedding": 1, "model": 1, "predictions": 1, "checkpoint": 1}
"""The schemas this package writes and the one version of each that it reads."""

QUICK = (BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"), Crc32cCodec())
"""How large arrays are compressed. Encoded features: four times as fast to write as zstd level 1, six times as fast to
read, and 8 % larger."""

_KEY = "ask_dask"
_PARTIAL = ".partial-"


@contextmanager
def create(path: str | Path, schema: str, overwrite: bool = False) -> Iterator[zarr.Group]:
    """A new store, open for writing; published whole when the block ends, removed when it raises.

    Parameters
    ----------
    path : path
        Where the store will be. With `overwrite` it replaces a store of the same schema, and never anything else.
    schema : {"dataset", "model", "predictions", "checkpoint"}

    Yields
    ------
    zarr.Group
        Set `describe(group, ...)` and write arrays with `create_array` or `write_array`.

    Raises
    ------
    StoreError
        Something is there that may not be replaced, or the place cannot be written.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/p.zarr"
    >>> with create(path, "predictions") as group:
    ...     _ = write_array(group, "score", np.arange(3.0))
    >>> open_store(path, "predictions")["score"][:]
    array([0., 1., 2.])
    """
    path = local(path)
    refuse_existing(path, overwrite, schema)
    partial = path.with_name(f".{path.name}{_PARTIAL}{uuid.uuid4().hex[:8]}")
    old = path.with_name(f".{path.name}.old-{uuid.uuid4().hex[:8]}")
    published = False
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            group = zarr.open_group(partial, mode="w", zarr_format=3)
        except OSError as error:
            raise StoreError(f"Cannot write {path}: {error.strerror or error}; choose another place.") from error
        describe(group, schema=schema, version=VERSIONS[schema], made_by=_made_by())
        yield group
        describe(group, complete=True, file_count=_count_files(partial))
        _publish(partial, path, old, overwrite)
        published = True
    except OSError as error:
        if isinstance(error, StoreError) or error.errno is None:
            raise
        raise StoreError(f"Cannot write {path}: {error.strerror}; nothing was published there.") from error
    finally:
        for _ in range(0 if published else 3):  # in zarr's own thread a write that was interrupted still ends
            time.sleep(0.05)
            shutil.rmtree(partial, ignore_errors=True)
            if path.exists():  # interrupted after it was published
                _discard(old)


def local(path: str | Path) -> Path:
    """The path as a local one.

    Raises
    ------
    StoreError
        For a URL: stores are written and read on a file system.
    """
    if re.match(r"[A-Za-z][\w+.-]+:/", str(path)):  # one slash, since a Path of a URL has lost the other
        raise StoreError(f"Stores are kept on a file system, and {path} is a URL: give a local path.")
    return Path(path)


def refuse_existing(path: str | Path, overwrite: bool, schema: str | None = None) -> None:
    """Raise StoreError when something is there that may not be replaced; call it before long work.

    Given a schema, only a store of that schema (or an empty folder) may be, even with `overwrite`.
    """
    path = local(path)
    if not (path.exists() or path.is_symlink()):
        return
    if not overwrite:
        raise StoreError(f"{path} exists already: choose another place, or pass --overwrite (overwrite=True).")
    if schema and _schema(path) != schema and not (path.is_dir() and not any(path.iterdir())):
        raise StoreError(f"{path} is no {schema} store, so it is not replaced: choose another place.")


def _schema(path: Path) -> str | None:
    try:
        return about(zarr.open_group(path, mode="r", zarr_format=3)).get("schema")
    except (OSError, KeyError, ValueError, TypeError):
        return None


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _count_files(path: Path) -> int:
    return sum(len(files) for *_, files in os.walk(path))


def _publish(partial: Path, path: Path, old: Path, overwrite: bool) -> None:
    refuse_existing(path, overwrite)  # another run may have published there meanwhile
    try:
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


def open_store(path: str | Path, schema: str | None = None) -> zarr.Group:
    """A complete store, read-only.

    Raises
    ------
    StoreError
        Nothing there, not a store of this package, unfinished, lacking files, of another schema than asked, or of a
        version that this package does not know.
    """
    path = local(path)
    if not path.exists():
        raise StoreError(f"There is no store at {path}: check the path.")
    try:
        group = zarr.open_group(path, mode="r", zarr_format=3)
        about: Any = group.attrs[_KEY]
        found, version = about["schema"], about["version"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is not a store that ask-dask wrote: give one made by ask-dask.") from error
    if not about.get("complete"):
        raise StoreError(f"{path} was never finished: make it again with --overwrite.")
    if version != VERSIONS.get(found):
        raise StoreError(
            f"{path} is {_a(found)} store of version {version} and this release reads version "
            f"{VERSIONS.get(found, 'none')}: use the release that wrote it, or make it again."
        )
    if schema is not None and found != schema:
        raise StoreError(f"{path} is {_a(found)} store, where {_a(schema)} store is needed: check the path.")
    # A chunk that is not there reads as zeros, which no checksum can tell.
    lacking = about.get("file_count", 0) - _count_files(path)
    if lacking > 0:
        raise StoreError(f"{path} lacks {lacking} of its files: copy it again, or make it again with --overwrite.")
    try:
        list(group.members(max_depth=None))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged, an array cannot be opened ({error}): make it again.") from error
    return group


def about(group: zarr.Group) -> dict[str, Any]:
    """What a store says of itself: schema, version, made_by and everything given to `describe`."""
    found = group.attrs.get(_KEY, {})
    return dict(found) if isinstance(found, dict) else {}


def describe(group: zarr.Group, **facts: Any) -> None:
    """Add facts (JSON values) to what a store says of itself."""
    group.attrs[_KEY] = about(group) | facts


def create_array(group: zarr.Group, name: str, shape: tuple[int, ...], dtype: Any) -> zarr.Array:
    """An empty array of many rows, chunked and sharded along rows, each chunk with a CRC-32C checksum.

    Write it whole shards at a time, at multiples of `array.shards[0]` rows: then no two tasks share a file.
    """
    row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(dtype).itemsize
    return _array(group, name, shape, dtype, budget.chunk_rows(row_bytes), budget.shard_rows(row_bytes))


def create_aligned(
    group: zarr.Group, arrays: dict[str, tuple[tuple[int, ...], Any]], like: Any = None
) -> dict[str, zarr.Array]:
    """Arrays over the same rows, {name: (shape, dtype)}, all cut at the rows where `like`, or the widest, is cut."""
    if like is not None:
        chunk, shard = like.chunks[0], (like.shards or like.chunks)[0]
        return {name: _array(group, name, shape, kind, chunk, shard) for name, (shape, kind) in arrays.items()}
    widest = max(int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(kind).itemsize for shape, kind in arrays.values())
    chunk, shard = budget.chunk_rows(widest), budget.shard_rows(widest)
    return {name: _array(group, name, shape, kind, chunk, shard) for name, (shape, kind) in arrays.items()}


def _array(group: zarr.Group, name: str, shape: tuple[int, ...], dtype: Any, chunk: int, shard: int) -> zarr.Array:
    rows = shape[0] if shape else 1
    chunk = min(chunk, max(rows, 1))
    shard = max(1, min(shard, -(-rows // chunk) * chunk) // chunk) * chunk
    with _text_allowed():
        return group.create_array(
            name,
            shape=shape,
            dtype=dtype,
            chunks=(chunk, *shape[1:]),
            shards=(shard, *shape[1:]),
            compressors=QUICK,
            fill_value=np.zeros((), dtype)[()],
        )


@contextmanager
def _text_allowed() -> Iterator[None]:
    """Without zarr's warning that fixed-width text is not in the specification yet.

    Nothing else of zarr is numpy's own text, without objects, and a store has a version, should this ever change.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The data type .* does not have a Zarr V3 specification")
        yield


def write_array(group: zarr.Group, name: str, values: Any) -> zarr.Array:
    """Store a small array in one checksummed chunk."""
    values = np.asarray(values)
    with _text_allowed():
        array = group.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            chunks=tuple(max(1, n) for n in values.shape),
            compressors=[
                BloscCodec(cname="zstd", clevel=3, shuffle="shuffle", typesize=values.dtype.itemsize or 1),
                Crc32cCodec(),
            ],
        )
    array[...] = values
    return array


def array(group: zarr.Group, name: str) -> zarr.Array:
    """An array of a store.

    Raises
    ------
    StoreError
        The store lacks it.
    """
    found = group.get(name)
    if not isinstance(found, zarr.Array):
        raise StoreError(f"{place(group)} has no array {name!r}: it is damaged, make it again.")
    return found


def subgroup(group: zarr.Group, name: str) -> zarr.Group:
    """A group of a store, StoreError when the store lacks it."""
    found = group.get(name)
    if not isinstance(found, zarr.Group):
        raise StoreError(f"{place(group)} has no group {name!r}: it is damaged, make it again.")
    return found


def place(found: zarr.Array | zarr.Group) -> str:
    """The path of a stored array or group, as a person writes it."""
    return str(found.store_path).removeprefix("file://")


def read(array: zarr.Array, start: int = 0, stop: int | None = None) -> np.ndarray:
    """Rows start..stop of a stored array.

    Raises
    ------
    StoreError
        When a chunk's checksum does not match: names the store, the array and the rows.
    """
    try:
        return np.asarray(array[start:stop] if array.ndim else array[...])
    except (ValueError, RuntimeError, OSError) as error:
        end = array.shape[0] if stop is None else stop
        raise StoreError(
            f"{place(array)} is damaged between rows {start} and {end} ({error}): make the store again."
        ) from error


def fingerprint(*parts: Any) -> str:
    """A short hash of arrays, bytes and text: equal content, equal fingerprint.

    >>> fingerprint(np.arange(3), "a") == fingerprint(np.arange(3), "a") != fingerprint("b")
    True
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
        else:
            digest.update(part if isinstance(part, bytes) else str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def stored_bytes(path: str | Path) -> int:
    """Bytes that a store takes on disk."""
    return sum(file.stat().st_size for file in local(path).rglob("*") if file.is_file())


def _made_by() -> dict[str, str]:
    packages = ("ask_dask", "numpy", "scipy", "zarr", "dask", "scikit-learn")
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
    }

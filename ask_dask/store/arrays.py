"""Arrays of a store: checksummed chunks in shards, written whole, read with a clear word where they are damaged."""

import hashlib
import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import FsspecStore

from ask_dask import budget
from ask_dask.errors import StoreError, mask
from ask_dask.store.places import is_failure, is_passing, unread
from ask_dask.store.room import require_room
from ask_dask.store.sealed import Sealed

QUICK = (BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"), Crc32cCodec())
"""How large arrays are compressed. Encoded features: four times as fast to write as zstd level 1, six times as fast to
read, and 8 % larger."""


def create_array(group: zarr.Group, name: str, shape: tuple[int, ...], dtype: Any) -> zarr.Array:
    """An empty array of many rows, chunked and sharded along rows, each chunk with a CRC-32C checksum.

    Write it whole shards at a time, at multiples of `array.shards[0]` rows: then no two tasks share a file.
    """
    row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(dtype).itemsize
    return _array(group, name, shape, dtype, budget.chunk_rows(row_bytes), budget.shard_rows(row_bytes))


def create_aligned(
    group: zarr.Group,
    arrays: dict[str, tuple[tuple[int, ...], Any]],
    like: Any = None,
    least: int = 1,
    most: int | None = None,
) -> dict[str, zarr.Array]:
    """Arrays over the same rows, {name: (shape, dtype)}, all cut at the rows where `like`, or the widest, is cut.

    With `like`, shards are smaller than its own where that makes `least` of them. Without, they have at most `most`
    rows.
    """
    if like is not None:
        chunk, shard = like.chunks[0], rows_of_shard(like, least)
        return {name: _array(group, name, shape, kind, chunk, shard) for name, (shape, kind) in arrays.items()}
    widest = max(int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(kind).itemsize for shape, kind in arrays.values())
    chunk, shard = budget.chunk_rows(widest), budget.shard_rows(widest)
    if most is not None and most < shard:
        shard = max(1, most // budget.BLOCK_ROWS) * budget.BLOCK_ROWS
        chunk = min(chunk, shard)
    return {name: _array(group, name, shape, kind, chunk, shard) for name, (shape, kind) in arrays.items()}


def rows_of_shard(like: Any, least: int) -> int:
    """Return the rows of the shards of an array like another one, fewer than its own where that makes `least` of them.

    >>> rows_of_shard(zarr.create_array({}, shape=(1000, 1), chunks=(10, 1), shards=(500, 1), dtype="f4"), 16)
    70
    """
    chunk = like.chunks[0]
    return min((like.shards or like.chunks)[0], -(-like.shape[0] // (least * chunk)) * chunk)


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
            overwrite=True,
        )


def create_marks(group: zarr.Group, name: str, count: int) -> zarr.Array:
    """(count,) short texts, each empty until it is written, in a file of its own: what is done of work that goes on."""
    with _text_allowed():
        return group.create_array(name, shape=(count,), dtype="<U32", chunks=(1,), fill_value="", overwrite=True)


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


def write_as_is(group: zarr.Group, name: str, values: np.ndarray) -> None:
    """Store an array in small checksummed chunks, not compressed, which takes least time: of what is replaced soon."""
    row_bytes = max(1, values[:1].nbytes)
    array = group.create_array(
        name,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(max(1, min(len(values), budget.CHUNK_BYTES // row_bytes)), *(max(1, n) for n in values.shape[1:])),
        compressors=[Crc32cCodec()],
        config={"write_empty_chunks": True},
    )
    array[...] = values


def array(group: zarr.Group, name: str) -> zarr.Array:
    """An array of a store.

    Raises
    ------
    StoreError
        The store lacks it.
    """
    found = _found(group, name)
    if not isinstance(found, zarr.Array):
        raise StoreError(f"{place(group)} has no array {name!r}: it is damaged, make it again.")
    return found


def subgroup(group: zarr.Group, name: str) -> zarr.Group:
    """A group of a store, StoreError when the store lacks it."""
    found = _found(group, name)
    if not isinstance(found, zarr.Group):
        raise StoreError(f"{place(group)} has no group {name!r}: it is damaged, make it again.")
    return found


def _found(group: zarr.Group, name: str) -> Any:
    """What has this name; None where it is none, such as one that leads out of the group."""
    try:
        return group.get(name)
    except ValueError:
        return None


def place(found: zarr.Array | zarr.Group) -> str:
    """The path or URL of a stored array or group, as a person writes it."""
    if isinstance(kept := found.store_path.store, FsspecStore):
        fs = getattr(kept.fs, "sync_fs", kept.fs)
        return mask(fs.unstrip_protocol(f"{kept.path}/{found.path}".rstrip("/")))
    return str(found.store_path).removeprefix("file://")


def read(array: zarr.Array, start: int = 0, stop: int | None = None) -> np.ndarray:
    """Rows start..stop of a stored array, a few chunks at a time: reading takes little more memory than the rows.

    Raises
    ------
    StoreError
        As `take`, or the rows take more memory than there is.
    """
    if not array.ndim:
        return take(array)
    start, stop, _ = slice(start, stop).indices(array.shape[0])
    row_bytes, chunk = int(np.prod(array.shape[1:], dtype=object)) * array.dtype.itemsize, array.chunks[0]
    require_room(place(array), max(0, stop - start) * row_bytes)
    piece = max(1, budget.READ_BYTES // max(1, chunk * row_bytes)) * chunk
    cuts = [start, *range((start // piece + 1) * piece, stop, piece), stop]
    if len(cuts) == 2:
        return take(array, slice(start, stop))
    found = np.empty((stop - start, *array.shape[1:]), array.dtype)
    for first, last in itertools.pairwise(cuts):
        found[first - start : last - start] = take(array, slice(first, last))
    return found


def take(array: zarr.Array, *sides: Any) -> np.ndarray:
    """Some rows, and columns, of a stored array: each side a slice, a number, or numbers (n,).

    Raises
    ------
    StoreError
        When a chunk is missing or its checksum does not match: names the store, the array and the rows. Or the store
        was replaced since it was opened, or cannot be reached.

    Examples
    --------
    >>> take(zarr.array(np.arange(12).reshape(3, 4)), slice(0, 2), np.array([3, 0]))
    array([[3, 0],
           [7, 4]])
    """
    numbers = any(isinstance(side, np.ndarray) for side in sides)
    try:
        return np.asarray(array.oindex[sides] if numbers else array[sides])
    except Exception as error:
        lost = isinstance(error, FileNotFoundError)
        if isinstance(array.store, FsspecStore) and is_failure(error) and not lost:
            raise StoreError(f"{place(array)} cannot be read now ({error}): check the connection.") from error
        if not isinstance(error, ValueError | RuntimeError | OSError):
            raise
        if is_passing(error):
            raise unread(place(array), error) from error
        if isinstance(array.store, Sealed) and array.store.is_replaced():
            raise StoreError(f"{place(array)} was replaced or removed while it was read: start again.") from error
        first, last = _damaged(array, *_bounds(sides[0], array.shape[0])) if sides else (0, 1)
        raise StoreError(
            f"{place(array)} is damaged between rows {first} and {last} ({error}): make the store again."
        ) from error


def _bounds(side: Any, length: int) -> tuple[int, int]:
    """The first of some rows, and the one after the last."""
    if isinstance(side, slice):
        return side.indices(length)[:2]
    return int(np.min(side)), int(np.max(side)) + 1


def _damaged(array: zarr.Array, start: int, stop: int) -> tuple[int, int]:
    """The rows of the first chunk there that cannot be read."""
    height = array.chunks[0]
    for first in range(start // height * height, stop, height):
        rows = max(first, start), min(first + height, stop)
        try:
            array[slice(*rows)]
        except (ValueError, RuntimeError, OSError):
            return rows
    return start, stop


class Readable:
    """A stored array as dask takes one, each part of which is read by `take`."""

    def __init__(self, array: zarr.Array) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.ndim, self.chunks = array.ndim, array.chunks

    def __getitem__(self, sides: tuple[Any, ...]) -> np.ndarray:
        return take(self.array, *sides)


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

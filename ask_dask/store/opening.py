"""Opening a store, and telling what is wrong with it."""

import os
from typing import Any

import numpy as np
import zarr
from zarr.storage import LocalStore, StorePath

from ask_dask import budget
from ask_dask.errors import StoreError
from ask_dask.store import listing
from ask_dask.store.attributes import KEY, VERSIONS
from ask_dask.store.attributes import about as attributes
from ask_dask.store.codecs import TAKEN, WRITTEN, foreign
from ask_dask.store.paths import data_place
from ask_dask.store.places import UNREADABLE, Place, contents, files, is_passing, located, reaching, unread, zarr_store
from ask_dask.store.regular import METADATA
from ask_dask.store.room import LARGEST_CHUNK, LARGEST_ITEM, room
from ask_dask.store.sealed import sealed

MOST_PARTS = 10_000_000
"""Chunks of an array that a job can look after."""


def open_store(path: str | os.PathLike, schema: str | None = None) -> zarr.Group:
    """A complete store, read-only.

    Raises
    ------
    StoreError
        Nothing there, not a store of this package, unfinished, with files missing or changed or arrays added, of
        another schema than asked, or of a version that this package does not know.
    """
    path = located(path)
    group, data = _complete(path, schema)
    found_wrong = [*listing.wrong(data).values()]
    if found_wrong:
        more = f" and {len(found_wrong) - 1} more" if len(found_wrong) > 1 else ""
        raise _damaged(path, found_wrong[0] + more)
    for name in listing.members(attributes(group)):
        _require_sane(path, name, _member(path, group, name))
    return group


def look_over(path: str | os.PathLike) -> tuple[list[zarr.Array], dict[str, str]]:
    """The arrays of a complete store that can be read, and its files that are missing, cut short or changed, each with
    a sentence. Chunks are not read.

    Raises
    ------
    StoreError
        As `open_store`, but for such files; where the attributes were changed, which say what should be there, no more
        is believed.
    """
    path = located(path)
    group, data = _complete(path)
    found_wrong = {name: str(_damaged(path, words)) for name, words in listing.wrong(data).items()}
    names = [] if METADATA in found_wrong else listing.members(attributes(group))
    members = {name: _member(path, group, name) for name in names if f"{name}/{METADATA}" not in found_wrong}
    for name, member in members.items():
        _require_sane(path, name, member)
    return [member for member in members.values() if isinstance(member, zarr.Array)], found_wrong


def _complete(path: Place, schema: str | None = None) -> tuple[zarr.Group, Place]:
    """A store that was finished, whatever became of it since, and where its data lie."""
    if not path.exists():
        if contents(path):
            raise StoreError(f"{path} was never finished: make it again.")
        raise StoreError(f"There is no store at {path}: check the path.")
    data = data_place(path)
    try:
        with reaching(path):
            group = zarr.open_group(sealed(data), mode="r", zarr_format=3)
        about: Any = group.attrs[KEY]
        found, version = about["schema"], about["version"]
        if not isinstance(found, str) or not found:
            raise ValueError(found)
    except PermissionError as error:
        raise StoreError(f"{path} may not be read: check its permissions.") from error
    except (*UNREADABLE, RuntimeError) as error:
        if isinstance(error, StoreError):
            raise
        if is_passing(error):
            raise unread(path, error) from error
        raise StoreError(
            f"{path} is not a store that ask-dask wrote, or its {METADATA} is damaged: give one made by ask-dask, or "
            "make it again."
        ) from error
    if not about.get("complete"):
        raise StoreError(f"{path} was never finished: make it again with --overwrite.")
    if version != VERSIONS.get(found):
        raise StoreError(
            f"{path} is {_a(found)} store of version {version} and this release reads version "
            f"{VERSIONS.get(found, 'none')}: use the release that wrote it, or make it again."
        )
    if schema is not None and found != schema:
        raise StoreError(f"{path} is {_a(found)} store, where {_a(schema)} store is needed: check the path.")
    _require_sane(path, "/", group)
    return group, data


def _damaged(path: Place, words: str) -> StoreError:
    return StoreError(f"{path} is damaged, {words}: copy it again, or make it again with --overwrite.")


def _member(path: Place, group: zarr.Group, name: str) -> Any:
    try:
        with reaching(path):
            return group[name]
    except (*UNREADABLE, RuntimeError) as error:
        if is_passing(error):
            raise unread(path, error) from error
        raise StoreError(f"{path} is damaged, its array {name} cannot be opened ({error}): make it again.") from error


def open_matrix(place: Place) -> zarr.Array:
    """Return a zarr array that anybody may have written, read-only: the one way by which such an array is opened.

    It is of format 3, packed by codecs that cannot run code nor expand beyond their chunk, in chunks of a bounded size.

    Raises
    ------
    StoreError
        The array is of other codecs, or claims chunks that are too large or too many.
    OSError, KeyError, TypeError, ValueError
        No zarr array of format 3 is there.
    """
    with reaching(place):
        found = zarr.open_array(zarr_store(place, read_only=True), mode="r", zarr_format=3)
    _require_sane(place, "", found, TAKEN)
    return found


def _require_sane(path: Place, name: str, member: Any, allowed: tuple[type, ...] = WRITTEN) -> None:
    """Refuse an array whose description asks for more memory or work than any that this package writes, and a group
    that describes its members itself, of which no list of files tells."""
    if not isinstance(member, zarr.Array):
        if member.metadata.consolidated_metadata is not None:
            said = "has consolidated metadata, which ask-dask does not write"
            raise StoreError(f"{path} is not taken: its group {name} {said}.")
        return
    where = f"{path} is not taken: its array {name}" if name else f"{path} is not taken: it"
    if member.dtype.itemsize > LARGEST_ITEM:
        raise StoreError(
            f"{where} has elements of {budget.size(member.dtype.itemsize)}, which ask-dask does not write."
        )
    if unknown := ", ".join(foreign(getattr(member.metadata, "codecs", ()), allowed)):
        raise StoreError(f"{where} is packed by {unknown}, which ask-dask does not read: use zarr's default codecs.")
    chunk = int(np.prod(member.chunks, dtype=object)) * member.dtype.itemsize
    parts = int(np.prod([-(-n // c) for n, c in zip(member.shape, member.chunks, strict=True)], dtype=object))
    largest = min(LARGEST_CHUNK, room())
    if chunk > largest or parts > MOST_PARTS:
        claimed = f"chunks of {budget.size(chunk)} and {parts:,} parts"
        most = f"{budget.size(largest)} and {MOST_PARTS:,}"
        raise StoreError(f"{where} claims {claimed}, and at most {most} are read: write it in other chunks.")


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def origin(place: StorePath) -> str:
    """What tells the content of a stored array or group: the fingerprint of its store, else where it is and, on a disk,
    the sizes and times of its files.

    >>> origin(zarr.create_array({}, shape=1, dtype="f4").store_path).startswith("memory://")
    True
    """
    try:
        root = zarr.open_group(place.store, mode="r", zarr_format=3)
    except (OSError, KeyError, ValueError):
        return _as_written(place)
    fingerprint = attributes(root).get("fingerprint")
    return f"{fingerprint}/{place.path}" if fingerprint else _as_written(place)


def _as_written(place: StorePath) -> str:
    """Files, their sizes and the times at which they were written: rows written anew in one place are others."""
    if not isinstance(place.store, LocalStore):
        return str(place)
    found = sorted(path for path in (place.store.root / place.path).rglob("*") if path.is_file())
    return f"{place} {[(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in found]}"


def stored_bytes(path: str | os.PathLike) -> int:
    """Bytes that a store takes where it is kept."""
    return sum(files(data_place(located(path))).values())

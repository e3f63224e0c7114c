"""A store as it was when it was opened: what takes its place, and what goes missing, is not read for it.

Its attributes tell a store by their seal, and list its files. zarr takes a chunk that is not there for zeros.
"""

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from zarr.abc.store import ByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import FsspecStore

from ask_dask.store.attributes import KEY
from ask_dask.store.marks import differs
from ask_dask.store.places import UNREADABLE, Place, exists_below, zarr_store
from ask_dask.store.regular import METADATA, Folder, read_regular


class SealedOnDisk(Folder):
    """zarr's store of a folder, but that a chunk which is listed and not there, or empty, is missing, and that nothing
    is read of another store that took its place.

    Raises
    ------
    UNREADABLE
        No attributes of this package are there.
    """

    def __init__(self, root: Path, *, read_only: bool = True) -> None:
        super().__init__(root, read_only=read_only)
        self._attributes = str(root / METADATA)
        self.seal = _sealed(self._attributes)[0]

    def is_replaced(self) -> bool:
        """Whether another store, or none, is there by now."""
        try:
            return _sealed(self._attributes)[0] != self.seal
        except UNREADABLE:
            return True

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        """As zarr's, FileNotFoundError of a chunk that is not the one that is listed."""
        return self._found(key, await super().get(key, *args, **options), *_asked(args, options))

    def get_sync(self, key: str, **options: Any) -> Any:
        """As `get`."""
        return self._found(key, super().get_sync(key, **options), options.get("byte_range"))

    def _found(self, key: str, content: Any, part: ByteRequest | None = None) -> Any:
        if not key.endswith(METADATA):
            seal, listed = _sealed(self._attributes)  # after it was read: by then it is of the store that was opened
            if seal != self.seal:
                raise FileNotFoundError(f"another store is at {self.root}")
            _require_listed(key, content, listed, part)
        return content


class SealedRemotely(FsspecStore):
    """The same of object storage, where each version of a store has a place of its own: none takes its place, and what
    is removed is removed attributes first (see `remote`)."""

    _listed: dict[str, str | None] | None = None

    def is_replaced(self) -> bool:
        """Whether the version that this is has been removed."""
        return not exists_below(self, METADATA)

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        """As zarr's, FileNotFoundError of a chunk that is listed and not there, or of which no list tells any more."""
        content = await super().get(key, *args, **options)
        if not key.endswith(METADATA):
            _require_listed(key, content, await self._names(), *_asked(args, options))
        return content

    async def _names(self) -> dict[str, str | None]:
        if self._listed is None:
            attributes = await super().get(METADATA, default_buffer_prototype())
            seal, listed = _told(attributes.to_bytes() if attributes else b"{}")
            if seal is None:
                raise FileNotFoundError(f"{METADATA} is missing or was changed")
            self._listed = listed
        return self._listed


def _asked(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[ByteRequest | None]:
    """Return the part of a file that is asked for, of the arguments that zarr gives to `get` after the key."""
    return (options.get("byte_range", args[1] if len(args) > 1 else None),)


def _require_listed(key: str, content: Any, listed: dict[str, str | None], part: ByteRequest | None) -> None:
    if key not in listed:
        return
    if not content:  # no chunk is empty
        raise FileNotFoundError(f"{key} is missing")
    mark = listed[key]
    if not mark:
        return
    if isinstance(part, SuffixByteRequest):  # the index of a shard, whose end is the last in the mark
        start = int(mark[-16:-8], 16) - len(content)
    else:
        start = part.start if isinstance(part, RangeByteRequest) else part.offset if part else 0
    if differs(mark, memoryview(content.as_numpy_array()), start):
        raise ValueError(f"{key} holds another chunk than was written there")


Sealed: TypeAlias = SealedOnDisk | SealedRemotely


def sealed(place: Place) -> Sealed:
    """What zarr opens a complete store by, to read it."""
    return SealedOnDisk(place) if isinstance(place, Path) else zarr_store(place, read_only=True, kind=SealedRemotely)


def _sealed(attributes: str) -> tuple[str | None, dict[str, str | None]]:
    """Return the seal, and the files with their marks, that a store's attributes tell; read again when written."""
    about = os.stat(attributes)
    return _read(attributes, about.st_ino, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def _read(attributes: str, *written: int) -> tuple[str | None, dict[str, str | None]]:
    return _told(read_regular(attributes))


def _told(attributes: bytes) -> tuple[str | None, dict[str, str | None]]:
    try:
        about = dict(json.loads(attributes)["attributes"][KEY])
        return about.get("seal"), {name: mark for name, (_, mark) in about.get("listed", {}).items()}
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{METADATA} is not of a store of ask-dask") from error

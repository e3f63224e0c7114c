"""Files of strangers: only regular ones are read, and up to a stated size.

A link to a device never ends, a pipe never begins, and a file full of holes takes memory that it does not have.
"""

import os
import stat
from pathlib import Path
from typing import Any

from zarr.storage import LocalStore

METADATA = "zarr.json"

LARGEST_TEXT = 64 << 20
"""Bytes of metadata, and of a job file."""

LARGEST_FILE = 8 << 30
"""Bytes of a shard of an array."""


def require_regular(path: str | os.PathLike, most: int = LARGEST_TEXT) -> None:
    """Raise ValueError where there is something that is not a regular file of at most so many bytes.

    Raises
    ------
    FileNotFoundError
        Nothing is there.
    """
    about = os.stat(path)
    if stat.S_ISDIR(about.st_mode):
        return
    if not stat.S_ISREG(about.st_mode):
        raise ValueError(f"{path} is not a regular file")
    if about.st_size > most:
        raise ValueError(f"{path} has {about.st_size:,} bytes, more than the {most:,} that are read")


def read_regular(path: str | os.PathLike, most: int = LARGEST_TEXT) -> bytes:
    """Return the content of a regular file; errors are those of `require_regular`."""
    require_regular(path, most)
    return Path(path).read_bytes()


class Folder(LocalStore):
    """zarr's store of a folder, which reads regular files only."""

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        """Return what zarr's own does; ValueError where the file is not a regular one."""
        self._require(key)
        return await super().get(key, *args, **options)

    def get_sync(self, key: str, **options: Any) -> Any:
        """Return what `get` does."""
        self._require(key)
        return super().get_sync(key, **options)

    def _require(self, key: str) -> None:
        try:
            require_regular(self.root / key, LARGEST_TEXT if key.endswith(METADATA) else LARGEST_FILE)
        except (FileNotFoundError, NotADirectoryError):
            return

"""Where stores are: local paths, and what may be replaced there."""

import re
from pathlib import Path

import zarr

from ask_dask.errors import StoreError
from ask_dask.store.attributes import about


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

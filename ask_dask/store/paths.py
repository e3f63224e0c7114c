"""What may be replaced where a store will be, and where the data of one that is there lies."""

import json
import os
from pathlib import Path

import zarr

from ask_dask.errors import StoreError
from ask_dask.store.attributes import KEY, about
from ask_dask.store.places import UNREADABLE, VERSION, Place, Url, contents, located, reaching, read_bytes, zarr_store
from ask_dask.store.regular import METADATA


def local(path: str | os.PathLike) -> Path:
    """The path as a local one.

    Raises
    ------
    StoreError
        For a URL, where a folder of files is made.
    """
    if isinstance(found := located(path), Url):
        raise StoreError(f"This is made on a file system, and {found} is a URL: give a local path.")
    return found


def data_place(place: Place) -> Place:
    """Where the data of a store lies: in the store itself or, on object storage, in the version that it points to."""
    try:
        version = json.loads(read_bytes(place / METADATA))["attributes"][KEY]["current"]
    except UNREADABLE as error:
        if isinstance(error, StoreError):
            raise
        return place
    return place / version if isinstance(version, str) and VERSION.fullmatch(version) else place


def refuse_existing(path: str | os.PathLike, overwrite: bool, schema: str | None = None) -> None:
    """Raise StoreError when something is there that may not be replaced; call it before long work.

    Given a schema, only a store of that schema (or an empty folder) may be, even with `overwrite`.
    """
    path = located(path)
    if not (path.exists() or path.is_symlink()):
        return
    if not overwrite:
        raise StoreError(f"{path} exists already: choose another place, or pass --overwrite (overwrite=True).")
    if schema and _schema(path) != schema and not (path.is_dir() and not contents(path)):
        raise StoreError(f"{path} is no {schema} store, so it is not replaced: choose another place.")


def _schema(place: Place) -> str | None:
    try:
        with reaching(place):
            return about(zarr.open_group(zarr_store(data_place(place)), mode="r", zarr_format=3)).get("schema")
    except UNREADABLE as error:
        if isinstance(error, StoreError):
            raise
        return None

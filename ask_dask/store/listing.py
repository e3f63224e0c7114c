"""The list of a store's files that its attributes carry: what is missing, cut short or changed is named.

Chunks have checksums of their own; metadata, which zarr does not check, is hashed here, and the attributes, which hold
the list, carry a hash of themselves.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zarr

from ask_dask.store.arrays import fingerprint
from ask_dask.store.attributes import KEY, about, describe

METADATA = "zarr.json"


def close(group: zarr.Group, path: Path) -> None:
    """Write the list of files, the last thing that is written into a store."""
    describe(group, complete=True, listed=dict(_files(path)))
    describe(group, seal=_seal(about(group)))


def members(attributes: dict[str, Any]) -> list[str]:
    """Names of all arrays and groups of a store."""
    return sorted(name.removesuffix(f"/{METADATA}") for name in attributes["listed"] if name.endswith(f"/{METADATA}"))


def wrong(path: Path) -> list[str]:
    """What of a complete store is missing, cut short or changed, in words; chunks are not read."""
    attributes = json.loads((path / METADATA).read_text(encoding="utf-8"))["attributes"][KEY]
    if attributes.get("seal") != _seal(attributes):
        return [f"{METADATA} was changed after the store was made"]
    found, listed = dict(_files(path)), attributes["listed"]
    return [_difference(name, listed[name], found.get(name)) for name in listed if listed[name] != found.get(name)]


def _difference(name: str, listed: list[Any], found: list[Any] | None) -> str:
    if found is None:
        return f"{name} is missing"
    if found[0] != listed[0]:
        return f"{name} has {found[0]:,} bytes where {listed[0]:,} were written"
    return f"{name} was changed after the store was made"


def _files(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """(name, [bytes, hash of metadata or None]) of every file but the attributes that hold the list."""
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            if file != path / METADATA:
                digest = fingerprint(file.read_bytes()) if name == METADATA else None
                yield file.relative_to(path).as_posix(), [file.stat().st_size, digest]


def _seal(attributes: dict[str, Any]) -> str:
    """A hash of all attributes but itself."""
    values = {key: value for key, value in attributes.items() if key != "seal"}
    return fingerprint(json.dumps(values, sort_keys=True))

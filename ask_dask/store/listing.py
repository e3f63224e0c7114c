"""The list of a store's files that its attributes carry: what is missing, cut short, changed or added is named.

Chunks have checksums of their own, which the list repeats (`marks`); metadata, which zarr does not check, is hashed
here, and the attributes, which hold the list, carry a hash of themselves. So whatever is lost, damaged, exchanged or
put back by mistake is found; somebody who means to can write the list anew.
"""

import json
from typing import Any

import zarr

from ask_dask.errors import mask
from ask_dask.store.arrays import fingerprint
from ask_dask.store.attributes import KEY, about, describe
from ask_dask.store.marks import marks_of
from ask_dask.store.places import Place, files, read_all, read_bytes
from ask_dask.store.regular import METADATA


def close(group: zarr.Group, place: Place) -> None:
    """Write the list of files, the last thing that is written into a store."""
    listed = _files(place)
    names = [name.removesuffix(f"/{METADATA}") for name in listed if name.endswith(f"/{METADATA}")]
    for file, mark in marks_of(group, place, {name: size for name, (size, _) in listed.items()}, names).items():
        listed[file][1] = mark
    describe(group, complete=True, listed=listed)
    describe(group, seal=_seal(about(group)))


def members(attributes: dict[str, Any]) -> list[str]:
    """Names of all arrays and groups of a store."""
    return sorted(name.removesuffix(f"/{METADATA}") for name in attributes["listed"] if name.endswith(f"/{METADATA}"))


def wrong(place: Place) -> dict[str, str]:
    """Files of a complete store that are missing, cut short, changed or added, each with words; chunks are not read.

    Added is what zarr would open although the list does not have it: an array, a group, or a link to either.
    """
    attributes = json.loads(read_bytes(place / METADATA))["attributes"][KEY]
    if attributes.get("seal") != _seal(attributes):
        return {METADATA: f"{METADATA} was changed after the store was made"}
    try:
        found, listed = _files(place), attributes["listed"]
    except ValueError as error:  # metadata that are no file, or too large
        return {METADATA: mask(str(error))}
    differ = {}
    for name in sorted(listed):
        now = found.get(name)
        if now is None or now[0] != listed[name][0] or (now[1] is not None and now != listed[name]):
            differ[name] = _difference(name, listed[name], now)
    added = [name for name in found if name.endswith("/") or (name.endswith(f"/{METADATA}") and name not in listed)]
    return differ | {name: f"{name} was added after the store was made" for name in added}


def _difference(name: str, listed: list[Any], found: list[Any] | None) -> str:
    if found is None:
        return f"{name} is missing"
    if found[0] != listed[0]:
        return f"{name} has {found[0]:,} bytes where {listed[0]:,} were written"
    return f"{name} was changed after the store was made"


def _files(place: Place) -> dict[str, list[Any]]:
    """Return {name: [bytes, hash of metadata or None]} of every file but the attributes that hold the list."""
    sizes = {name: size for name, size in files(place).items() if name != METADATA}
    texts = read_all(place, [name for name in sizes if name.endswith(f"/{METADATA}")])
    return {name: [size, fingerprint(texts[name]) if name in texts else None] for name, size in sizes.items()}


def _seal(attributes: dict[str, Any]) -> str:
    """A hash of all attributes but itself."""
    values = {key: value for key, value in attributes.items() if key != "seal"}
    return fingerprint(json.dumps(values, sort_keys=True))

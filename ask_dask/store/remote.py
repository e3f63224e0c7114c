"""Writing a store on object storage, where nothing can be renamed.

    STORE/zarr.json      a group whose attributes name the current version; put last, and that is the publishing
    STORE/v-1a2b3c4d/    the data of that version: a store as on a file system
    STORE/lease-1        while a job writes (see `leases`)

So an earlier result is whole until the very put that replaces it, and what was interrupted is never pointed to.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import zarr

from ask_dask.errors import StoreError
from ask_dask.store import listing
from ask_dask.store.attributes import KEY, describe
from ask_dask.store.leases import writer
from ask_dask.store.paths import METADATA, data_place, refuse_existing
from ask_dask.store.places import LEASE, VERSION, Url, contents, reaching, remove, zarr_store


@contextmanager
def create(place: Url, schema: str, overwrite: bool, begun: dict[str, Any]) -> Iterator[zarr.Group]:
    """As `publish.create`, with the facts that the store begins with."""
    refuse_existing(place, overwrite, schema)
    with reaching(place), writer(place) as require_lease:
        before = data_place(place).name
        _remove(place, {name for name in contents(place) if VERSION.fullmatch(name)} - {before})  # of jobs killed
        version = f"v-{uuid.uuid4().hex[:8]}"
        try:
            group = zarr.open_group(zarr_store(place / version), mode="w-", zarr_format=3)
            describe(group, **begun)
            yield group
            listing.close(group, place / version)
            require_lease()
            refuse_existing(place, overwrite)  # another run may have published there meanwhile
            (place / METADATA).write_bytes(_pointer(version))
        except BaseException:
            with suppress(StoreError):
                if data_place(place).name != version:  # else it was published, and then interrupted
                    remove(place / version)
            raise
        with suppress(StoreError):  # what is left is removed by the next writing
            _remove(place, {name for name in contents(place) if not LEASE.fullmatch(name)} - {METADATA, version})


def _pointer(version: str) -> bytes:
    attributes = {KEY: {"current": version}}
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}).encode()


def _remove(place: Url, names: set[str]) -> None:
    for name in names:
        remove(place / name / METADATA)  # first, see `sealed`
        remove(place / name)

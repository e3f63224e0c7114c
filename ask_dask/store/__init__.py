"""zarr v3 layout of every store: schema and version, checksummed chunks, atomic publish, fingerprints.

A store is a directory with one zarr group. Its attributes hold, under `ask_dask`, the schema (dataset, model,
embedding, predictions or checkpoint), the version, who made it from what, what was measured while it was made, and a
list of its files. It is written under a temporary name beside its place and renamed when whole; on object storage,
where nothing can be renamed, it is pointed to when whole. So a half-written store is never taken for a complete one.
Nothing in it is pickled: arrays of numbers and fixed-width text, and JSON.
"""

from ask_dask.store.arrays import (
    QUICK,
    Readable,
    array,
    create_aligned,
    create_array,
    create_marks,
    fingerprint,
    place,
    read,
    rows_of_shard,
    subgroup,
    take,
    write_array,
)
from ask_dask.store.attributes import VERSIONS, about, describe
from ask_dask.store.checkpoint import Checkpoint, Parts
from ask_dask.store.opening import look_over, open_matrix, open_store, origin, stored_bytes
from ask_dask.store.paths import local, refuse_existing
from ask_dask.store.places import (
    Url,
    files,
    is_failure,
    is_of_library,
    last_written,
    located,
    opened,
    reaching,
    read_bytes,
    remove,
    zarr_store,
)
from ask_dask.store.publish import create, open_work, work_of
from ask_dask.store.room import require_room, within
from ask_dask.store.signals import ENDING, undisturbed
from ask_dask.store.state import checkpoint_of, state

__all__ = [
    "ENDING",
    "QUICK",
    "VERSIONS",
    "Checkpoint",
    "Parts",
    "Readable",
    "Url",
    "about",
    "array",
    "checkpoint_of",
    "create",
    "create_aligned",
    "create_array",
    "create_marks",
    "describe",
    "files",
    "fingerprint",
    "is_failure",
    "is_of_library",
    "last_written",
    "local",
    "located",
    "look_over",
    "open_matrix",
    "open_store",
    "open_work",
    "opened",
    "origin",
    "place",
    "reaching",
    "read",
    "read_bytes",
    "refuse_existing",
    "remove",
    "require_room",
    "rows_of_shard",
    "state",
    "stored_bytes",
    "subgroup",
    "take",
    "undisturbed",
    "within",
    "work_of",
    "write_array",
    "zarr_store",
]

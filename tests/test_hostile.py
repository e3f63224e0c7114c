"""Stores of a stranger: what they claim is not believed, and what they hold cannot run."""

import json
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import zarr
from commands import refused

from ask_dask import store
from ask_dask.errors import StoreError
from ask_dask.store import listing


def write(path):
    with store.create(path, "dataset") as group:
        store.create_array(group, "X", (5000, 3), np.float32)[:] = 1
    return Path(path)


def hostile(path, **change):
    """A store whose array X claims something else, with the hashes that its maker would give it."""
    file = path / "X" / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    listing.close(zarr.open_group(path), path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shape": [10**15, 3]}, "X claims chunks of .* and [0-9,]+ parts, which ask-dask does not write"),
        ({"shape": [10**15, 3], "codecs": [{"name": "bytes"}], "chunk_grid": {
            "name": "regular", "configuration": {"chunk_shape": [10**14, 3]}}}, "X claims chunks of [0-9.]+ GiB"),
        ({"data_type": "object"}, "X cannot be opened"),
        ({"shape": [10**9, 3], "codecs": [{"name": "bytes"}], "chunk_grid": {
            "name": "regular", "configuration": {"chunk_shape": [1, 3]}}}, "X claims .* and 1,000,000,000 parts"),
        ({"codecs": [{"name": "pickle"}]}, "X cannot be opened"),
        ({"codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 9}}]}, "is packed by GzipCodec"),
        ({"codecs": [{"name": "numcodecs.pickle"}]}, "X cannot be opened"),
        ({"data_type": {"name": "numpy.object_", "configuration": {}}}, "X cannot be opened"),
    ],
)  # fmt: skip
def test_a_hostile_store_is_not_taken(tmp_path, ask, change, said):
    path = write(tmp_path / "s.zarr")
    hostile(path, **change)
    with pytest.raises(StoreError, match=said):
        store.open_store(path)
    assert refused(ask("info", path), "s.zarr is")


def test_a_chunk_that_would_fill_the_memory_is_refused(tmp_path):
    """A few hundred bytes that stand for 256 MiB, with the checksum that their maker gives them."""
    path = write(tmp_path / "s.zarr")
    bomb = zarr.create_array(
        tmp_path / "b", shape=1 << 25, chunks=(1 << 25,), dtype=float, compressors=store.QUICK, fill_value=1
    )
    bomb[:] = 0
    group = zarr.open_group(path)
    del group["X"]
    made = group.create_array("X", shape=(5000, 3), dtype=float, chunks=(5000, 3), compressors=store.QUICK)
    made[:] = 1
    shutil.copy(tmp_path / "b" / "c" / "0", path / "X" / "c" / "0" / "0")
    listing.close(group, path)
    array = store.array(store.open_store(path), "X")
    assert (path / "X" / "c" / "0" / "0").stat().st_size < 2 << 20
    tracemalloc.start()
    with pytest.raises(StoreError, match=r"X is damaged .*\(a chunk claims 256.0 MiB and its shape needs 117.2 KiB\)"):
        store.read(array)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_names_that_lead_out_of_the_store_are_not_followed(tmp_path):
    path = write(tmp_path / "s.zarr")
    (tmp_path / "secret").write_text("mine")
    group = zarr.open_group(path)
    listed = store.about(group)["listed"] | {"../secret": [4, None], "/etc/passwd": [1, None]}
    store.describe(group, listed=listed)
    store.describe(group, seal=listing._seal(store.about(group)))
    with pytest.raises(StoreError, match=r"\.\./secret is missing"):
        store.open_store(path)


def test_nothing_is_pickled(tmp_path):
    path = write(tmp_path / "s.zarr")
    with pytest.raises(ValueError, match="object"):
        store.write_array(zarr.open_group(path), "objects", np.array([{}, None], object))
    for file in path.rglob("zarr.json"):
        text = file.read_text().lower()
        assert "pickle" not in text and "vlen" not in text
        for codec in json.loads(text).get("codecs", []):
            assert codec["name"] in {"bytes", "blosc", "crc32c", "sharding_indexed"}

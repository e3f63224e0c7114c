"""Stores that somebody has changed are refused; a failure that passes is not called damage."""

import errno
import gzip
import json
import os
import tracemalloc

import fsspec
import google_crc32c
import numcodecs
import numpy as np
import pytest
import zarr
from commands import refused

from ask_dask import AsKLSClassifier, load, store
from ask_dask.errors import StoreError
from ask_dask.kernels import SNE
from ask_dask.store import listing
from ask_dask.store.regular import Folder

rng = np.random.default_rng(0)


# ------------------------------------------------------------------------------------------------- chunks out of place
@pytest.fixture(params=["disk", "memory", "s3"])
def place(request, tmp_path):
    """An empty place on a disk or on object storage."""
    return str(tmp_path) if request.param == "disk" else request.getfixturevalue(request.param)


def files_of(url):
    """The chunk files of a store's array X, at its current version, by name."""
    fs, path = fsspec.core.url_to_fs(url)
    fs.invalidate_cache()
    return fs, sorted(name for name in fs.find(path) if "/X/c/" in name)


def write(path, change=0.0, shard=4096):
    """Four chunks of rows, in shards of so many rows; chunks do not compress, so that all have one size."""
    with store.create(path, "dataset", overwrite=True) as group:
        values = rng.normal(size=(8192, 2)) + change
        made = group.create_array(
            "X", shape=values.shape, dtype=float, chunks=(2048, 2), shards=(shard, 2) if shard else None,
            compressors=[zarr.codecs.Crc32cCodec()],
        )  # fmt: skip
        made[:] = values
    return values


def is_found(path):
    """Both who reads the store and who verifies it say so."""
    with pytest.raises(StoreError, match=r"X is damaged between rows|is damaged, "):
        store.read(store.array(store.open_store(path), "X"))
    return True


def test_what_nobody_changed_is_read(place):
    values = write(f"{place}/s.zarr")
    np.testing.assert_array_equal(store.read(store.array(store.open_store(f"{place}/s.zarr"), "X")), values)


@pytest.mark.parametrize("shard", [4096, None], ids=["sharded", "unsharded"])
def test_files_that_changed_places_are_found(place, shard):
    path = f"{place}/s.zarr"
    write(path, shard=shard)
    fs, names = files_of(path)
    one, other = fs.cat_file(names[0]), fs.cat_file(names[1])
    assert len(one) == len(other)
    fs.pipe_file(names[0], other)
    fs.pipe_file(names[1], one)
    assert is_found(path)


@pytest.mark.parametrize("shard", [4096, None], ids=["sharded", "unsharded"])
def test_a_file_of_an_older_store_is_found(place, shard):
    path = f"{place}/s.zarr"
    write(path, shard=shard)
    fs, names = files_of(path)
    old = fs.cat_file(names[1])
    write(path, change=1.0, shard=shard)
    fs, names = files_of(path)
    assert len(old) == len(fs.cat_file(names[1]))
    fs.pipe_file(names[1], old)
    assert is_found(path)


def test_chunks_that_changed_places_in_a_shard_are_found(place):
    path = f"{place}/s.zarr"
    write(path, shard=8192)
    fs, (name,) = files_of(path)
    content = bytearray(fs.cat_file(name))
    index = np.frombuffer(content[-4 * 16 - 4 : -4], "<u8").reshape(4, 2)[[1, 0, 2, 3]].tobytes()
    content[-4 * 16 - 4 :] = index + google_crc32c.value(index).to_bytes(4, "little")
    fs.pipe_file(name, bytes(content))
    assert is_found(path)


def test_chunks_of_a_model_that_changed_places_are_found(tmp_path, ask):
    X = rng.normal(size=(200, 3)).astype("f4")
    AsKLSClassifier(SNE(1.0), 1.0, 20, cv=2, random_state=0).fit(X, np.arange(200) % 2).save(tmp_path / "m.zarr")
    one, other = (tmp_path / "m.zarr" / f"coefficients_{role}" / "c" / "0" / "0" for role in ("source", "target"))
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    with pytest.raises(StoreError, match="is damaged"):
        load(tmp_path / "m.zarr")
    assert ask("verify", tmp_path / "m.zarr")[0] == 1


# ------------------------------------------------------------------------------------------------------- false damage
PASSING = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENOMEM, "Cannot allocate memory"),
           RuntimeError("can't start new thread"), MemoryError("no more")]  # fmt: skip


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_runs_out_for_now_is_not_called_damage(tmp_path, monkeypatch, error):
    write(tmp_path / "s.zarr")
    array = store.array(store.open_store(tmp_path / "s.zarr"), "X")

    async def fail(*_, **__):
        raise error

    monkeypatch.setattr(Folder, "get", fail)
    with pytest.raises((StoreError, MemoryError)) as told:
        store.read(array)
    assert "damaged" not in str(told.value)
    with pytest.raises((StoreError, MemoryError)) as told:
        store.open_store(tmp_path / "s.zarr")
    assert "damaged" not in str(told.value)


# ------------------------------------------------------------------------------------------------------ regular files
def endless(path):
    path.symlink_to("/dev/zero")


def full_of_holes(path):
    path.touch()
    os.truncate(path, 30 << 30)


STRANGE = {"device": endless, "pipe": os.mkfifo, "holes": full_of_holes}


@pytest.mark.parametrize("name", ["zarr.json", "X/zarr.json", "X/c/0/0"])
@pytest.mark.parametrize("put", STRANGE.values(), ids=STRANGE)
def test_a_file_that_is_none_is_refused(tmp_path, ask, name, put):
    write(tmp_path / "s.zarr")
    (tmp_path / "s.zarr" / name).unlink()
    put(tmp_path / "s.zarr" / name)
    code, out, err = ask("verify", tmp_path / "s.zarr")
    assert code == 1 and "s.zarr" in out + err and "unforeseen" not in out + err


@pytest.mark.parametrize("put", STRANGE.values(), ids=STRANGE)
def test_a_job_file_that_is_none_is_refused(tmp_path, ask, put):
    put(tmp_path / "job.toml")
    assert refused(ask("run", tmp_path / "job.toml"), "job.toml")


# --------------------------------------------------------------------------------------------------------------- room
def packed(path, codec, content, n):
    """A zarr array of one n x n chunk of bytes, with whatever its chunk holds."""
    (path / "c" / "0").mkdir(parents=True)
    (path / "c" / "0" / "0").write_bytes(content)
    about = {
        "shape": [n, n], "data_type": "uint8", "fill_value": 0, "attributes": {}, "zarr_format": 3,
        "node_type": "array",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [n, n]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes"}, codec],
    }  # fmt: skip
    (path / "zarr.json").write_text(json.dumps(about))
    return path


PACKED = {
    "gzip": ({"name": "gzip", "configuration": {"level": 9}}, gzip.compress),
    "zstd": ({"name": "zstd", "configuration": {"level": 3, "checksum": False}},
             lambda content: numcodecs.Zstd(3).encode(content)),
}  # fmt: skip


@pytest.mark.parametrize(("codec", "pack"), PACKED.values(), ids=PACKED)
def test_a_chunk_of_a_matrix_expands_to_its_shape_at_most(tmp_path, codec, pack):
    small = store.open_matrix(packed(tmp_path / "small", codec, pack(bytes(range(256)) * 256), 256))
    assert store.read(small, 0, 1).tolist() == [list(range(256))]
    bomb = store.open_matrix(packed(tmp_path / "bomb", codec, pack(bytes(200 << 20)), 256))
    tracemalloc.start()
    with pytest.raises(StoreError, match=r"a chunk .* expands to more than|a chunk claims"):
        store.read(bomb)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_chunks_beyond_the_memory_budget_are_refused(tmp_path, ask):
    n = 20_000  # 381 MiB
    packed(tmp_path / "m.zarr", *PACKED["gzip"][:1], gzip.compress(b""), n)
    (tmp_path / "t.csv").write_text("i,y\n" + "".join(f"{i},{i % 2}\n" for i in range(100)))
    assert ask("ingest", "table", tmp_path / "t.csv", "--label", "y", "--to", tmp_path / "d.zarr")[0] == 0
    fit = ("fit", "--data", tmp_path / "d.zarr", "--kernel", "precomputed", "--matrix", tmp_path / "m.zarr", "--to",
           tmp_path / "o.zarr", "--n-landmarks", "10", "--memory", "300MiB", "--quiet")  # fmt: skip
    assert refused(ask(*fit), "m.zarr is not taken: it claims chunks of 381.5 MiB and 1 parts, and at most 300.0 MiB")


def test_a_whole_array_beyond_the_memory_budget_is_refused(tmp_path):
    """Zeros that no chunk holds."""
    with store.create(tmp_path / "s.zarr", "dataset") as group:
        group.create_array("X", shape=(1 << 24, 2), dtype=float, chunks=(1 << 18, 2), compressors=store.QUICK)
    array = store.array(store.open_store(tmp_path / "s.zarr"), "X")
    with (
        store.within(200 << 20),
        pytest.raises(StoreError, match=r"X takes 256.0 MiB of memory, and there are 200.0 MiB"),
    ):
        store.read(array)
    with store.within(300 << 20):
        assert store.read(array, 0, 10).shape == (10, 2)


@pytest.mark.parametrize("claimed", ["<U1000000000", "<V99", "object", "(1000000,)f8", 7, "nonsense"])
def test_a_dtype_of_classes_that_would_fill_the_memory_is_refused(tmp_path, claimed):
    X = rng.normal(size=(200, 3))
    AsKLSClassifier(SNE(1.0), 1.0, 20, cv=2, random_state=0).fit(X, np.arange(200) % 2).save(tmp_path / "m.zarr")
    group = zarr.open_group(tmp_path / "m.zarr")
    store.describe(group, classes_dtype=claimed)
    listing.close(group, tmp_path / "m.zarr")
    if claimed == "object":
        assert load(tmp_path / "m.zarr").classes_.dtype == object
        return
    with pytest.raises(StoreError, match=r"m.zarr is not taken: its classes_dtype is '.*', and no dtype of labels"):
        load(tmp_path / "m.zarr")


def test_metadata_that_nests_without_end_is_refused(tmp_path, ask):
    write(tmp_path / "s.zarr")
    (tmp_path / "s.zarr" / "zarr.json").write_text("[" * 100_000 + "]" * 100_000)
    assert refused(ask("info", tmp_path / "s.zarr"), "s.zarr is not a store that ask-dask wrote")
    (tmp_path / "job.toml").write_text("a = " + "[" * 100_000 + "]" * 100_000)
    assert refused(ask("run", tmp_path / "job.toml"), "job.toml")


@pytest.mark.parametrize("number", [10**400, -1, 2**63])
def test_numbers_without_bounds_are_refused(tmp_path, ask, number):
    write(tmp_path / "s.zarr")
    file = tmp_path / "s.zarr" / "X" / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"shape": [number, 2]}))
    group = zarr.open_group(tmp_path / "s.zarr")
    store.describe(group, listed=listing._files(tmp_path / "s.zarr"))
    store.describe(group, seal=listing._seal(store.about(group)))
    assert refused(ask("info", tmp_path / "s.zarr"), "s.zarr is ")

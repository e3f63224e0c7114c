"""Stores: whole or not there, checked when read, replaced only by their own kind, and never code."""

import errno
import fcntl
import json
import pickle
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import zarr
from machines import program

from ask_dask import budget, store
from ask_dask.errors import StoreError
from ask_dask.store import publish

NAMES = ("X", "y", "small")


def write(path, value=1.0, rows=5000, schema="dataset", overwrite=False):
    with store.create(path, schema, overwrite) as group:
        made = store.create_aligned(group, {"X": ((rows, 3), np.float32), "y": ((rows,), np.int8)})
        made["X"][:] = np.arange(rows * 3).reshape(-1, 3) + value
        made["y"][:] = np.arange(rows) % 2 + 1
        store.write_array(group, "small", np.arange(1.0, 9))
        store.describe(group, value=value)
    return Path(path)


@pytest.fixture
def sharded(tmp_path, monkeypatch):
    """A store of several shards of several chunks."""
    monkeypatch.setattr(budget, "CHUNK_BYTES", 1)
    monkeypatch.setattr(budget, "SHARD_BYTES", 2 * 2048 * 12)
    path = write(tmp_path / "s.zarr")
    assert zarr.open_group(path, mode="r")["X"].shards == (4096, 3)
    return path


def chunk_files(path):
    return sorted(file for file in path.rglob("*") if file.is_file() and file.name != "zarr.json")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["plain.zarr", "with space", "ünïcode-数据.zarr", "deep/er/store", "~"])
def test_any_path_is_taken_as_it_is(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for path in (name, tmp_path / "absolute" / name):
        write(path)
        assert store.open_store(path, "dataset")["X"].shape == (5000, 3)
        assert store.about(store.open_store(path))["complete"]
        assert store.stored_bytes(path) > 1000
    assert names((tmp_path / name).parent) == sorted(
        {(tmp_path / name).name} | ({"absolute"} if "/" not in name else set())
    )


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3), OSError("no number")])
def test_a_failure_leaves_nothing_and_passes_through(tmp_path, error):
    def fail(overwrite):
        with store.create(tmp_path / "a.zarr", "dataset", overwrite) as group:
            store.write_array(group, "x", np.ones(3))
            assert [n for n in names(tmp_path) if "partial" in n]
            raise error

    with pytest.raises(type(error)) as caught:
        fail(False)
    assert caught.value is error and names(tmp_path) == []
    write(tmp_path / "a.zarr")
    with pytest.raises(type(error)):
        fail(True)
    assert names(tmp_path) == ["a.zarr"]
    assert store.about(store.open_store(tmp_path / "a.zarr"))["value"] == 1.0


def test_a_full_disk_is_said_in_one_sentence(tmp_path):
    said = r"Cannot write .*a.zarr: No space left on device; nothing was published"
    with pytest.raises(StoreError, match=said), store.create(tmp_path / "a.zarr", "dataset"):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []


def test_a_half_written_store_is_not_taken_for_a_whole_one(tmp_path):
    with store.create(tmp_path / "a.zarr", "dataset"):
        (partial,) = (path for path in tmp_path.iterdir() if ".partial-" in path.name)
        with pytest.raises(StoreError, match="was never finished"):
            store.open_store(partial)
        with pytest.raises(StoreError, match="There is no store"):
            store.open_store(tmp_path / "a.zarr")
    assert names(tmp_path) == ["a.zarr"]


def test_overwrite_swaps_the_whole_store(tmp_path):
    path = write(tmp_path / "a.zarr", 1.0, rows=5000)
    before = store.open_store(path)
    with pytest.raises(StoreError, match="exists already: choose another place, or pass --overwrite"):
        write(path)
    with store.create(path, "dataset", overwrite=True) as group:
        assert store.about(store.open_store(path))["value"] == before.attrs["ask_dask"]["value"]
        store.write_array(group, "other", np.ones(2))
    assert set(store.open_store(path)) == {"other"}
    assert names(tmp_path) == ["a.zarr"]


def test_a_failed_swap_puts_the_old_store_back(tmp_path, monkeypatch):
    path = write(tmp_path / "a.zarr")
    rename = Path.rename

    def fail(self, target):
        if "partial" in self.name:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(StoreError, match="Input/output error"):
        write(path, 2.0, overwrite=True)
    assert store.about(store.open_store(path))["value"] == 1.0 and names(tmp_path) == ["a.zarr"]


def test_overwrite_replaces_only_a_store_of_the_same_kind(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("more")
    zarr.open_group(tmp_path / "foreign", mode="w", zarr_format=3)
    write(tmp_path / "model", schema="model")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("folder", "file", "foreign", "model", "link"):
        with pytest.raises(StoreError, match=f"{name} is no dataset store, so it is not replaced"):
            write(tmp_path / name, overwrite=True)
    assert (tmp_path / "folder" / "thesis.txt").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", overwrite=True)
    assert store.open_store(tmp_path / "empty")


def test_a_link_is_replaced_and_what_it_points_to_is_kept(tmp_path):
    write(tmp_path / "real.zarr")
    (tmp_path / "link.zarr").symlink_to("real.zarr")
    write(tmp_path / "link.zarr", 2.0, overwrite=True)
    values = [store.about(store.open_store(tmp_path / name))["value"] for name in ("real.zarr", "link.zarr")]
    assert values == [1.0, 2.0] and names(tmp_path) == ["link.zarr", "real.zarr"]


@pytest.mark.parametrize("place", ["file/below", "/proc/x.zarr", "/proc/no/x.zarr", "x" * 300])
def test_places_that_cannot_be_written(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises((StoreError, OSError), match=r"Cannot write .*choose another place|too long"):
        write(tmp_path / place)
    assert names(tmp_path) == ["file"]


def test_a_flipped_byte_anywhere_in_any_chunk_is_found(sharded):
    rng = np.random.default_rng(0)
    whole = {name: store.open_store(sharded)[name][:] for name in NAMES}
    for file in chunk_files(sharded):
        content = file.read_bytes()
        name = file.relative_to(sharded).parts[0]
        places = np.unique(np.r_[0, len(content) // 2, len(content) - 1, rng.integers(len(content), size=5)])
        for place in places:
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.integers(8)
            file.write_bytes(damaged)
            with pytest.raises(StoreError, match=f"s.zarr/{name} is damaged") as caught:
                store.read(store.array(store.open_store(sharded), name))
            assert "\n" not in str(caught.value)
        file.write_bytes(content[: len(content) // 2])
        cut = rf"s.zarr is damaged, {name}/c[/\d]+ has [\d,]+ bytes where {len(content):,}"
        with pytest.raises(StoreError, match=cut):
            store.open_store(sharded)
        file.write_bytes(content)
    for name in NAMES:
        np.testing.assert_array_equal(store.read(store.open_store(sharded)[name]), whole[name])


def test_a_missing_chunk_is_no_zeros(sharded):
    for file in chunk_files(sharded):
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(StoreError, match=f"s.zarr is damaged, {file.relative_to(sharded)} is missing: copy it"):
            store.open_store(sharded)
        file.write_bytes(content)
    assert store.open_store(sharded)


@pytest.mark.parametrize("read", [store.read, lambda array: store.take(array, np.arange(5000))])
def test_a_chunk_that_goes_missing_after_opening_is_no_zeros(sharded, read):
    """By its own name, of a handle that a worker has too; what is in other chunks is read."""
    group = pickle.loads(pickle.dumps(store.open_store(sharded)))
    array = group["X"]
    (sharded / "y" / "c" / "1").unlink()
    with pytest.raises(StoreError, match=r"s.zarr/y is damaged between rows 4096 and 5000 \(y/c/1 is missing\)"):
        read(group["y"])
    assert store.read(group["y"], 0, 4096).all() and read(array).any()
    shutil.rmtree(sharded)
    with pytest.raises(StoreError, match=r"s.zarr/X was replaced or removed while it was read: start again"):
        read(array)


def test_chunks_of_zeros_need_no_file(tmp_path):
    with store.create(tmp_path / "a.zarr", "dataset") as group:
        store.create_array(group, "X", (100, 2), np.float32)[:] = 0
    assert not chunk_files(tmp_path / "a.zarr")
    np.testing.assert_array_equal(store.read(store.open_store(tmp_path / "a.zarr")["X"]), np.zeros((100, 2)))


def test_damaged_metadata_is_found_whatever_byte_it_is(sharded):
    """Of an array and of the store itself, where a flipped byte may leave JSON that says something else."""
    rng = np.random.default_rng(0)
    for file, said in ((sharded / "X" / "zarr.json", "X/zarr.json was changed"), (sharded / "zarr.json", "zarr.json")):
        content = file.read_bytes()
        for place in rng.integers(len(content), size=60):
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.integers(7)
            file.write_bytes(damaged)
            try:
                store.open_store(sharded)
            except StoreError as error:
                assert said in str(error) or file.parent == sharded
            else:  # space for space, or a name that was escaped in another way
                assert json.loads(damaged) == json.loads(content)
        file.write_bytes(content[:-20])
        with pytest.raises(StoreError, match=r"s.zarr is (damaged, X/zarr.json has|not a store)"):
            store.open_store(sharded)
        file.write_bytes(content)
    (sharded / "X" / "zarr.json").unlink()
    with pytest.raises(StoreError, match=r"X/zarr.json is missing"):
        store.open_store(sharded)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "is a dataset store of version 99 and this release reads version 4"),
        ({"schema": "spell"}, "is a spell store of version 4 and this release reads version none"),
        ({"complete": False}, "was never finished"),
        ({"version": None}, "version None"),
    ],
)
def test_unknown_kinds_and_versions(sharded, change, message):
    text = json.loads((sharded / "zarr.json").read_text())
    text["attributes"]["ask_dask"] |= change
    (sharded / "zarr.json").write_text(json.dumps(text))
    with pytest.raises(StoreError, match=message):
        store.open_store(sharded)


def test_what_is_no_store(tmp_path):
    write(tmp_path / "d.zarr")
    with pytest.raises(StoreError, match="is a dataset store, where a model store is needed"):
        store.open_store(tmp_path / "d.zarr", "model")
    zarr.create_array(tmp_path / "array.zarr", data=np.ones(3))
    zarr.open_group(tmp_path / "group.zarr", mode="w", zarr_format=3)
    zarr.open_group(tmp_path / "two.zarr", mode="w", zarr_format=2)
    odd = zarr.open_group(tmp_path / "odd.zarr", mode="w", zarr_format=3)
    odd.attrs["ask_dask"] = "a string"
    for number, schema in enumerate([[], {}, 5, "", None]):
        of_no_kind = zarr.open_group(tmp_path / f"kind{number}.zarr", mode="w", zarr_format=3)
        of_no_kind.attrs["ask_dask"] = {"schema": schema, "version": 2, "complete": True}
    for name, text in (("broken", '{"zarr_format": 3'), ("deep", "[" * 100_000)):
        (tmp_path / f"{name}.zarr").mkdir()
        (tmp_path / f"{name}.zarr" / "zarr.json").write_text(text)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("hello")
    wrong = [path for path in tmp_path.iterdir() if path.name != "d.zarr"]
    assert len(wrong) == 13
    for path in wrong:
        with pytest.raises(StoreError, match=f"{path.name} is not a store that ask-dask wrote"):
            store.open_store(path)
    with pytest.raises(StoreError, match="There is no store"):
        store.open_store(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"has no array 'Z'"):
        store.array(store.open_store(tmp_path / "d.zarr"), "Z")
    with pytest.raises(StoreError, match=r"has no group 'X'"):
        store.subgroup(store.open_store(tmp_path / "d.zarr"), "X")


def test_arrays_over_the_same_rows_are_cut_alike(sharded):
    group = store.open_store(sharded)
    assert group["y"].shards[0] == group["X"].shards[0] and group["y"].chunks[0] == group["X"].chunks[0] == 2048
    assert store.read(group["X"], 4990, 5000).shape == (10, 3)


def test_fingerprints_tell_content_type_and_shape_apart():
    one = np.arange(6, dtype=np.int32)
    others = [one.astype(np.int64), one.reshape(2, 3), one + 1, one.view(np.float32), "x", b"x", None]
    assert len({store.fingerprint(part) for part in (one, *others)}) == 1 + len(others) - 1  # "x" equals b"x"
    assert store.fingerprint(one) == store.fingerprint(np.repeat(one, 2)[::2])
    assert store.fingerprint("a", "b") != store.fingerprint("ab")


def test_a_second_job_is_refused_before_it_works(tmp_path):
    place = tmp_path / "p.zarr"
    with store.create(place, "predictions") as first:
        second = store.create(place, "predictions", overwrite=True)
        with pytest.raises(StoreError, match=r"p\.zarr is being written by another job: wait for it"), second:
            raise AssertionError
        with store.create(tmp_path / "q.zarr", "predictions"):
            store.write_array(first, "score", np.ones(3))
    assert store.open_store(place)["score"][:].sum() == 3
    assert names(tmp_path) == ["p.zarr", "q.zarr"]


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_a_second_job_is_refused_where_the_file_system_has_no_locks(tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unknown)
    test_a_second_job_is_refused_before_it_works(tmp_path)


KILLED = """
import os, signal, sys
from ask_dask import store
from pathlib import Path
rename = Path.rename
def die(self, target):
    if self.name.startswith(".p.zarr.partial-"):
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
Path.rename = die
with store.create("p.zarr", "predictions", overwrite=True) as group:
    store.describe(group, value="new")
"""


@pytest.mark.parametrize("there", [False, True])
def test_what_a_killed_job_left_is_put_in_order_by_the_next(tmp_path, there):
    """Killed between the two renames of a swap: the worst moment."""
    if there:
        write(tmp_path / "p.zarr", schema="predictions")
    assert program(tmp_path, KILLED).ended()[0] == -signal.SIGKILL
    left = names(tmp_path)
    assert len(left) == 2 + there and not (tmp_path / "p.zarr").exists()
    with pytest.raises(ValueError, match="mine"), store.create(tmp_path / "p.zarr", "predictions"):
        raise ValueError("mine")
    assert names(tmp_path) == ["p.zarr"] * there
    assert not there or store.about(store.open_store(tmp_path / "p.zarr"))["value"] == 1.0


def test_what_was_replaced_goes_even_when_that_is_interrupted(tmp_path, monkeypatch):
    path, removed = write(tmp_path / "s.zarr"), []

    def interrupt_once(old):
        removed.append(old)
        if len(removed) == 1:
            raise KeyboardInterrupt
        discard(old)

    discard = publish._discard
    monkeypatch.setattr(publish, "_discard", interrupt_once)
    with pytest.raises(KeyboardInterrupt):
        write(path, value=2.0, overwrite=True)
    assert store.about(store.open_store(path))["value"] == 2.0 and names(tmp_path) == ["s.zarr"]


def test_text_is_stored_without_a_warning(tmp_path, recwarn):
    with store.create(tmp_path / "t.zarr", "dataset") as group:
        store.write_array(group, "few", np.array(["a", "bc"]))
        store.create_array(group, "many", (2,), "U2")[:] = ["d", "ef"]
    found = store.open_store(tmp_path / "t.zarr")
    assert [*found["few"][:], *found["many"][:]] == ["a", "bc", "d", "ef"] and not recwarn.list

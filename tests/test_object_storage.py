"""Stores on object storage: published by a pointer, by one writer, whole or not there."""

import json
import os
import threading
import time
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from buckets import connect, objects

from ask_dask import AsKLSClassifier, load, store
from ask_dask.budget import size
from ask_dask.errors import StoreError
from ask_dask.store import leases, places, remote

RNG = np.random.default_rng(0)


@pytest.fixture
def soon(monkeypatch):
    """Dead writers are found out at once."""
    monkeypatch.setattr(leases, "RENEW", 0.1)
    monkeypatch.setattr(leases, "WATCH", 0.5)


def write(path, value=1.0, overwrite=False, schema="dataset"):
    with store.create(path, schema, overwrite) as group:
        store.create_array(group, "X", (5000, 3), np.float32)[:] = value
        store.write_array(group, "small", np.arange(3.0))
        store.describe(group, value=value, fingerprint=f"of {value}")
    return path


def value(path):
    group = store.open_store(path, "dataset")
    found = store.read(store.array(group, "X"))
    assert (found == store.about(group)["value"]).all()
    return store.about(group)["value"]


def test_a_store_is_what_it_is_on_a_disk(folder, tmp_path):
    write(f"{folder}/a.zarr")
    write(tmp_path / "a.zarr")
    here, there = store.open_store(tmp_path / "a.zarr"), store.open_store(Path(f"{folder}/a.zarr"), "dataset")
    assert set(store.about(here)["listed"]) == set(store.about(there)["listed"])
    assert store.stored_bytes(f"{folder}/a.zarr") == pytest.approx(store.stored_bytes(tmp_path / "a.zarr"), abs=9)
    np.testing.assert_array_equal(store.read(there["X"], 10, 20), store.read(here["X"], 10, 20))
    assert store.origin(there["X"].store_path) == store.origin(here["X"].store_path) == "of 1.0/X"
    assert store.place(there["X"]).startswith(folder.split(":")[0]) and store.place(there["X"]).endswith("/X")


def test_it_opens_where_it_is_copied_to_and_from(memory, tmp_path):
    fs, name = places.opened(write(f"{memory}/a.zarr"))
    fs.get(name, str(tmp_path / "copy.zarr"), recursive=True)
    assert value(tmp_path / "copy.zarr") == 1.0
    fs.put(str(write(tmp_path / "b.zarr", 2.0)), f"{name}-b", recursive=True)
    assert value(f"{memory}/a.zarr-b") == 2.0
    write(f"{memory}/a.zarr-b", 3.0, overwrite=True)
    assert value(f"{memory}/a.zarr-b") == 3.0
    assert {name[:2] for name in objects(f"{memory}/a.zarr-b")} == {"v-", "za"}  # a version, and the pointer


def test_nothing_is_replaced_unasked(memory):
    path = write(f"{memory}/a.zarr")
    with pytest.raises(StoreError, match=r"a\.zarr exists already: choose another place, or pass --overwrite"):
        write(path, 2.0)
    with pytest.raises(StoreError, match=r"a\.zarr is no model store, so it is not replaced"):
        write(path, 2.0, overwrite=True, schema="model")
    places.located(f"{memory}/notes/thesis.txt").write_bytes(b"years of work")
    for name in ("notes", "notes/thesis.txt"):
        with pytest.raises(StoreError, match="is no dataset store, so it is not replaced"):
            write(f"{memory}/{name}", overwrite=True)
    assert value(path) == 1.0 and places.located(f"{memory}/notes/thesis.txt").read_bytes() == b"years of work"


def test_overwriting_keeps_the_earlier_store_until_the_new_one_is_whole(folder):
    path = write(f"{folder}/a.zarr")
    with store.create(path, "dataset", overwrite=True) as group:
        store.write_array(group, "other", np.ones(2))
        assert value(path) == 1.0
    assert set(store.open_store(path)) == {"other"}
    assert len({name.split("/")[0] for name in objects(path)}) == 2  # the pointer, and one version


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_a_failure_leaves_what_was_there(memory, error):
    def fail(overwrite):
        with store.create(f"{memory}/a.zarr", "dataset", overwrite) as group:
            store.write_array(group, "x", np.ones(3))
            raise error

    with pytest.raises(type(error)) as caught:
        fail(False)
    assert caught.value is error and objects(f"{memory}/a.zarr") == []
    write(f"{memory}/a.zarr")
    before = objects(f"{memory}/a.zarr")
    with pytest.raises(type(error)):
        fail(True)
    assert objects(f"{memory}/a.zarr") == before and value(f"{memory}/a.zarr") == 1.0


def killed(path, overwrite, monkeypatch):
    """Leave what a job leaves that was killed while it wrote: objects of a version, and its lease."""

    class Killed(BaseException):
        pass

    with monkeypatch.context() as patched:
        for module, name in ((remote, "remove"), (leases, "remove")):
            patched.setattr(module, name, lambda place: None)
        with pytest.raises(Killed), store.create(path, "dataset", overwrite) as group:
            store.create_array(group, "X", (5000, 3), np.float32)[:] = 9
            raise Killed


def test_what_a_killed_job_left_does_not_open_and_is_in_nobodys_way(folder, soon, monkeypatch):
    path = f"{folder}/a.zarr"
    killed(path, False, monkeypatch)
    assert {name.split("/")[0][:6] for name in objects(path)} > {"lease-"}
    with pytest.raises(StoreError, match=r"a\.zarr was never finished: make it again"):
        store.open_store(path)
    assert value(write(path)) == 1.0  # the same command, without --overwrite
    killed(path, True, monkeypatch)
    assert value(path) == 1.0
    assert value(write(path, 2.0, overwrite=True)) == 2.0
    assert len({name.split("/")[0] for name in objects(path)}) == 2


def test_a_second_writer_is_refused(memory, soon):
    path = f"{memory}/a.zarr"
    said = rf"a\.zarr is being written by another job \(.*, process {os.getpid()}\): wait for it"
    with store.create(path, "dataset") as group:
        store.write_array(group, "x", np.ones(3))
        with pytest.raises(StoreError, match=said):
            write(path)
        write(f"{memory}/b.zarr")
    assert set(store.open_store(path)) == {"x"}


def test_status_tells_a_job_that_writes_from_one_that_was_killed(folder, soon, monkeypatch, ask, done):
    path = f"{folder}/a.zarr"
    with store.create(f"{folder}/b.zarr", "dataset") as group:
        found = done("status", f"{folder}/b.zarr")
        assert found["state"] == "running" and "last_sign" not in found
        store.write_array(group, "x", np.ones(3))
        written = done("status", f"{folder}/b.zarr")["written"]
        assert (written["parts"], written["parts_planned"]) == (1, 1) and written["bytes"] > 100
    before = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    killed(path, False, monkeypatch)
    found = done("status", path)
    assert (found["state"], found["goes_on"]) == ("stopped", False) and "made" not in found
    assert before <= found["last_sign"] <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    said = ask("status", path)[1]
    assert said == (
        f"{path}: stopped, and the same command starts again; no store is there\n"
        f"last sign of life: {found['last_sign']}\n"
        f"written so far: {size(found['written']['bytes'])}, 1 of 1 chunks\n"
    )
    places.located(f"{path}/lease-1").write_bytes(b"[7")  # of whom it may be
    assert done("status", path)["state"] == "stopped" and value(write(path)) == 1.0
    assert done("status", path)["state"] == "complete"


def test_of_many_writers_at_once_one_writes(folder, soon):
    path, ended = f"{folder}/a.zarr", []

    def work(number):
        try:
            with store.create(path, "dataset") as group:
                store.describe(group, number=number)
                time.sleep(0.5)
            ended.append(number)
        except StoreError as error:
            assert "is being written by another job" in str(error) or "exists already" in str(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [store.about(store.open_store(path))["number"]]


def test_a_writer_that_was_taken_for_dead_publishes_nothing(memory, soon, monkeypatch):
    path = f"{memory}/a.zarr"
    with pytest.raises(StoreError, match=r"a\.zarr was taken over by another job"):  # noqa: SIM117
        with store.create(path, "dataset") as group:
            with monkeypatch.context() as patched:  # it hangs, and renews nothing
                patched.setattr(leases.Lease, "put", lambda self, new=False: None)
                time.sleep(0.3)
            places.located(f"{path}/lease-2").write_bytes(b"{}")  # of the other job
            store.describe(group, value=1)
    with pytest.raises(StoreError, match="was never finished"):
        store.open_store(path)


@pytest.mark.parametrize("kind", ["memory", "s3", "tmp_path"])
def test_what_is_replaced_while_it_is_read_is_no_zeros(kind, request):
    """Nor is it what was written in its place."""
    path = write(f"{request.getfixturevalue(kind)}/a.zarr")
    before = store.array(store.open_store(path), "X")
    with store.create(path, "dataset", overwrite=True) as group:
        store.create_array(group, "X", (5000, 3), np.float32)[:] = 2
        assert store.read(before).all()
    with pytest.raises(StoreError, match=r"/X was replaced or removed while it was read: start again"):
        store.read(before)


@pytest.mark.parametrize("kind", ["memory", "s3", "tmp_path"])
@pytest.mark.parametrize("empty", [False, True])
def test_a_chunk_that_goes_missing_while_its_store_is_read_is_no_zeros(kind, request, empty):
    path = write(f"{request.getfixturevalue(kind)}/a.zarr")
    group = store.open_store(path)
    assert store.read(store.array(group, "X")).all()
    [version] = [name for name in places.contents(places.located(path)) if name.startswith("v-")] or [""]
    chunk = places.located(path) / version / "X/c/0/0"
    chunk.write_bytes(b"") if empty else places.remove(chunk)
    with pytest.raises(StoreError, match=r"/X is damaged between rows 0 and 5000 \(X/c/0/0 is missing\): make the"):
        store.read(store.array(group, "X"))


def test_a_store_that_was_copied_there_and_is_replaced_while_it_is_read_is_no_zeros(memory, tmp_path):
    write(tmp_path / "a.zarr")
    fs, place = places.opened(f"{memory}/a.zarr")
    fs.put(str(tmp_path / "a.zarr"), place, recursive=True)
    before = store.array(store.open_store(f"{memory}/a.zarr"), "X")
    assert store.read(before).all()
    write(f"{memory}/a.zarr", 2.0, overwrite=True)
    with pytest.raises(StoreError, match=r"/X (is damaged|was replaced)"):
        store.read(before)


def test_a_view_of_a_store_that_is_replaced_is_not_of_the_other(tmp_path):
    before = da.from_zarr(store.array(store.open_store(write(tmp_path / "a.zarr")), "X"))
    write(tmp_path / "a.zarr", 2.0, overwrite=True)
    with pytest.raises(FileNotFoundError, match="another store is at"):
        before.compute()


def test_damage_is_found_and_named(memory):
    path = write(f"{memory}/a.zarr")
    fs, name = places.opened(path)
    for found in fs.find(name):
        if "/X/" in found and not found.endswith("zarr.json"):
            content = fs.cat_file(found)
            fs.pipe_file(found, content[:50] + b"?" + content[51:])
            with pytest.raises(StoreError, match="/X is damaged between rows 0 and 5000"):
                value(path)
            fs.rm(found)
            with pytest.raises(StoreError, match=r"a\.zarr is damaged, X/c/0/0 is missing"):
                value(path)
            fs.pipe_file(found, content)
    assert value(path) == 1.0


def test_a_pointer_that_leads_out_of_the_store_is_not_followed(memory, tmp_path):
    write(f"{memory}/secret.zarr")
    write(tmp_path / "secret.zarr")
    for base in (memory, str(tmp_path)):
        for version in ("../secret.zarr", "v-../../x", "/etc", 3, ["v-1"]):
            text = {"zarr_format": 3, "node_type": "group", "attributes": {"ask_dask": {"current": version}}}
            if base == memory:
                places.located(f"{base}/a.zarr/zarr.json").write_bytes(json.dumps(text).encode())
            else:
                (tmp_path / "a.zarr").mkdir(exist_ok=True)
                (tmp_path / "a.zarr" / "zarr.json").write_text(json.dumps(text))
            with pytest.raises(StoreError, match=r"a\.zarr is not a store that ask-dask wrote"):
                store.open_store(f"{base}/a.zarr")


def test_places_that_cannot_be_used(monkeypatch, tmp_path):
    with pytest.raises(StoreError, match=r"nosuch://\*\*\*@host/a cannot be reached \(Protocol not known"):
        write("nosuch://me:secret@host/a")
    with pytest.raises(StoreError, match=r"There is no store at memory://nowhere: check the path"):
        store.open_store("memory://nowhere")
    assert value(write(f"file://{tmp_path}/a.zarr")) == value(tmp_path / "a.zarr") == 1.0
    with pytest.raises(StoreError, match="is a URL: give a local path"):
        store.local("s3://bucket/x")


@pytest.mark.parametrize("url", ["s3://", "s3:", "simplecache::s3://bucket/a.zarr", "filecache::https://host/a"])
def test_a_url_that_names_no_place_is_no_folder_here(tmp_path, monkeypatch, url):
    """As a path it would be: a person would look for the result in the bucket."""
    monkeypatch.chdir(tmp_path)
    for given in (url, Path(url)):
        with (
            pytest.raises(StoreError, match="names no place: give the URL of one file system"),
            store.create(given, "model"),
        ):
            pass
    assert not list(tmp_path.iterdir())


def test_a_bucket_that_is_not_there_and_a_server_that_does_not_answer(s3, monkeypatch):
    with pytest.raises(
        StoreError, match=r"s3://nosuch-bucket/a\.zarr/lease-1 cannot be written \(The specified bucket"
    ):
        write("s3://nosuch-bucket/a.zarr")
    monkeypatch.setitem(places.PATIENCE, "retries", {"max_attempts": 1})
    connect(monkeypatch, 1)
    with pytest.raises(StoreError, match=r"s3://b/a\.zarr cannot be reached \(.*: check the URL, the connection"):
        write("s3://b/a.zarr")


def test_a_checkpoint_is_kept_beside_the_store(memory, monkeypatch):
    kept = store.Checkpoint(f"{memory}/.m.checkpoint", "one")
    assert kept.load() is None and not kept.path.exists()
    kept.offer(lambda: {"x": np.arange(3)}, last=True)
    kept.offer(lambda: {"x": np.arange(4)}, last=True)
    assert kept.path.exists() and len(kept.load()["x"]) == 4
    with pytest.raises(StoreError, match="is the checkpoint of another fit"):
        store.Checkpoint(f"{memory}/.m.checkpoint", "two").load()
    kept.remove()
    assert kept.load() is None and objects(f"{memory}/.m.checkpoint") == []


def test_models_are_saved_and_loaded_by_url(memory):
    X = RNG.normal(size=(80, 2))
    model = AsKLSClassifier(gamma=1.0, cv=2, random_state=0).fit(X, X[:, 0] > 0)
    model.save(f"{memory}/m.zarr")
    np.testing.assert_array_equal(load(f"{memory}/m.zarr").decision_function(X), model.decision_function(X))

"""A fit on landmarks that was interrupted goes on from the sums it had, and gives the same model to the last bit."""

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest
import zarr
from commands import hidden, interrupted, refused
from small import QUICK

from ask_dask import AsKLSClassifier, blocks, load, moments, store
from ask_dask.errors import StoreError
from ask_dask.kernels import RBF, SNE
from ask_dask.store import checkpoint

RNG = np.random.default_rng(0)
X, y = RNG.normal(size=(600, 3)), RNG.integers(0, 2, 600)


@pytest.fixture
def eager(monkeypatch):
    """Six shards, and a checkpoint after each."""
    monkeypatch.setattr(blocks, "_default_rows", lambda X: 100)
    monkeypatch.setattr(checkpoint, "SECONDS", 0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)


@pytest.fixture
def counted(monkeypatch):
    """Shards that are computed; the fourth is interrupted as long as `stop` is set."""
    seen = {"shards": 0, "stop": True}
    of_shard = moments._of_shard

    def count(*given):
        if seen["stop"] and seen["shards"] == 3:
            raise KeyboardInterrupt
        seen["shards"] += 1
        return of_shard(*given)

    monkeypatch.setattr(moments, "_of_shard", count)
    return seen


def stored(path, values=X):
    array = zarr.create_array(
        path, shape=values.shape, chunks=(100, *values.shape[1:]), dtype=values.dtype, compressors=store.QUICK
    )
    array[:] = values
    return array


def model(path, **change):
    given = {"kernel": SNE(2.0), "gamma": [1.0, 10.0], "n_landmarks": [20, 40], "cv": 3, "checkpoint": path}
    return AsKLSClassifier(**given | {"random_state": 0} | change)


@pytest.mark.parametrize("kernel", [SNE(2.0), RBF(2.0)], ids=["two sides", "one side"])
def test_it_goes_on_where_it_was(tmp_path, eager, counted, kernel):
    rows, path = stored(tmp_path / "x"), tmp_path / "kept.zarr"
    with pytest.raises(KeyboardInterrupt), dask.config.set(scheduler="synchronous"):
        model(path, kernel=kernel).fit(rows, y)
    assert int(store.open_store(path, "checkpoint")["done"][0]) == counted["shards"] == 3
    counted |= {"shards": 0, "stop": False}
    resumed = model(path, kernel=kernel, gamma=[1.0, 5.0, 10.0]).fit(rows, y)  # gammas come after the pass
    assert counted["shards"] == 3 and not path.exists()
    straight = model(None, kernel=kernel, gamma=[1.0, 5.0, 10.0]).fit(rows, y)
    np.testing.assert_array_equal(resumed.discriminants(X), straight.discriminants(X))
    assert counted["shards"] == 9


@pytest.mark.parametrize("change", ["kernel", "rows", "labels", "weights", "seed", "landmarks", "folds"])
def test_sums_of_another_fit_are_refused(tmp_path, eager, counted, change):
    path = tmp_path / "kept.zarr"
    rows = stored(tmp_path / "x")
    with pytest.raises(KeyboardInterrupt), dask.config.set(scheduler="synchronous"):
        model(path).fit(rows, y)
    other = {"kernel": {"kernel": SNE(3.0)}, "seed": {"random_state": 1}, "landmarks": {"n_landmarks": 30},
             "folds": {"cv": 4}}  # fmt: skip
    with pytest.raises(StoreError, match=r"kept\.zarr is the checkpoint of another fit"):
        model(path, **other.get(change, {})).fit(
            stored(tmp_path / "other") if change == "rows" else rows,
            1 - y if change == "labels" else y,
            np.ones(600) if change == "weights" else None,
        )


def test_what_was_added_is_kept_when_it_is_told_to_stop(tmp_path, eager, counted, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 3600)  # it would not be time yet
    path = tmp_path / "kept.zarr"
    with pytest.raises(KeyboardInterrupt), dask.config.set(scheduler="synchronous"):
        model(path).fit(stored(tmp_path / "x"), y)
    assert store.open_store(path, "checkpoint")["done"][:].tolist() == [3, 100]


def test_a_job_killed_while_it_replaces_a_checkpoint_has_the_one_before(tmp_path):
    kept = store.Checkpoint(tmp_path / "c", "p")
    kept.offer(lambda: {"done": np.array([3])}, last=True)
    (tmp_path / "c").rename(tmp_path / ".c.old-1")
    (tmp_path / ".c.partial-2").mkdir()
    assert store.Checkpoint(tmp_path / "c", "p").load()["done"].tolist() == [3]
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    kept.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bytes_", [0, 80 << 20])
def test_checkpoints_take_2_percent_of_the_time(tmp_path, monkeypatch, bytes_):
    """The first one as if it were written at half a gigabyte a second, each later one as long as the last took."""
    clock = [0.0]
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    @contextmanager
    def slow(*_, **__):
        clock[0] += 0.5
        yield zarr.group()

    monkeypatch.setattr(checkpoint, "create", slow)
    kept, written = store.Checkpoint(tmp_path / "c", "p"), []
    array = np.broadcast_to(0.0, bytes_ // 8)
    while clock[0] < 100:
        clock[0], before = clock[0] + 0.1, kept.writes
        kept.offer(lambda: {"sums": array[:1] if kept._due else array})
        written += [round(clock[0])] * (kept.writes > before)
    first = 1 if bytes_ == 0 else 8
    assert written[0] == pytest.approx(first, abs=1.1) and len(written) == 4
    assert np.diff(written) == pytest.approx(25, abs=1)


def test_a_store_is_known_by_its_content_wherever_it_is(tmp_path):
    made = []
    for name, value in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        with store.create(tmp_path / name, "dataset") as group:
            store.write_array(group, "X", np.full((4, 2), value))
            store.describe(group, fingerprint=f"of {value}")
        made.append(store.origin(store.open_store(tmp_path / name)["X"].store_path))
    assert made[0] == made[1] != made[2] and made[0] == "of 1.0/X"


SLOW = """
import time
from ask_dask import blocks, cli, moments
from ask_dask.store import checkpoint
checkpoint.SECONDS, checkpoint.SHARE = 0, float("inf")
blocks._default_rows = lambda X: 100
of_shard = moments._of_shard
def patient(*given):
    time.sleep(0.3)
    return of_shard(*given)
moments._of_shard = patient
cli.main()
"""
"""The command, with time to kill it between two shards."""


def dataset(path):
    with store.create(path, "dataset") as group:
        for name, values in (("X", X), ("y", y)):
            stored(group.store_path / name, values)
        store.describe(group, fingerprint=store.fingerprint(X, y), n_rows=600)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_fit_on_landmarks_goes_on(tmp_path, monkeypatch, eager, ask, done, number):
    monkeypatch.chdir(tmp_path)
    dataset("d.zarr")
    arguments = ("fit", "--data", "d.zarr", *QUICK, "--landmarks", "20", "--bandwidth", "2", "--to")
    process = subprocess.Popen([sys.executable, "-c", SLOW, *arguments, "m.zarr", "--quiet"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    while process.poll() is None and not Path(".m.zarr.checkpoint").exists():
        time.sleep(0.01)
    if number == signal.SIGTERM:
        assert interrupted(process, number)
    else:
        process.kill()
        process.wait()
    assert Path(".m.zarr.checkpoint").exists() and not Path("m.zarr").exists()
    refused(ask(*arguments, "m.zarr", "--seed", "7", "--quiet"), "is the checkpoint of another fit")
    found = done(*arguments, "m.zarr")
    assert not hidden(tmp_path)
    straight = done(*arguments, "straight.zarr")
    assert found["fingerprint"] == straight["fingerprint"]
    np.testing.assert_array_equal(load("m.zarr").discriminants(X), load("straight.zarr").discriminants(X))

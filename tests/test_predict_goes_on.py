"""A prediction that was cut off goes on from its finished shards, of any labels and rows, whatever cut it off."""

import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from commands import STOPPED, hidden, refused
from machines import SMALL, job, same_arrays, wait_until

from ask_dask import budget, cli, store
from ask_dask.errors import StoreError
from ask_dask.sparse import SparseWriter
from ask_dask.steps import Predict, prediction

N = 1200
"""Rows, in twelve shards."""

LABELS = {
    "classes": lambda X: (X[:, 0] > 0).astype(int),
    "numbers": lambda X: X[:, 0] - X[:, 1],
    "several": lambda X: (X > 0).astype(int),
}
KINDS = {"numbers": "numbers", "several labels": "several", "text ids": "classes", "sparse rows": "classes"}


def work_in(folder, monkeypatch):
    """There, shards are of a hundred rows."""
    monkeypatch.chdir(folder)
    for name, value in {"CHUNK_BYTES": 1, "SHARD_BYTES": 1, "BLOCK_ROWS": 100}.items():
        monkeypatch.setattr(budget, name, value)


@pytest.fixture
def place(tmp_path, monkeypatch):
    work_in(tmp_path, monkeypatch)
    return tmp_path


def dataset(path, kind="classes"):
    X = np.random.default_rng(0).normal(size=(N, 3))
    y = LABELS[KINDS.get(kind, "classes")](X)
    arrays = {"y": y} | ({"id": np.array([f"row {n}" for n in range(N)])} if kind == "text ids" else {})
    with store.create(path, "dataset") as group:
        if kind == "sparse rows":
            rows, writer = sp.csr_matrix(X * (X > -0.5)), SparseWriter(group.create_group("X"), np.float64)
            writer.add(rows.data, rows.indices, np.diff(rows.indptr))
            writer.close(n_columns=3)
        else:
            arrays["X"] = X
        made = store.create_aligned(group, {name: (values.shape, values.dtype) for name, values in arrays.items()})
        for name, values in arrays.items():
            made[name][:] = values
        store.describe(group, fingerprint=store.fingerprint(X, y), n_rows=N)


def predict(to, *more):
    return ("predict", "--model", "m.zarr", "--data", "d.zarr", "--to", to, *more)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model of two classes, and its predictions."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as monkeypatch:
        work_in(folder, monkeypatch)
        dataset("d.zarr")
        for command in (("fit", "--data", "d.zarr", "--to", "m.zarr", *SMALL), predict("straight.zarr")):
            with pytest.raises(SystemExit) as left:
                cli.main([*command, "--quiet"])
            assert left.value.code == 0
    return folder


@pytest.fixture
def fitted(made, place):
    """Links to them in the folder."""
    for path in made.iterdir():
        (place / path.name).symlink_to(path)


@pytest.fixture
def begun(monkeypatch):
    """Shards that are begun: the list; what is called before the sixth can be set."""
    return Begun(monkeypatch)


class Begun(list):
    """Numbers of shards, and what is called in place of the sixth."""

    def __init__(self, monkeypatch):
        super().__init__()
        own, lock, self.sixth = prediction._predict_shard, threading.Lock(), None

        def shard(*given):
            with lock:
                self.append(given[2])
                sixth = len(self) == 6
            if sixth and self.sixth:
                self.sixth()
            own(*given)

        monkeypatch.setattr(prediction, "_predict_shard", shard)


def stop():
    raise KeyboardInterrupt


def ready():
    """Shards that are finished, of a prediction that was cut off."""
    return {n for n, mark in enumerate(zarr.open_group(".p.zarr.work", mode="r")["done"][:]) if mark}


def goes_on(done, begun, where="p.zarr", kept=None):
    """The same command computes the other shards, and gives what it would have given at once."""
    kept = ready() if kept is None else kept
    begun.clear()
    begun.sixth = None
    done(*predict(where))
    assert set(begun) == set(range(12)) - kept and len(begun) == len(set(begun))
    return same_arrays(where, "straight.zarr")


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_every_kind_go_on(place, ask, done, begun, kind):
    dataset("d.zarr", kind)
    done("fit", "--data", "d.zarr", "--to", "m.zarr", *SMALL)
    done(*predict("straight.zarr"))
    begun.clear()
    begun.sixth = stop
    assert ask(*predict("p.zarr", "--quiet"))[0] == 130
    assert 4 <= len(ready()) < 12 and goes_on(done, begun) and not hidden(place)
    ids = store.open_store("p.zarr")["row_id"][:3].tolist()
    assert ids == (["row 0", "row 1", "row 2"] if kind == "text ids" else [0, 1, 2])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 2)])
def test_a_prediction_that_is_told_to_stop_goes_on(place, fitted, done, begun, number, code):
    running = job(place, *predict("p.zarr", "--quiet"), pause=0.3)
    wait_until(lambda: Path(".p.zarr.work/done/c").exists() and len(ready()) > 1, process=running)
    for _ in range(3):  # again when nothing happens, as a person would: a library may swallow the first
        running.send(number)
        running.process.join(5)
    found, out, err = running.ended()
    assert (found, out) == (code, "")
    assert err == STOPPED
    assert goes_on(done, begun) and not hidden(place)


def test_a_prediction_that_found_no_room_goes_on(place, fitted, disk, ask, done, begun):
    files = [file for file in Path("straight.zarr").rglob("*") if file.is_file()]
    there = disk(sum(-(-file.stat().st_size // 4096) * 4096 for file in files) * 2 // 3) / "p.zarr"
    assert refused(ask(*predict(there, "--quiet")), "No space left on device; nothing was published there: make room")
    assert not there.exists()
    Path(".p.zarr.work").symlink_to(there.with_name(".p.zarr.work"))
    kept = ready()
    assert len(kept) >= 2
    disk("100m")
    assert goes_on(done, begun, there, kept) and not hidden(there.parent)


def test_a_prediction_whose_place_may_not_be_written_any_more_goes_on(place, fitted, disk, ask, done, begun):
    there = disk("100m") / "p.zarr"
    begun.sixth = stop
    assert ask(*predict(there, "--quiet"))[0] == 130
    Path(".p.zarr.work").symlink_to(there.with_name(".p.zarr.work"))
    kept = ready()
    disk("ro")
    assert refused(ask(*predict(there, "--quiet")), "Read-only file system")
    assert ready() == kept and len(kept) >= 4
    disk("100m")
    assert goes_on(done, begun, there, kept)


def test_a_second_prediction_to_the_same_place_is_refused_and_does_no_harm(place, fitted, done, begun):
    said = []

    def again():
        with pytest.raises(StoreError, match=r"p\.zarr is being written by another job") as refused:
            Predict(model="m.zarr", data=["d.zarr"], to="p.zarr").run()
        said.append(refused)

    begun.clear()
    begun.sixth = again
    done(*predict("p.zarr"))
    assert len(said) == 1 and sorted(begun) == list(range(12))
    assert same_arrays("p.zarr", "straight.zarr") and not hidden(place)

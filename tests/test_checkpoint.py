"""A fit on landmarks that was interrupted goes on from the sums it had, and gives the same model to the last bit."""

import signal
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest
import zarr
from commands import STOPPED, hidden, refused
from machines import checkpointed, program, wait_until
from small import QUICK

from ask_dask import AsKLSClassifier, blocks, load, moments, store
from ask_dask.errors import CheckpointError, StoreError
from ask_dask.kernels import RBF, SNE
from ask_dask.moments import gathering
from ask_dask.store import checkpoint

RNG = np.random.default_rng(0)
X, y = RNG.normal(size=(600, 3)), RNG.integers(0, 2, 600)


@pytest.fixture
def eager(monkeypatch):
    """Six shards, and a checkpoint after each."""
    monkeypatch.setattr(blocks, "most_rows", lambda X: 100)
    monkeypatch.setattr(checkpoint, "SECONDS", 0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)


@pytest.fixture
def counted(monkeypatch):
    """Shards that are computed; the fourth is interrupted as long as `stop` is set."""
    seen = {"shards": 0, "stop": True}
    of_shard = gathering._of_shards

    def count(*given):
        if seen["stop"] and seen["shards"] == 3:
            raise KeyboardInterrupt
        seen["shards"] += 1
        return of_shard(*given)

    monkeypatch.setattr(gathering, "_of_shards", count)
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
    assert len(checkpointed(path)) == 3 and counted["shards"] == 3
    counted |= {"shards": 0, "stop": False}
    resumed = model(path, kernel=kernel, gamma=[1.0, 5.0, 10.0]).fit(rows, y)  # gammas come after the pass
    assert counted["shards"] == 3 and not path.exists()
    straight = model(None, kernel=kernel, gamma=[1.0, 5.0, 10.0]).fit(rows, y)
    np.testing.assert_array_equal(resumed.discriminants(X), straight.discriminants(X))
    assert counted["shards"] == 9


@pytest.mark.parametrize("change", ["kernel", "rows", "written", "labels", "weights", "seed", "landmarks", "folds"])
def test_sums_of_another_fit_are_refused(tmp_path, eager, counted, change):
    path = tmp_path / "kept.zarr"
    rows = stored(tmp_path / "x")
    with pytest.raises(KeyboardInterrupt), dask.config.set(scheduler="synchronous"):
        model(path).fit(rows, y)
    other = {"kernel": {"kernel": SNE(3.0)}, "seed": {"random_state": 1}, "landmarks": {"n_landmarks": 30},
             "folds": {"cv": 4}}  # fmt: skip
    if change == "written":  # in the same place; no landmark
        rows[599:] = 7
    with pytest.raises(StoreError, match=r"kept\.zarr is the checkpoint of another fit"):
        model(path, **other.get(change, {})).fit(
            stored(tmp_path / "other") if change == "rows" else rows,
            1 - y if change == "labels" else y,
            np.ones(600) if change == "weights" else None,
        )


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 1, 600)], ids=["", "weights"])
@pytest.mark.parametrize("kernel", [SNE(2.0), RBF(2.0)], ids=["two sides", "one side"])
def test_moments_are_kept_to_the_last_bit(kernel, weights):
    rows = moments.Rows(y, lambda y: np.stack([y, 1 - 2 * y], 1), np.arange(600) % 3, weights)
    at = kernel.at(X[:37], X[:37], 600)
    found = moments.of_rows(X, rows, at, 3, moments.frames_of(at, X[:8]))
    vector = found.vector()
    again = moments.Moments.of_vector(vector, found.sizes)
    assert vector.nbytes < 0.65 * sum(side.gram.nbytes for side in found.sides)
    for name in ("count", "sum_y", "yy"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name), err_msg=name)
    for one, other in zip(again.sides, found.sides, strict=True):
        assert one.frame == other.frame and len(one.frame.pivots) == 2
        for name in ("sums", "gram", "cross"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_sums_that_came_early_are_kept_too(tmp_path, eager, monkeypatch):
    """The first shard is killed when three others have ended: only it and those that had not are computed again."""
    seen, of_shard, path = [], gathering._of_shards, tmp_path / "kept.zarr"

    def first_is_last(*given):
        deadline = time.monotonic() + 10
        while given[-1] == 0 and len(seen) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        if given[-1] == 0:
            time.sleep(0.2)  # until the others have been told
            raise KeyboardInterrupt
        found = of_shard(*given)
        seen.append(given[-1] // 100)
        return found

    monkeypatch.setattr(gathering, "_of_shards", first_is_last)
    rows = stored(tmp_path / "x")
    with pytest.raises(KeyboardInterrupt), dask.config.set(num_workers=2):
        model(path).fit(rows, y)
    kept, seen = checkpointed(path), []
    assert len(kept) >= 3 and 0 not in kept
    monkeypatch.setattr(gathering, "_of_shards", lambda *given: (seen.append(given[-1] // 100), of_shard(*given))[1])
    resumed = model(path).fit(rows, y)
    assert set(seen) == set(range(6)) - kept
    straight = model(None).fit(rows, y)
    np.testing.assert_array_equal(resumed.discriminants(X), straight.discriminants(X))


@pytest.fixture
def parts(tmp_path, eager, counted, monkeypatch):
    """The folder of three shards' parts that a fit left which was killed before it wrote a checkpoint."""
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt), dask.config.set(scheduler="synchronous"):
        killed.setattr(store.Checkpoint, "write", lambda kept: None)
        model(tmp_path / "kept.zarr").fit(stored(tmp_path / "x"), y)
    counted |= {"shards": 0, "stop": False}
    assert not (tmp_path / "kept.zarr").exists() and len(checkpointed(tmp_path / "kept.zarr")) == 3
    return tmp_path / ".kept.zarr.parts"


def test_parts_alone_are_enough(tmp_path, parts, counted):
    rows = zarr.open_array(tmp_path / "x")
    resumed = model(tmp_path / "kept.zarr").fit(rows, y)
    assert counted["shards"] == 3 and not hidden(tmp_path)
    straight = model(None).fit(rows, y)
    np.testing.assert_array_equal(resumed.discriminants(X), straight.discriminants(X))


def test_no_empty_folder_is_left_where_what_follows_a_pass_fails(tmp_path):
    begun = store.Checkpoint(tmp_path / "c", "a fit")
    assert begun.with_parts(1) == [] and begun.parts.folder.is_dir()
    with begun.kept():
        pass
    assert not list(tmp_path.iterdir())


def test_parts_of_another_fit_are_refused(tmp_path, parts):
    with pytest.raises(CheckpointError, match=r"parts/\d is the checkpoint of another fit .* pass --overwrite"):
        model(tmp_path / "kept.zarr", random_state=1).fit(zarr.open_array(tmp_path / "x"), y)
    assert len(list(parts.iterdir())) == 3


def test_a_damaged_part_is_named(tmp_path, parts):
    number = min(checkpointed(tmp_path / "kept.zarr"))
    file = parts / f"{number}" / f"sum_{number}" / "c" / "0"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"parts/{number}/sum_{number} is damaged .* replaced with --overwrite"):
        model(tmp_path / "kept.zarr").fit(zarr.open_array(tmp_path / "x"), y)


def test_a_late_part_of_a_job_that_cut_other_shards_is_no_part(tmp_path, parts, counted):
    number = min(checkpointed(tmp_path / "kept.zarr"))
    kept = store.open_store(parts / f"{number}")
    facts, late = store.about(kept) | {"height": 50, "shards": [[9, 10]]}, {"sum_9": kept[f"sum_{number}"][:]}
    given = {name: facts[name] for name in ("height", "together", "shards", "sizes")}
    store.Checkpoint(parts / "9", facts["problem"]).offer(lambda: late, last=True, **given)
    resumed, rows = model(tmp_path / "kept.zarr"), zarr.open_array(tmp_path / "x")
    resumed.fit(rows, y)
    assert counted["shards"] == 3
    np.testing.assert_array_equal(resumed.discriminants(X), model(None).fit(rows, y).discriminants(X))


def test_a_checkpoint_of_an_older_release_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "kept.zarr"
    with monkeypatch.context() as older:
        older.setitem(store.VERSIONS, "checkpoint", 2)
        store.Checkpoint(path, "p").offer(lambda: {"done": np.array([3, 100]), "count": np.ones(3)}, last=True)
    said = r"kept\.zarr is a checkpoint store of version 2 and this release reads version 7.* replaced with --overwrite"
    with pytest.raises(CheckpointError, match=said):
        model(path).fit(stored(tmp_path / "x"), y)


def test_what_was_added_is_kept_when_it_is_told_to_stop(tmp_path, eager, counted, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARE", 0)  # it would never be time
    path = tmp_path / "kept.zarr"
    with pytest.raises(KeyboardInterrupt), dask.config.set(scheduler="synchronous"):
        model(path).fit(stored(tmp_path / "x"), y)
    assert len(checkpointed(path)) == 3 and store.about(store.open_store(path))["height"] == 100


def test_a_job_killed_while_it_replaces_a_checkpoint_has_the_one_before(tmp_path):
    kept = store.Checkpoint(tmp_path / "c", "p")
    kept.offer(lambda: {"done": np.array([3])}, last=True)
    (tmp_path / "c").rename(tmp_path / ".c.old-1")
    (tmp_path / ".c.partial-2").mkdir()
    assert store.Checkpoint(tmp_path / "c", "p").load()["done"].tolist() == [3]
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    kept.remove()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def clock(monkeypatch):
    """Seconds, which only a write (half a second) and the test move on."""
    now = [0.0]
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))

    @contextmanager
    def slow(*_, **__):
        now[0] += 0.5
        yield zarr.group()

    monkeypatch.setattr(checkpoint, "create", slow)
    return now


@pytest.mark.parametrize("bytes_", [0, 80 << 20])
def test_checkpoints_take_2_percent_of_the_time(tmp_path, clock, bytes_):
    """The first one as if it were written at half a gigabyte a second, each later one as long as the last took."""
    kept, written = store.Checkpoint(tmp_path / "c", "p"), []
    array = np.broadcast_to(0.0, bytes_ // 8)
    while clock[0] < 110:
        clock[0], before = clock[0] + 0.1, kept.writes
        kept.offer(lambda: {"sums": array[:1] if kept.writes or kept.pace.cost else array})
        written += [clock[0]] * (kept.writes > before)
    first = 1 if bytes_ == 0 else 8.4
    assert written == pytest.approx([first + 0.5, 50.5, 75.5, 100.5], abs=0.3)


def test_sums_that_end_together_are_both_written(tmp_path, clock):
    """Workers that began together end together: a pause after the first would lose the second until the next."""
    kept = store.Checkpoint(tmp_path / "c", "p")
    for pair in range(1, 5):
        for clock[0] in (60 * pair, 60 * pair + 0.6):
            kept.offer(lambda: {"sums": np.ones(1)})
    assert kept.writes == 8


def test_parts_take_their_share_and_those_of_the_first_shards_are_kept_too(tmp_path, clock):
    """Of shards of 25 s, whose share is 0.45 s, parts that take half a second."""
    parts, spent = store.Parts(tmp_path, "p", 0.018, 0.0), []
    for number in range(100):
        clock[0], before = clock[0] + 25, clock[0] + 25
        parts.keep(number, lambda: {"sums": np.ones(1)}, 25)
        spent.append(clock[0] - before)
    assert spent[:9] == [0.5] * 9
    assert sum(spent) == pytest.approx(0.018 * 2500 + checkpoint.AHEAD, abs=0.5)


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
from ask_dask import blocks, cli
from ask_dask.moments import gathering
from ask_dask.store import checkpoint
checkpoint.SECONDS, checkpoint.SHARE = 0, float("inf")
blocks.most_rows = lambda X: 100
of_shard = gathering._of_shards
def patient(*given):
    time.sleep(0.3)
    return of_shard(*given)
gathering._of_shards = patient
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
    arguments = ("fit", "--data", "d.zarr", *QUICK, "--n-landmarks", "20", "--bandwidth", "2", "--to")
    process = program(tmp_path, SLOW, *arguments, "m.zarr", "--quiet")
    wait_until(Path(".m.zarr.checkpoint").exists, process=process)
    process.send(number)
    assert process.ended() == ((2, "", STOPPED) if number == signal.SIGTERM else (-number, "", ""))
    assert Path(".m.zarr.checkpoint").exists() and not Path("m.zarr").exists()
    refused(ask(*arguments, "m.zarr", "--seed", "7", "--quiet"), "is the checkpoint of another fit")
    found = done(*arguments, "m.zarr")
    assert not hidden(tmp_path)
    straight = done(*arguments, "straight.zarr")
    assert found["fingerprint"] == straight["fingerprint"]
    np.testing.assert_array_equal(load("m.zarr").discriminants(X), load("straight.zarr").discriminants(X))

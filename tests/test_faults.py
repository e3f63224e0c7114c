"""Machines die and the job does not lose its result: on a real scheduler and real workers over TCP."""

import json
import signal
import time

import numpy as np
import pytest
from commands import hidden
from machines import (
    EAGER,
    SMALL,
    SMALL_PARTS,
    Machines,
    checkpointed,
    dataset,
    job,
    kept_of,
    near_model,
    one_line,
    same_arrays,
    same_model,
    wait_until,
)

from ask_dask.ingest.synthetic import make_criteo

GONE = r"The scheduler at scheduler.json is gone, and its workers with it; complete .* are kept: start both, .*"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit(folder, *more, to="m.zarr", change="", data="d.zarr"):
    return job(folder, "fit", "--data", data, "--to", to, *SMALL, "--quiet", *more, change=change)


def straight(folder, *more):
    """The same on threads, undisturbed."""
    assert fit(folder, *more, to="straight.zarr").ended()[0] == 0
    return "straight.zarr"


def test_whatever_dies_the_job_goes_on(place, ask):
    """A worker, all workers, the client (killed, then told to stop) and the scheduler, one after another."""
    dataset("d.zarr", shards := 40)
    on, machines = ("--cluster", "scheduler.json"), Machines(place, pause=0.15)
    try:
        first = fit(place, *on, change=EAGER)
        expected = straight(place)
        wait_until(lambda: len(machines.begun) > 2, process=first)
        machines.kill(0)
        wait_until(lambda: len(machines.begun) > 6, process=first)
        for number in range(2):
            machines.kill(number)
        before = len(machines.begun)
        wait_until(lambda: len(machines.begun) > before + 4 and checkpointed(".m.zarr.checkpoint"), process=first)
        first.kill()
        kept = kept_of(".m.zarr.checkpoint")
        assert 0 < len(kept) < shards
        code, out, _ = ask("status", "m.zarr", "--json")
        found = json.loads(out)
        assert code == 0 and found["state"] == "stopped"
        assert len(kept) <= found["checkpoint"]["done"] <= len(kept) + 2  # the workers keep what they were at

        before = len(machines.begun)
        second = fit(place, *on, change=EAGER)
        wait_until(lambda: len(checkpointed(".m.zarr.checkpoint")) > len(kept) + 2, process=second)
        second.send(signal.SIGTERM)
        assert second.ended()[0] == 2
        assert not kept & set(machines.begun[before:])
        kept = checkpointed(".m.zarr.checkpoint")

        third = fit(place, *on, change=EAGER)
        wait_until(lambda: len(checkpointed(".m.zarr.checkpoint")) > len(kept) + 2, process=third)
        machines.scheduler.kill()
        code, out, err = third.ended()
        assert (code, out) == (2, "") and one_line(err, GONE)
        kept = checkpointed(".m.zarr.checkpoint")
        machines.close()
        machines.start(2)
        before = len(machines.begun)
        code, _, err = fit(place, *on).ended()
        left, begun = set(range(shards)) - kept, set(machines.begun[before:])
        assert (code, err) == (0, "") and begun <= left and len(left - begun) <= 2  # the workers keep what they were at
        assert same_model("m.zarr", expected)
    finally:
        machines.close()


@pytest.mark.slow
def test_ingest_and_predict_outlive_their_workers(place):
    """A worker is killed in every pass over the rows; then the client of a predict from raw files."""
    make_criteo("train.txt", 20_000)
    on, raw = ("--cluster", "scheduler.json", "--quiet"), ("ingest", "criteo", "train.txt", "--buckets", "64", "--to")
    fitting = ("fit", "--data", "here.zarr", *SMALL, "--memory", "2GiB", "--to", "m.zarr", "--quiet")
    for command in ((*raw, "here.zarr", "--quiet"), fitting):
        assert job(place, *command, change=SMALL_PARTS).ended()[0] == 0
    machines = Machines(place, pause=0.1)

    def killing(kinds, *command):
        running = job(place, *command, *on, change=SMALL_PARTS)
        for number, kind in enumerate(kinds):
            before = len(machines.begun_of(kind))
            wait_until(lambda: len(machines.begun_of(kind)) > before + 1, process=running)  # noqa: B023
            machines.kill(number)
        code, _, err = running.ended()
        assert (code, err) == (0, ""), kinds

    try:
        killing(("parse", "write"), *raw, "there.zarr")
        assert same_arrays("here.zarr", "there.zarr")
        of_store, of_text = (("predict", "--model", "m.zarr", "--data", data) for data in ("here.zarr", "train.txt"))
        killing(("predict",), *of_store, "--to", "p.zarr")
        assert job(place, *of_store, "--to", "q.zarr", "--quiet").ended()[0] == 0
        assert same_arrays("p.zarr", "q.zarr")
        running = job(place, *of_text, "--to", "r.zarr", *on, change=SMALL_PARTS)
        before = len(machines.begun_of("predict"))
        wait_until(lambda: len(machines.begun_of("predict")) > before + 2, process=running)
        running.kill()
        assert any("zarr" in name for name in hidden(place))
        assert job(place, *of_text, "--to", "r.zarr", *on).ended()[0] == 0
        assert not any("zarr" in name for name in hidden(place))
        assert job(place, *of_text, "--to", "s.zarr", "--quiet").ended()[0] == 0
        assert same_arrays("r.zarr", "s.zarr")
    finally:
        machines.close()


def spilled(client):
    """Bytes that the only worker has on its disk for want of memory, as it says itself."""
    (worker,) = client.scheduler_info()["workers"].values()
    return worker["metrics"]["spilled_bytes"]["disk"]


@pytest.mark.slow
def test_a_worker_at_its_memory_limit_spills(place):
    """Sums of 128 MB a shard; those of four wait on it while the job is stopped, which with what a task takes are more
    than it may have."""
    from distributed import Client

    dataset("d.zarr", 10)
    wide = ("fit", "--data", "d.zarr", "--n-landmarks", "200", "--cv", "200", "--gamma", "1", "--bandwidth", "2",
            "--solver", "direct", "--quiet", "--to")  # fmt: skip
    assert job(place, *wide, "straight.zarr").ended()[0] == 0
    machines = Machines(place, workers=1, options=("--no-nanny", "--memory-limit", "950MiB"), pause=0.3)
    try:
        running = job(place, *wide, "m.zarr", "--cluster", "scheduler.json")
        wait_until(lambda: machines.begun, process=running)
        running.send(signal.SIGSTOP)
        with Client(scheduler_file="scheduler.json") as client:
            wait_until(lambda: spilled(client) > 100e6)
        running.send(signal.SIGCONT)
        code, _, err = running.ended()
    finally:
        machines.close()
    assert (code, err) == (0, "") and same_model("m.zarr", "straight.zarr")


def test_workers_without_memory_are_no_deadlock(place):
    """Without a nanny that would restart it, a worker above its limit waits for ever; the job does not."""
    dataset("d.zarr", 4)
    machines = Machines(place, workers=1, options=("--no-nanny", "--memory-limit", "50MiB"))
    try:
        code, out, err = fit(place, "--cluster", "scheduler.json",
                                   change="waiting.LOOK, waiting.PATIENCE = 0.5, 2").ended()  # fmt: skip
    finally:
        machines.close()
    said = r"All 1 workers have been at their memory limit for 2 s and do nothing: give them more memory \(dask .*"
    assert (code, out) == (1, "") and one_line(err, said)


@pytest.mark.slow
def test_workers_that_a_nanny_kills_again_and_again_end_the_job(place):
    """What a task imports alone is beyond their limit: a nanny would restart them for ever."""
    dataset("d.zarr", 4)
    machines = Machines(place, workers=1, options=("--memory-limit", "200MiB"))
    try:
        code, out, err = fit(place, "--cluster", "scheduler.json").ended(600)
    finally:
        machines.close()
    said = r"Workers died, the last at tcp://.*, most likely for want of memory: give them more, or use fewer\."
    assert (code, out) == (1, "") and one_line(err.splitlines(keepends=True)[-1], said)  # before: it waits for workers


RNG = np.random.default_rng


@pytest.mark.slow
def test_workers_killed_at_random_moments(place, capsys):
    """Twenty workers of three, in jobs that follow each other."""
    dataset("d.zarr", shards := 60)
    expected, rng, killed, jobs = straight(place), RNG(1), 0, 0
    machines = Machines(place, workers=3, pause=0.2)
    try:
        while killed < 20:
            running, jobs = fit(place, "--cluster", "scheduler.json", to=f"m{jobs}.zarr"), jobs + 1
            while running.poll() is None:
                enough = len(machines.begun) + rng.integers(1, 8)  # else they die while they start, and have begun none
                while running.poll() is None and len(machines.begun) < enough:
                    time.sleep(0.01)
                time.sleep(rng.uniform(0, machines.pause))
                if running.poll() is None and killed < 20:
                    machines.kill(rng.integers(3))
                    killed += 1
            code, _, err = running.ended()
            assert code == 0, err  # a job that starts while none is there says so
            assert same_model(f"m{jobs - 1}.zarr", expected)
    finally:
        machines.close()
    more = len(machines.begun) - jobs * shards
    with capsys.disabled():
        print(f"\n{killed} workers killed in {jobs} jobs of {shards} shards: {more} shards begun again")
    assert 0 < more <= 2 * killed


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True], ids=["moments", "minres"])
def test_all_workers_killed_and_replaced(place, exact):
    dataset("d.zarr", 20)
    more = ("--exact", "--solver", "minres", "--tol", "1e-10") if exact else ()
    expected, machines = straight(place, *more), Machines(place, pause=0.3)
    try:
        running = fit(place, "--cluster", "scheduler.json", *more)
        for _ in range(3):
            time.sleep(4 if exact else 3)
            for number in range(2):
                machines.kill(number)
        code, _, err = running.ended()
        assert code == 0, err
    finally:
        machines.close()
    assert near_model("m.zarr", expected, 1e-12) if exact else same_model("m.zarr", expected)


@pytest.mark.slow
@pytest.mark.parametrize("change, pause", [("", 1.5), (EAGER, 0.5)], ids=["as it is", "a checkpoint for each shard"])
def test_the_job_itself_killed_at_random_moments(place, capsys, change, pause):
    """Twenty times, a quarter of them before the pass has begun."""
    dataset("d.zarr", shards := 200)
    expected, rng, lost, kept = straight(place), RNG(2), [], set()
    machines = Machines(place, workers=2, pause=pause)  # to keep a shard takes less than 2 % of it, or less than it
    try:
        while len(lost) < 20:
            before, running = len(machines.begun), fit(place, "--cluster", "scheduler.json", change=change)
            if rng.random() < 0.25:
                time.sleep(rng.uniform(0, 1))
            else:
                enough = before + rng.integers(1, 12)
                wait_until(lambda enough=enough: len(machines.begun) >= enough, process=running)
                time.sleep(rng.uniform(0, machines.pause))  # else always just when a shard has ended
            running.kill()
            begun = machines.begun[before:]  # workers may begin more until they are told
            time.sleep(0.5)
            kept = kept_of(".m.zarr.checkpoint")
            lost.append(sum(number not in kept for number in begun))
        code, _, err = fit(place, "--cluster", "scheduler.json").ended()
        assert (code, err) == (0, "") and same_model("m.zarr", expected)
    finally:
        machines.close()
    with capsys.disabled():
        print(f"\njob killed {len(lost)} times: {sum(lost)} shards begun again, each time {sorted(lost)}; "
              f"{len(kept)} of {shards} kept at the last")  # fmt: skip
    assert kept
    assert max(lost) <= 2  # on each worker what runs, and nothing that has ended

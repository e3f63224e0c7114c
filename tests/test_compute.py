"""Tasks on every scheduler: the same results, failures raised when all have ended, progress, one BLAS thread."""

import io
import os
import pty
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from dask.distributed import Client
from machines import Machines, program
from threadpoolctl import threadpool_info, threadpool_limits

from ask_dask import compute
from ask_dask.cluster import running_on
from ask_dask.compute import bars, waiting
from ask_dask.errors import InputError

SCHEDULERS = ("threads", "synchronous", "cluster", pytest.param("processes", marks=pytest.mark.slow))


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    machines = Machines(tmp_path_factory.mktemp("machines"))
    try:
        with Client(scheduler_file=machines.file, set_as_default=False) as client:
            assert client.scheduler.address.startswith("tcp://")
            yield client
    finally:
        machines.close()


@pytest.fixture(params=SCHEDULERS)
def scheduler(request):
    if request.param == "cluster":
        with request.getfixturevalue("client").as_current() as client, dask.config.set(scheduler=client):
            yield request.param
    else:
        with dask.config.set(scheduler=request.param, num_workers=2):
            yield request.param


def square(i):
    return np.full(3, i * i, np.int64)


def slow(i, log, failing):
    """Fails at once, or writes a line after a while."""
    if i == failing:
        raise ValueError(f"task {i} fails")
    time.sleep(0.3)
    with open(log, "a") as file:
        file.write("x")
    return i


def tasks(function, n, *arguments):
    task = dask.delayed(function, pure=False)
    return [task(i, *arguments) for i in range(n)]


def test_results_come_in_order_and_sums_are_equal(scheduler):
    np.testing.assert_array_equal(compute.run(tasks(square, 13), "squares"), [square(i) for i in range(13)])
    np.testing.assert_array_equal(compute.run_sum(tasks(square, 13), "squares"), np.full(3, 650))
    np.testing.assert_array_equal(compute.run_sum(tasks(square, 3)[2:], "one"), np.full(3, 4))
    np.testing.assert_array_equal(compute.run(tasks(square, 2), "here", local=True), [square(0), square(1)])
    assert compute.run([], "nothing") == []
    assert compute.workers() == 2


def first_of(known):
    return {start: (stop, float(value[0])) for start, (stop, value) in known.items()}


def test_a_sum_goes_on_from_what_is_known_of_it(scheduler):
    known, told = {0: (4, np.full(3, 14)), 6: (7, np.full(3, 1000))}, []
    found = compute.run_sum(tasks(square, 9), "squares", known=known, told=lambda known: told.append(first_of(known)))
    np.testing.assert_array_equal(found, np.full(3, 204 - 36 + 1000))  # what is known is not computed again
    values = [1000 if i == 6 else i * i for i in range(9)]
    for one in told:
        assert one == {start: (stop, sum(values[start:stop])) for start, (stop, _) in one.items()}
    assert len(told) >= 3 and told[-1] == {0: (9, sum(values))}
    for known in ({0: (3, np.ones(3))}, {2: (3, np.full(3, 0.5)), 0: (2, np.full(3, 0.5))}):
        np.testing.assert_array_equal(compute.run_sum(tasks(square, 3), "done", known=known), np.ones(3))


def wait(i, done):
    """The first part comes last."""
    deadline = time.monotonic() + 10
    while i == 0 and not os.path.exists(done) and time.monotonic() < deadline:
        time.sleep(0.01)
    if i == 2:
        open(done, "w").close()
    return np.array([10.0**i])


def test_parts_that_come_early_wait_for_their_turn_and_are_known(tmp_path):
    told, three = [], tasks(wait, 3, str(tmp_path / "done"))
    with dask.config.set(num_workers=3):
        compute.run_sum(three, "x", told=lambda known: told.append(first_of(known)))
    assert told[1] == {1: (2, 10.0), 2: (3, 100.0)} and told[-1] == {0: (3, 111.0)}


def test_processes_give_the_same_sum(pool):
    with dask.config.set(scheduler="processes", num_workers=2, pool=pool):
        np.testing.assert_array_equal(compute.run_sum(tasks(square, 5), "squares"), np.full(3, 30))


@pytest.mark.parametrize("run", [compute.run, compute.run_sum])
def test_a_failure_is_raised_when_no_task_runs_any_more(scheduler, run, tmp_path):
    log = tmp_path / "log"
    log.write_text("")
    with pytest.raises(ValueError, match="task 1 fails"):
        run(tasks(slow, 8, str(log), 1), "fails")
    written = log.read_text()
    time.sleep(0.7)
    assert log.read_text() == written and len(written) < 8
    assert compute.run(tasks(square, 2), "again")[1][0] == 1


def nap(i):
    if i:
        raise ValueError("the other fails")
    time.sleep(6)


def test_a_task_that_goes_on_and_on_keeps_nobody(client, monkeypatch):
    monkeypatch.setattr(waiting, "IDLE", 0.5)
    with client.as_current(), dask.config.set(scheduler=client):
        started = time.monotonic()
        with pytest.raises(ValueError, match="the other fails"):
            compute.run(tasks(nap, 2), "fails")
        assert time.monotonic() - started < 5


def test_an_interrupt_ends_what_runs_on_a_cluster(client, tmp_path, monkeypatch):
    log = tmp_path / "log"
    log.write_text("")

    def interrupt(*_):
        raise KeyboardInterrupt

    with client.as_current(), dask.config.set(scheduler=client), compute.progress_shown():
        monkeypatch.setattr(bars._Lines, "advance", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compute.run(tasks(slow, 12, str(log), -1), "long")
        written = log.read_text()
        time.sleep(0.7)
    assert log.read_text() == written and len(written) < 12


def test_what_had_ended_when_it_is_interrupted_is_told_too(client):
    futures, told = [], []

    def submit(place):
        futures.append(client.submit(square, place))
        return futures[-1]

    def done(place, value):
        told.append((place, value[0]))
        if len(told) == 1:
            while any(future.status == "pending" for future in futures):
                time.sleep(0.01)
            raise KeyboardInterrupt

    with client.as_current(), pytest.raises(KeyboardInterrupt):
        waiting.each_done(client, submit, 5, done)
    assert sorted(told) == [(place, place**2) for place in range(5)]


def test_progress_lines_have_counts_and_an_estimate(scheduler, capsys, monkeypatch):
    clock = iter(range(0, 10_000, 11))
    monkeypatch.setattr(bars, "time", SimpleNamespace(monotonic=lambda: next(clock)))  # not the event loop's
    with compute.progress_shown():
        compute.run(tasks(square, 3), "Squares", "parts")
        compute.run_sum(tasks(square, 3), "Sum")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 6
    assert re.fullmatch(r"Squares: 1/3 parts, \d+ s, about \d+ s left", lines[0])
    assert re.fullmatch(r"Squares: done, 3 parts, \d+\.0 s", lines[2])
    assert re.fullmatch(r"Sum: 2/3 shards, \d+ s, about \d+ s left", lines[4])


def test_progress_is_silent_unless_asked_for_and_says_where_it_stopped(capsys, tmp_path):
    compute.run(tasks(square, 3), "Squares")
    assert capsys.readouterr() == ("", "")
    with compute.progress_shown(), pytest.raises(ValueError), dask.config.set(scheduler="synchronous"):
        compute.run(tasks(slow, 2, str(tmp_path / "log"), 1), "Slow")
    assert re.fullmatch(r"Slow: stopped, [01]/2 shards, \d\.\d s\n", capsys.readouterr().err)


def test_a_terminal_gets_a_bar():
    program = (
        "import dask, time; from ask_dask import compute\n"
        "with compute.progress_shown(): compute.run([dask.delayed(time.sleep)(0.1) for _ in range(4)], 'Naps', 'naps')"
    )
    main, side = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=side, env=environment)
    os.close(side)
    shown = io.BytesIO()
    try:
        while part := os.read(main, 1 << 16):
            shown.write(part)
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(main)
    assert process.wait() == 0 and process.stdout.read() == b""
    process.stdout.close()
    text = shown.getvalue().decode()
    assert "Naps" in text and "4/4 naps" in text and "━" in text


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_one_blas_thread_is_kept_by_whichever_thread_comes_first():
    def first():
        with compute.one_blas_thread():
            return blas_threads()

    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as pool:  # set by this thread, which lives on
        assert pool.submit(first).result() == {1}
        assert blas_threads() == {2}


def test_one_blas_thread_nests_and_restores():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with compute.one_blas_thread():
            assert blas_threads() == {1}
            with compute.one_blas_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {1}
            with pytest.raises(ValueError), compute.one_blas_thread():
                raise ValueError
            with dask.config.set(scheduler="threads"):
                found = compute.run([dask.delayed(blas_threads, pure=False)() for _ in range(4)], "look")
            assert found == [{1}] * 4 and blas_threads() == {1}
        assert blas_threads() == before == {2}


def test_time_and_memory_are_measured():
    steps = []
    with pytest.raises(ValueError), compute.measured(steps, "work"):
        held = np.ones(8 << 20)  # 64 MiB
        time.sleep(0.12)
        del held
        raise ValueError
    assert steps[0]["step"] == "work" and 0.1 < steps[0]["seconds"] < 5
    assert (64 << 20) < steps[0]["peak_bytes"] < compute.machine_memory()


def test_clusters_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match="There is no cluster 'moon': give threads, processes"), running_on("moon"):
        pass
    said = {
        "tcp://127.0.0.1:1": r"tcp://127.0.0.1:1 \(Timed out .* after 2 s\): check that it runs",
        "tcp://127.0.0.1": r"tcp://127.0.0.1 .*missing port",
        "empty.json": r"empty.json \(no answer\): check that it runs",
    }
    (tmp_path / "empty.json").write_text("{}")
    asking = (
        "import sys; from ask_dask.cluster import places; places.TIMEOUT = '2s'\n"
        "with places.running_on(sys.argv[1]): pass"
    )
    # Each in a process of its own, as users meet it: a client that failed to start troubles the next one.
    tried = {spec: program(tmp_path, asking, spec) for spec in said}
    for spec, process in tried.items():
        last = process.ended()[2].splitlines()[-1]
        assert re.match("ask_dask.errors.InputError: No scheduler answers at " + said[spec], last), last


def test_threads_are_as_many_as_asked_for():
    with running_on("threads", workers=3):
        assert compute.workers() == 3
    with pytest.raises(InputError, match="workers=0 must be 1 or more"), running_on("threads", workers=0):
        pass

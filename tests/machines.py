"""A scheduler and workers as processes of their own, over TCP on loopback, that tests kill; and a job for them.

Processes are forked by a server that has imported what they need: to start dozens of them takes seconds, not minutes.
It does not find this file; what it finds must import all that this file does.
"""

import multiprocessing
import os
import re
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import dask
import numpy as np
import zarr

from ask_dask import store
from ask_dask.store.checkpoint import parts_of
from ask_dask.store.publish import settle

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    ["ask_dask.cli.commands", "ask_dask.estimators", "distributed.cli.dask_worker", "distributed.cli.dask_scheduler"]
)

EAGER = "checkpoint.SECONDS, checkpoint.SHARE = 0, float('inf')"
"""A checkpoint after each shard."""

SMALL_PARTS = "files.PIECE_BYTES, budget.CHUNK_BYTES, budget.SHARD_BYTES = 200_000, 1, 1"
"""Text in small pieces, and stores in small shards."""

SMALL = ("--n-landmarks", "20", "--cv", "2", "--gamma", "1", "--bandwidth", "2")


class Process:
    """A process whose output goes to files, in a group of its own."""

    def __init__(self, folder, target, *arguments):
        self.files = [Path(folder) / f".{name}-{time.monotonic_ns()}" for name in ("out", "err")]
        for file in self.files:
            file.touch()
        self.process = FORKED.Process(target=_begin, args=(str(folder), self.files, target, arguments))
        self.process.start()
        self.pid = self.process.pid

    def poll(self):
        return self.process.exitcode

    def wait_for(self, text):
        """Until it is on stderr."""
        wait_until(lambda: text in self.files[1].read_text(), process=self)

    def send(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        for send in (os.killpg, os.kill) if self.poll() is None else ():
            with suppress(ProcessLookupError):  # it has no group yet, or is gone by now
                send(self.pid, signal.SIGKILL)
        self.process.join()
        for file in self.files:
            file.unlink(missing_ok=True)

    def ended(self, seconds=180):
        """Exit code, stdout, stderr."""
        self.process.join(seconds)
        assert self.poll() is not None, self.files[1].read_text()
        out, err = (file.read_text() for file in self.files)
        self.kill()
        return self.poll(), out, err


def _begin(folder, files, target, arguments):
    os.setsid()
    os.chdir(folder)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
    target(*arguments)


def _dask(*arguments):
    """`dask scheduler ...` or `dask worker ...`; a task may outlive ten workers, as our own clusters allow it."""
    from dask.__main__ import main

    dask.config.set({"distributed.scheduler.allowed-failures": 10})
    sys.argv = ["dask", *map(str, arguments)]
    main()


def _worker(log, pause, *arguments):
    """A worker whose tasks take a while, and each that is begun is noted."""
    for kind in TASKS:
        _slow(kind, pause, log)
    _dask("worker", *arguments)


TASKS = {
    "fit": ("ask_dask.moments.gathering", "_of_shards", 4),
    "predict": ("ask_dask.steps.prediction", "_predict_shard", 2),
    "parse": ("ask_dask.ingest.staging", "stage", 3), "write": ("ask_dask.ingest.pipeline", "write_shard", 5),
}  # fmt: skip
"""Where the functions of tasks are, and which of their arguments says what part of the work it is."""


def _slow(kind, pause, log=None):
    module, name, place = TASKS[kind]
    function = getattr(import_module(module), name)

    def patient(*arguments):
        if log:
            with open(log, "a") as file:
                file.write(f"{kind} {arguments[place]}\n")
        time.sleep(pause)
        return function(*arguments)

    setattr(import_module(module), name, patient)  # tasks name it


def _command(change, pause, *arguments):
    """The command, on shards of 100 rows."""
    from ask_dask import blocks, budget, cli
    from ask_dask.compute import waiting
    from ask_dask.ingest import files
    from ask_dask.store import checkpoint

    blocks.most_rows = lambda X: 100
    exec(change, {"waiting": waiting, "checkpoint": checkpoint, "files": files, "budget": budget})
    for kind in ("fit", "predict") if pause else ():
        _slow(kind, pause)
    cli.main([str(argument) for argument in arguments])


def _program(text, *arguments):
    sys.argv = ["-c", *map(str, arguments)]
    exec(text, {"__name__": "__main__"})


class Machines:
    """A scheduler and its workers, whose processes can be killed and replaced."""

    def __init__(self, folder, workers=2, pause=0.1, options=("--no-nanny", "--memory-limit", "0")):
        self.folder, self.options, self.pause = Path(folder), options, pause
        self.log, self.file = self.folder / "shards.log", self.folder / "scheduler.json"
        self.log.touch()
        self.start(workers)

    def start(self, workers):
        self.file.unlink(missing_ok=True)
        self.scheduler = Process(
            self.folder, _dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address",
            "127.0.0.1:0", "--scheduler-file", self.file,
        )  # fmt: skip
        wait_until(self.file.exists, process=self.scheduler)
        self.workers = [self.worker() for _ in range(workers)]
        for worker in self.workers:
            worker.wait_for("Registered to")  # a job that finds none says so, and says more than tests expect

    def worker(self):
        return Process(
            self.folder, _worker, self.log, self.pause, "--scheduler-file", self.file, "--nthreads", "1",
            "--no-dashboard", "--local-directory", self.folder, *self.options,
        )  # fmt: skip

    def kill(self, number):
        """SIGKILL for a worker; another takes its place."""
        self.workers[number].kill()
        self.workers[number] = self.worker()

    @property
    def begun(self):
        """Numbers of the shards of fits that were begun, one after another."""
        return [first // 100 for first in self.begun_of("fit")]

    def begun_of(self, kind):
        """The same of any kind of task."""
        noted = map(str.split, self.log.read_text().splitlines())
        return [int(number) for found, number in noted if found == kind]

    def close(self):
        for process in (*self.workers, self.scheduler):
            process.kill()


def wait_until(true, seconds=180, process=None):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        assert process is None or process.poll() is None, process.ended()
        time.sleep(0.01)


def dataset(path, shards, seed=0):
    """A dataset store of so many shards of 100 rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100 * shards, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0).astype(int)
    with store.create(path, "dataset") as group:
        for name, values in (("X", X), ("y", y)):
            made = zarr.create_array(
                group.store_path / name, shape=values.shape, chunks=(100, *values.shape[1:]), dtype=values.dtype,
                compressors=store.QUICK,
            )  # fmt: skip
            made[:] = values
        store.describe(group, fingerprint=store.fingerprint(X, y), n_rows=len(X))


def job(folder, *arguments, change="", pause=0.0):
    """The command in a process of its own; of a change of `checkpoint` or `waiting` first, and slow shards."""
    return Process(folder, _command, change, pause, *arguments)


def program(folder, text, *arguments):
    """A program in a process of its own, as `python -c` has it, that has no modules to load."""
    return Process(folder, _program, text, *arguments)


def checkpointed(path):
    """Numbers of the shards that a checkpoint and its parts hold."""
    return {number for place in (path, *parts_of(Path(path))) for number in _held(place)}


def _held(path):
    """None without a checkpoint, or while it is being replaced."""
    try:
        bounds = store.about(store.open_store(path, "checkpoint"))["shards"]
    except (OSError, KeyError, ValueError):
        return set()
    return {number for start, stop in bounds for number in range(start, stop)}


def kept_of(path):
    """The same of a job that was killed, perhaps while it replaced it."""
    settle(Path(path))
    return checkpointed(path)


def same_model(one, other):
    """Equal to the last bit, timings apart."""
    first, second = (store.open_store(path, "model") for path in (one, other))
    assert store.about(first)["fingerprint"] == store.about(second)["fingerprint"]
    assert store.about(first)["cv_results"] == store.about(second)["cv_results"]
    for name, values in first.arrays():
        np.testing.assert_array_equal(values[:], second[name][:], err_msg=name)
    return True


def near_model(one, other, rtol):
    """Equal but for rounding and what an iteration was asked to reach."""
    first, second = (store.open_store(path, "model") for path in (one, other))
    for name, values in first.arrays():
        expected = second[name][:]
        np.testing.assert_allclose(values[:], expected, rtol, atol=rtol * np.abs(expected).max(), err_msg=name)
    return True


def same_arrays(one, other):
    """Every array of two stores is equal, and so is what they are known by."""
    first, second = map(store.open_store, (one, other))
    assert store.about(first)["fingerprint"] == store.about(second)["fingerprint"]
    names = [name for name, found in first.members(max_depth=None) if isinstance(found, zarr.Array)]
    assert names
    for name in names:
        np.testing.assert_array_equal(store.read(first[name]), store.read(second[name]), err_msg=name)
    return True


def one_line(err, pattern):
    """One line on stderr, as the command says what is wrong."""
    assert re.fullmatch(f"ask-dask: {pattern}\n", err), err
    return True

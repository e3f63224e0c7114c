"""A scheduler and workers as processes of their own, over TCP on loopback, that tests kill; and a job for them."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import zarr

from ask_dask import store

PATIENT = """
import time
from ask_dask import moments
of_shard = moments.__dict__.setdefault("undisturbed", moments._of_shard)  # workers run this more than once
def patient(X, rows, shared, n_folds, first_row):
    with open({log!r}, "a") as file:
        file.write(f"{{first_row}}\\n")
    time.sleep({pause})
    return of_shard(X, rows, shared, n_folds, first_row)
moments._of_shard = patient
"""
"""What workers run first: shards take a while, and each that is begun is noted."""

CLIENT = """
from ask_dask import blocks, cli
from ask_dask.compute import waiting
from ask_dask.store import checkpoint
blocks._default_rows = lambda X: 100
{change}
cli.main()
"""
"""The command, on shards of 100 rows."""

EAGER = "checkpoint.SECONDS, checkpoint.SHARE = 0, float('inf')"
"""A checkpoint after each shard."""

SMALL = ("--landmarks", "20", "--folds", "2", "--gamma", "1", "--bandwidth", "2")


class Machines:
    """A scheduler and its workers, whose processes can be killed and replaced."""

    def __init__(self, folder, workers=2, pause=0.1, options=("--no-nanny", "--memory-limit", "0")):
        self.folder, self.options, self.log = Path(folder), options, Path(folder) / "shards.log"
        self.file, self.preload = self.folder / "scheduler.json", self.folder / "patient.py"
        self.preload.write_text(PATIENT.format(log=str(self.log), pause=pause))
        self.log.touch()
        self.workers = []
        self.start(workers)

    def start(self, workers):
        self.file.unlink(missing_ok=True)
        self.scheduler = self._run(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", self.file
        )
        wait_until(self.file.exists)
        self.workers = [self.worker() for _ in range(workers)]

    def worker(self):
        return self._run("worker", "--scheduler-file", self.file, "--nthreads", "1", "--no-dashboard", "--preload",
                         self.preload, "--local-directory", self.folder, *self.options)  # fmt: skip

    def _run(self, *arguments):
        with open(self.folder / "machines.log", "a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *map(str, arguments)], stdout=log, stderr=log, cwd=self.folder,
                env=os.environ | {"OMP_NUM_THREADS": "1", "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10"},
                start_new_session=True,  # with a nanny the worker is its child
            )  # fmt: skip

    def kill(self, number):
        """SIGKILL for a worker; another takes its place."""
        kill(self.workers[number])
        self.workers[number] = self.worker()

    @property
    def begun(self):
        """Shards that were begun, one after another."""
        return [int(line) for line in self.log.read_text().split()]

    def close(self):
        for process in (*self.workers, self.scheduler):
            kill(process)


def kill(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(true, seconds=60, process=None):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.01)


def dataset(path, shards, seed=0):
    """A dataset store of so many shards of 100 rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100 * shards, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0).astype(int)
    with store.create(path, "dataset") as group:
        for name, values in (("X", X), ("y", y)):
            made = zarr.create_array(
                group.store_path / name, shape=values.shape, chunks=(100, *values.shape[1:]), dtype=values.dtype
            )
            made[:] = values
        store.describe(group, fingerprint=store.fingerprint(X, y), n_rows=len(X))


def job(folder, *arguments, change=""):
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT.format(change=change), *map(str, arguments)], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def ended(process, seconds=120):
    """Exit code, stdout, stderr."""
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def checkpointed(path):
    """Shards that a checkpoint holds; 0 without one, or while it is being replaced."""
    try:
        return int(store.open_store(path, "checkpoint")["done"][0])
    except OSError:
        return 0


def same_model(one, other):
    """Equal to the last bit, timings apart."""
    first, second = (store.open_store(path, "model") for path in (one, other))
    assert store.about(first)["fingerprint"] == store.about(second)["fingerprint"]
    assert store.about(first)["cv_results"] == store.about(second)["cv_results"]
    for name, values in first.arrays():
        np.testing.assert_array_equal(values[:], second[name][:], err_msg=name)
    return True


def one_line(err, pattern):
    """One line on stderr, as the command says what is wrong."""
    assert re.fullmatch(f"ask-dask: {pattern}\n", err), err
    return True

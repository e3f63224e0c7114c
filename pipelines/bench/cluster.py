"""What a pass asks of scheduler, job and network by number of workers, and of 64 workers on paper. One JSON line.

    python pipelines/bench/cluster.py [--workers 1,2,4,8] [--shards 200] [--landmarks 1000]

A real scheduler and workers of one thread over TCP on this machine. Shards of 2,048 rows at 50 landmarks, which take no
time, show what each shard costs the scheduler and the job; a few larger ones at `--landmarks`, on one worker, what a
worker takes and how many bytes the sums of a shard are. SNE, five folds. Seconds are of processor time, so that workers
may be more than cores; bytes are counted where each process writes to its connections.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import made
import numpy as np
import zarr
from distributed import get_client
from distributed.comm.tcp import TCP

from ask_dask import blocks, budget, moments
from ask_dask.cluster import running_on
from ask_dask.fit.outputs import Outputs
from ask_dask.kernels import SNE

FOLDS, MANY = 5, 64
SMALL_ROWS, SMALL_LANDMARKS = 2048, 50
PART = 8
"""Usual shards are measured at this part of their rows; what a worker takes goes by the row, all else by the shard."""


def dask_setup(server: Any) -> None:
    """What `--preload` calls in the scheduler and in each worker: count what is sent."""
    write = TCP.write
    TCP.sent = 0  # type: ignore[attr-defined]

    async def counted(self: TCP, *arguments: Any, **options: Any) -> int:
        sent = await write(self, *arguments, **options)
        TCP.sent += sent  # type: ignore[attr-defined]
        return sent

    TCP.write = counted  # type: ignore[method-assign]


def used() -> np.ndarray:
    """Seconds of processor time of this process, and bytes it has sent."""
    from distributed.comm.tcp import TCP

    return np.array([time.process_time(), TCP.sent])  # type: ignore[attr-defined]


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """A client of so many workers; everything ends with it."""
    with tempfile.TemporaryDirectory() as folder, started(workers, folder) as file, running_on(str(file)):
        get_client().wait_for_workers(workers)
        yield get_client()


@contextmanager
def started(workers: int, folder: str) -> Iterator[Path]:
    """Processes, and the file of their scheduler."""
    file, dask = Path(folder) / "scheduler.json", [sys.executable, "-m", "dask"]
    given = ["--scheduler-file", file, "--preload", __file__, "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    each = ["--no-nanny", "--nthreads", 1, "--memory-limit", 0, "--local-directory", folder]
    commands = [[*dask, "scheduler", "--host", "127.0.0.1", "--port", 0, *given]]
    commands += [[*dask, "worker", *each, *given]] * workers
    processes = [subprocess.Popen(list(map(str, c)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                 for c in commands]  # fmt: skip
    try:
        while not file.exists():
            time.sleep(0.1)
        yield file
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def costs(client: Any, X: zarr.Array, y: np.ndarray, landmarks: int) -> dict[str, float]:
    """Of each shard of a pass: seconds of the scheduler, of the job and of a worker, and bytes sent by all."""
    points, folds = np.asarray(X[:landmarks]), (np.arange(len(y)) % FOLDS).astype(np.int16)
    rows, at = Outputs("classification", y, np.arange(2)).rows(folds, None), SNE(12.0).at(points, points, len(y))
    shards = len(blocks.shards(X))
    moments.gather(X, rows, FOLDS, at, points[:256])  # imports and compiles
    before = snapshot(client)
    moments.gather(X, rows, FOLDS, at, points[:256])
    seconds, sent = ((snapshot(client) - before) / shards).T
    named = dict(zip(("scheduler", "job", "workers"), seconds, strict=True))
    return {f"{name}_ms": round(1e3 * value, 2) for name, value in named.items()} | {
        "kib": round(sent.sum() / 1024, 1), "rows": blocks.shards(X)[0].stop, "shards": shards,
    }  # fmt: skip


def snapshot(client: Any) -> np.ndarray:
    """`used` of the scheduler, of this process, and of all workers together."""
    return np.stack([client.run_on_scheduler(used), used(), sum(client.run(used).values())])


def on_paper(small: dict[str, float], usual: dict[str, float]) -> dict[str, float]:
    """What 64 workers would need: shards a second, shares of a core, and MiB a second into the job."""
    height = min(8, MANY // 4)  # sums of so many shards are added on a worker before they are sent, see compute.tasks
    rate, mib = MANY / (usual["workers_ms"] / 1e3), usual["kib"] / 1024 / 2  # by way of the scheduler, so sent twice
    cores = {f"{who}_cores": rate * (usual[f"{who}_ms"] / height + small[f"{who}_ms"]) / 1e3
             for who in ("scheduler", "job")}  # fmt: skip
    found = {"workers": MANY, "shards_a_second": rate, **cores, "mib_of_a_sum": mib,
             "into_the_job_mib_a_second": rate / height * mib,
             "between_workers_mib_a_second": rate * (1 - 1 / height) * mib}  # fmt: skip
    return {name: round(value, 2) for name, value in found.items()}


def main(workers: str, shards: int, landmarks: int) -> None:
    """Measure and print."""
    dask_setup(None)
    usual_sizes, found = (budget.CHUNK_BYTES, budget.SHARD_BYTES), {}
    budget.CHUNK_BYTES = budget.SHARD_BYTES = 1  # the smallest shards there are
    with made.stored(SMALL_ROWS * shards) as (X, y):
        for count in map(int, workers.split(",")):
            with cluster(count) as client:
                found[count] = costs(client, X, y, SMALL_LANDMARKS)
    budget.CHUNK_BYTES, budget.SHARD_BYTES = usual_sizes[0], usual_sizes[1] // PART
    with made.stored(3 * budget.shard_rows(4 * made.FEATURES)) as (X, y), cluster(1) as client:
        part = costs(client, X, y, landmarks)
    usual = part | {"workers_ms": part["workers_ms"] * PART, "rows": part["rows"] * PART}
    print(json.dumps({"bench": "cluster", "landmarks": landmarks, "small_shards": found, "usual_shards": usual,
                      "on_paper": on_paper(found[max(found)], usual)}))  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--shards", type=int, default=200)
    parser.add_argument("--landmarks", type=int, default=1000)
    main(**vars(parser.parse_args()))

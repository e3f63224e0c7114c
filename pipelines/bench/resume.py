"""What checkpoints cost, and what a fit costs more that is told to end half-way and goes on. One JSON line.

    python pipelines/bench/resume.py [--rows 400000] [--landmarks 1000]

A made-up click log, five folds, one thread; the command in processes of its own. Seconds of processor time, of the
undisturbed fit and of the two that together make the same model; the arrays of both are compared.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ask_dask import store

SCRIPT = "from ask_dask.cli import main; main()"


def begun(*arguments: Any) -> subprocess.Popen:
    """A command in a process of its own."""
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def cpu() -> float:
    """Seconds of processor time of all commands that ended."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def ended(process: subprocess.Popen, code: int = 0) -> str:
    """What it logged."""
    _, err = process.communicate()
    if process.returncode != code:
        raise SystemExit(f"exit code {process.returncode}: {err}")
    return err


def checkpoints(log: str) -> dict[str, Any]:
    """How many were written, and the share of the fit's time that this took."""
    lines = [json.loads(line) for line in log.splitlines()]
    writes, seconds = re.search(
        r"checkpoint: (\d+) writes in ([\d.]+) s", "".join(line["message"] for line in lines)
    ).groups()
    taken = [line["seconds"] for line in lines if line.get("step") == "moments" and line["seconds_left"] == 0]
    return {
        "writes": int(writes),
        "seconds": float(seconds),
        "pass_s": taken[0],
        "share": round(float(seconds) / taken[0], 4),
    }


def main(rows: int, landmarks: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        data, whole, parts = (Path(folder) / name for name in ("data.zarr", "whole.zarr", "parts.zarr"))
        ended(begun("make", "criteo", "--rows", rows, "--to", data, "--store", "--quiet"))
        fit = [
            "fit",
            "--data",
            data,
            "--bandwidth",
            20,
            "--landmarks",
            landmarks,
            "--workers",
            1,
            "--log",
            "json",
            "--verbose",
        ]
        start = cpu()
        kept = checkpoints(ended(begun(*fit, "--to", whole)))
        undisturbed = cpu() - start
        stopped = begun(*fit, "--to", parts)
        while not (checkpoint := store.checkpoint_of(parts)).exists() or far(checkpoint) < 0.5:
            time.sleep(0.1)
        stopped.terminate()
        ended(stopped, 2)
        kept_at = far(checkpoint)
        ended(begun(*fit, "--to", parts))
        both = cpu() - start - undisturbed
        one, two = (store.open_store(path) for path in (whole, parts))
        equal = all(np.array_equal(store.read(array), store.read(two[name])) for name, array in one.arrays())
    print(json.dumps({"bench": "resume", "rows": rows, "landmarks": landmarks, "checkpoints": kept, "equal": equal,
                      "undisturbed_cpu_s": round(undisturbed, 1), "stopped_and_resumed_cpu_s": round(both, 1),
                      "kept_at": round(kept_at, 2), "overhead": round(both / undisturbed - 1, 3)}))  # fmt: skip


def far(checkpoint: Path) -> float:
    """Share of the shards that a checkpoint holds, 0 while it is being replaced."""
    try:
        facts = store.about(store.open_store(checkpoint))
    except OSError:
        return 0.0
    return facts["done"] / facts["total"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--landmarks", type=int, default=1000)
    main(**vars(parser.parse_args()))

"""What a killed fit loses, and what its checkpoints cost. One JSON line.

    python pipelines/bench/faults.py [--rows 1000000] [--landmarks 1000] [--repeats 3]

The command itself fits made-up Criteo rows (SNE, five folds, threads): straight, and killed (SIGKILL) after half of its
work and started again, in turn. What the second way takes more is shards that are computed again and a start of the
command. Seconds are of processor time, so that a machine may do other work; those of a checkpoint are of the clock.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from ask_dask import store

PROGRAM = """
import json, sys
from ask_dask import cli
from ask_dask.store import Checkpoint, checkpoint
remove = Checkpoint.remove
def told(kept):
    spent = kept.pace.spent + checkpoint._pace(kept.parts).spent
    print(json.dumps({"writes": kept.writes, "seconds": spent}), file=sys.stderr)
    remove(kept)
Checkpoint.remove = told
cli.main(sys.argv[1:])
"""
"""The command, which also says what its checkpoints took."""


def begun(folder: Path, *arguments: object) -> subprocess.Popen:
    """A command in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments), "--quiet"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen) -> str:
    """What it said on stderr."""
    _, err = process.communicate()
    if process.returncode:
        raise RuntimeError(err)
    return err


def used() -> float:
    """Seconds of processor time of all commands that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def straight(folder: Path, fit: list[str]) -> dict[str, Any]:
    """Seconds of a fit that nothing disturbs, and its checkpoints."""
    before = used()
    said = ended(begun(folder, *fit, "--to", "straight.zarr", "--overwrite"))
    return {"used": used() - before, **json.loads(said.splitlines()[-1])}


def killed(folder: Path, fit: list[str], after: float) -> dict[str, Any]:
    """Seconds of one that is killed when it has used so many and started again, and how far its checkpoint was."""
    before, command = used(), [*fit, "--to", "killed.zarr", "--overwrite"]
    process = begun(folder, *command)
    while sum(psutil.Process(process.pid).cpu_times()[:2]) < after:
        time.sleep(0.1)
    process.kill()
    process.communicate()
    kept = store.state(folder / "killed.zarr").get("checkpoint", {})
    ended(begun(folder, *command))
    return {"used": used() - before, "kept": [kept.get("done", 0), kept.get("total")]}


def main(rows: int, landmarks: int, repeats: int) -> None:
    """Measure and print."""
    fit = ["fit", "--data", "data.zarr", "--kernel", "sne", "--bandwidth", "20", "--n-landmarks", str(landmarks)]
    with tempfile.TemporaryDirectory() as place:
        folder, ways = Path(place), []
        ended(begun(folder, "make", "criteo", "--rows", rows, "--to", "data.zarr", "--store"))
        for _ in range(repeats):
            undisturbed = straight(folder, fit)
            ways.append((undisturbed, killed(folder, fit, undisturbed["used"] / 2)))
    seconds = median(undisturbed["used"] for undisturbed, _ in ways)
    extra = [disturbed["used"] - undisturbed["used"] for undisturbed, disturbed in ways]
    found = {
        "processor_seconds": round(seconds, 1),
        "extra": [round(value, 1) for value in extra],
        "overhead": round(median(extra) / seconds, 3),
        "shards_kept": [disturbed["kept"] for _, disturbed in ways],
        "checkpoints": median(undisturbed["writes"] for undisturbed, _ in ways),
        "seconds_of_all": round(median(undisturbed["seconds"] for undisturbed, _ in ways), 2),
    }
    print(json.dumps({"bench": "faults", "rows": rows, "landmarks": landmarks, **found}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    main(**vars(parser.parse_args()))

"""Time and memory of the whole job over the number of rows: both per row and at its peak they should not change.

    python pipelines/bench/scale.py --rows 1000000,5000000 --to FOLDER

For each number of rows: a made-up click log as a store, a fit (SNE, gammas 1e3 to 1e6, 250, 500 and 1,000 landmarks,
5 folds), predictions of 200,000 later rows and their scores, each by the command in a process of its own. One JSON line
for each number of rows; stores are removed after it. Memory is the peak of the process, all that it loads included.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NEW = 200_000
FIT = ["--kernel", "sne", "--gamma", "1000,10000,100000,1000000", "--n-landmarks", "250,500,1000", "--cv", "5"]


COMMAND = """
import atexit, resource, sys
atexit.register(lambda: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, file=sys.stderr))
from ask_dask.cli import main
main()
"""


def ask(*arguments: Any) -> dict[str, Any]:
    """What a command says as JSON; `peak_mib` is the most resident memory that its process ever had."""
    command = [sys.executable, "-c", COMMAND, *map(str, arguments), "--json", "--quiet"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout) | {"peak_mib": int(done.stderr.split()[-1])}


def seconds(found: dict[str, Any]) -> float:
    """Of a command's own steps."""
    return sum(step["seconds"] for step in found["steps"])


def measured(rows: int, folder: Path, memory: str) -> dict[str, Any]:
    """The whole job on so many rows."""
    made = ask("make", "criteo", "--rows", rows, "--to", folder / "data.zarr", "--store")
    fitted = ask("fit", "--data", folder / "data.zarr", "--to", folder / "model.zarr", "--memory", memory, *FIT)
    later = ["--first", rows, "--rows", NEW, "--encoder", folder / "data.zarr"]
    ask("make", "criteo", *later, "--to", folder / "new.zarr", "--store")
    predicted = ask(
        "predict", "--model", folder / "model.zarr", "--data", folder / "new.zarr", "--to", folder / "p.zarr"
    )
    scores = ask("score", "--predictions", folder / "p.zarr")
    make_s, fit_s, predict_s = map(seconds, (made, fitted, predicted))
    moments = next(step["seconds"] for step in fitted["steps"] if step["step"] == "moments")
    return {
        "bench": "scale", "rows": rows, "store_gib": round(made["bytes"] / 2**30, 2),
        "make_s": round(make_s, 1), "make_us_a_row": round(1e6 * make_s / rows, 2), "make_peak_mib": made["peak_mib"],
        "fit_s": round(fit_s, 1), "fit_us_a_row": round(1e6 * fit_s / rows, 2), "fit_peak_mib": fitted["peak_mib"],
        "moments_us_a_row": round(1e6 * moments / rows, 2),
        "predict_us_a_row": round(1e6 * predict_s / NEW, 2), "predict_peak_mib": predicted["peak_mib"],
        "n_landmarks": fitted["n_landmarks"], "gamma": fitted["gamma"],
        "auroc": round(scores["auroc"], 4),
    }  # fmt: skip


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,5000000", help="Numbers of rows, with commas.")
    parser.add_argument("--to", type=Path, default=Path("."), help="Folder for the stores while they are there.")
    parser.add_argument("--memory", default="2GiB")
    options = parser.parse_args()
    for rows in map(int, options.rows.split(",")):
        options.to.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="scale-", dir=options.to))
        try:
            print(json.dumps(measured(rows, folder, options.memory)), flush=True)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()

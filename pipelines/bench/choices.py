"""What choosing costs: 10 gammas x 10 folds x 4 landmark counts against one single fit. One JSON line.

    python pipelines/bench/choices.py [--rows 4000000] [--repeats 1]

Both from the same zarr array of float32 rows with SNE at 1,000 landmarks; the choice also scores every pair on held-out
rows (a million of them), the single fit does not.
"""

import argparse
import json
import warnings
from functools import partial
from statistics import median
from typing import Any

import made
import numpy as np
import zarr

from ask_dask import AsKLSClassifier
from ask_dask.kernels import SNE

GAMMAS = tuple(np.logspace(2, 6, 10))
CHOICE = {"gamma": GAMMAS, "cv": 10, "n_landmarks": (250, 500, 750, 1000)}
SINGLE = {"gamma": 1e4, "cv": None, "merge": "mean", "n_landmarks": 1000}


def fit(X: zarr.Array, y: np.ndarray, steps: dict[str, float], **parameters: Any) -> float:
    """Seconds of a fit; `steps` gets those of its parts."""
    model = AsKLSClassifier(SNE(12.0), random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a resonance is no matter here
        seconds = made.timed(lambda: model.fit(X, y))
    steps.update({step["step"]: round(step["seconds"], 1) for step in model.steps_})
    return seconds


def main(rows: int, repeats: int) -> None:
    """Measure and print."""
    steps: dict[str, dict[str, float]] = {"single": {}, "choice": {}}
    with made.stored(rows) as (X, y):
        work = {
            "single": partial(fit, X, y, steps["single"], **SINGLE),
            "choice": partial(fit, X, y, steps["choice"], **CHOICE),
        }
        seconds = made.in_turn(work, repeats)
    ratio = median(a / b for a, b in zip(seconds["choice"], seconds["single"], strict=True))
    found = {name: round(median(values), 1) for name, values in seconds.items()}
    print(json.dumps({"bench": "choices", "rows": rows, "seconds": found, "times": round(ratio, 2), "steps": steps}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=1)
    main(**vars(parser.parse_args()))

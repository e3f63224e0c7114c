"""Strong scaling: the same pass from zarr to moments on one worker and on two. One JSON line.

    python pipelines/bench/workers.py [--rows 638976] [--repeats 3]

SNE at 1,000 landmarks, five folds, float32, shards of equal size. Workers are threads of one process, and processes of
one thread each on a real scheduler over TCP. Each has one BLAS thread. In the same turns, what the machine can give:
Grams alone (BLAS, no task, nothing read), all by one thread and half of them by each of two.
"""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median

import made
import numpy as np
import zarr
from landmark_fit import syrk
from threadpoolctl import threadpool_limits

from ask_dask import blocks, budget, moments
from ask_dask.cluster import running_on
from ask_dask.fit.outputs import Outputs
from ask_dask.kernels import SNE

M, FOLDS = 1000, 5
PLACES = ("grams", "threads", "processes")


def seconds_on(place: str, workers: int, X: zarr.Array, rows: moments.Rows) -> float:
    """Seconds of one pass there; what is imported and compiled first is not counted."""
    if place == "grams":
        return grams(workers, X.shape[0])
    points = np.asarray(X[:M])
    with running_on(place, workers):
        at = SNE(12.0).at(points, points, X.shape[0])
        moments.gather(X, rows, FOLDS, at, points[:256]) if place == "processes" else None
        return made.timed(lambda: moments.gather(X, rows, FOLDS, at, points[:256]))


def grams(threads: int, rows: int) -> float:
    """Seconds of both roles' Grams of so many rows, the blocks shared among the threads."""
    block = np.random.default_rng(0).random((budget.GRAM_ROWS, M), np.float32)
    count = 2 * rows // (len(block) * threads)
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        return made.timed(lambda: list(pool.map(partial(syrk, block), [count] * threads)))


def main(rows: int, repeats: int) -> None:
    """Measure and print."""
    with made.stored(rows) as (X, y):
        folds = np.random.default_rng(0).integers(0, FOLDS, rows).astype(np.int16)
        each = Outputs("classification", y, np.arange(2)).rows(folds, None)
        work = {f"{place}_{count}": partial(seconds_on, place, count, X, each) for place in PLACES for count in (1, 2)}
        seconds = made.in_turn(work, repeats)
        height = blocks.shards(X)[0].stop
    found = {name: round(median(values), 2) for name, values in seconds.items()}
    ratios = {
        f"{place}_speed_up": round(
            median(a / b for a, b in zip(seconds[f"{place}_1"], seconds[f"{place}_2"], strict=True)), 2
        )
        for place in PLACES
    }
    print(json.dumps({"bench": "workers", "rows": rows, "rows_a_shard": height, "seconds": found, **ratios}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=638_976)
    parser.add_argument("--repeats", type=int, default=3)
    main(**vars(parser.parse_args()))

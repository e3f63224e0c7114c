"""Prediction against the kernel block alone, and what reading costs. One JSON line.

    python pipelines/bench/prediction.py [--rows 1000000] [--repeats 3]

A store of float32 rows, SNE at 1,000 landmarks. `limit` is the product that gives distances and the exponential, in
memory, one BLAS thread for each core; `discriminants` is f_s and f_t of the rows in the store; `predict` is the whole
step: store to a published predictions store. `read` is every row read from the store and thrown away, as parallel as
the rest: its share of the pass to the moments is the most that waiting for data can cost.
"""

import argparse
import json
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

import made
import numpy as np
import zarr
from dask.system import CPU_COUNT
from threadpoolctl import threadpool_limits

from ask_dask import AsKLSClassifier, blocks, compute, moments, store
from ask_dask.fit.outputs import Outputs
from ask_dask.kernels import SNE
from ask_dask.kernels.exponential import exp_below_largest
from ask_dask.steps.prediction import write_predictions

M, BLOCK, FOLDS = 1000, 512, 5


def limit_seconds(points: np.ndarray, rows: int) -> float:
    """Seconds of distances and exponentials of so many rows, which are in cache."""
    left = np.random.default_rng(0).normal(size=(BLOCK, made.FEATURES + 2)).astype(np.float32)
    right = np.random.default_rng(1).normal(size=(made.FEATURES + 2, M)).astype(np.float32)
    each = rows // BLOCK // CPU_COUNT

    def work(_: int) -> None:
        out = np.empty((BLOCK, M), np.float32)
        for _ in range(each):
            exp_below_largest(np.matmul(left, right, out=out))

    with threadpool_limits(1), ThreadPoolExecutor(CPU_COUNT) as pool:
        seconds = made.timed(lambda: list(pool.map(work, range(CPU_COUNT))))
    return seconds * rows / (each * BLOCK * CPU_COUNT)


def read_seconds(X: zarr.Array) -> float:
    """Seconds of reading every row, a task a shard."""
    tasks = [shard.block for shard in blocks.shards(X)]
    return made.timed(lambda: compute.run([_dropped(task) for task in tasks], None))


def _dropped(block):
    import dask

    return dask.delayed(len, pure=False)(block)


def moment_seconds(X: zarr.Array, y: np.ndarray, model: AsKLSClassifier) -> float:
    """Seconds of the pass to the moments of five folds."""
    folds = np.random.default_rng(0).integers(0, FOLDS, len(y)).astype(np.int16)
    rows = Outputs("classification", y, np.arange(2)).rows(folds, None)
    return made.timed(lambda: moments.gather(X, rows, FOLDS, model.basis_.at, model.basis_.typical))


def main(rows: int, repeats: int) -> None:
    """Measure and print."""
    with made.stored(rows) as (X, y), tempfile.TemporaryDirectory() as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            some = slice(0, 100_000)
            model = AsKLSClassifier(SNE(12.0), 1e4, cv=2, n_landmarks=M, random_state=0)
            model.fit(X[some], y[some])
        data = store.open_store(Path(str(X.store_path.store.root)))

        def predict() -> float:
            def work() -> None:
                with store.create(Path(folder) / "p.zarr", "predictions", overwrite=True) as group:
                    write_predictions(model, data, group)

            return made.timed(work)

        work = {
            "limit": partial(limit_seconds, np.asarray(X[:M]), rows),
            "discriminants": lambda: made.timed(lambda: model.decision_function(X).compute()),
            "predict": predict,
            "read": partial(read_seconds, X),
            "moments": partial(moment_seconds, X, y, model),
        }
        seconds = made.in_turn(work, repeats)

    def share(part: str, whole: str) -> float:
        return round(median(a / b for a, b in zip(seconds[part], seconds[whole], strict=True)), 3)

    found = {
        "bench": "prediction", "rows": rows, "landmarks": M,
        "rows_per_s": {name: round(rows / median(values)) for name, values in seconds.items()},
        "discriminants_share_of_limit": share("limit", "discriminants"),
        "predict_share_of_limit": share("limit", "predict"),
        "reading_share_of_moments": share("read", "moments"),
    }  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    main(**vars(parser.parse_args()))

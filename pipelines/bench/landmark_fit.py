"""How near the landmark pass is to the machine's limit, and how it compares with scikit-learn. One JSON line.

    python pipelines/bench/landmark_fit.py [--rows 200000] [--repeats 3]

Measured in one process, alternately, medians of the repeats, float32, from zarr:

syrk            the machine's own rate: the best, over block heights, of threaded BLAS and of one single-threaded BLAS a
                core, counting 2 N m^2 flops
sne, rbf        zarr to moments (5 folds) at 1000 landmarks: rows/s, and 2 N m^2 flops a Gram as a share of syrk
scikit_learn    Nystroem(1000) + Ridge on the same rows in memory with the same landmarks (RBF), against our whole fit
                from zarr (landmarks, moments, solve)
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from dask.system import CPU_COUNT
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from ask_dask import AsKLSClassifier, blocks, moments, store
from ask_dask.estimators.outputs import Outputs
from ask_dask.kernels import RBF, SNE, Kernel

M, FEATURES, FOLDS, BANDWIDTH = 1000, 39, 5, 12.0


def main(rows: int, repeats: int) -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + rng.normal(size=rows) > 0).astype(np.int8)
    folds = rng.integers(0, FOLDS, rows).astype(np.int16)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.zarr"
        with store.create(path, "dataset") as group:
            store.create_array(group, "X", X.shape, X.dtype)[:] = X
        stored = store.array(store.open_store(path), "X")
        work = {
            "syrk": partial(syrk_seconds, rows),
            "sne": partial(moment_seconds, stored, y, folds, SNE(BANDWIDTH)),
            "rbf": partial(moment_seconds, stored, y, folds, RBF(BANDWIDTH)),
            "scikit_learn": partial(scikit_learn_seconds, X, y),
            "ours": partial(fit_seconds, stored, y),
        }
        seconds: dict[str, list[float]] = {name: [] for name in work}
        for _ in range(repeats):
            for name, measure in work.items():
                seconds[name].append(measure())
    print(json.dumps(figures(seconds, rows)))


def figures(seconds: dict[str, list[float]], rows: int) -> dict:
    """Medians of times, and of ratios taken inside each repeat."""
    rate = [2 * rows * M**2 / s / 1e9 for s in seconds["syrk"]]
    paired = {name: list(zip(seconds["syrk"], seconds[name], strict=True)) for name in ("sne", "rbf")}
    ratio = [theirs / ours for theirs, ours in zip(seconds["scikit_learn"], seconds["ours"], strict=True)]
    return {
        "bench": "landmark_fit",
        "rows": rows,
        "landmarks": M,
        "cores": CPU_COUNT,
        "syrk_gflops": round(median(rate), 1),
        "sne_rows_per_s": round(rows / median(seconds["sne"])),
        "sne_share_of_syrk": round(median(2 * s / t for s, t in paired["sne"]), 3),
        "rbf_rows_per_s": round(rows / median(seconds["rbf"])),
        "rbf_share_of_syrk": round(median(s / t for s, t in paired["rbf"]), 3),
        "rbf_fit_s": round(median(seconds["ours"]), 2),
        "scikit_learn_s": round(median(seconds["scikit_learn"]), 2),
        "times_faster_than_scikit_learn": round(median(ratio), 2),
    }


def syrk_seconds(rows: int) -> float:
    """Seconds of one Gram of `rows` rows at the best block height and threading."""
    best = np.inf
    for height in (512, 1024, 2048, 4096, 16384):
        block = np.random.default_rng(0).random((height, M), np.float32)
        count = max(2 * CPU_COUNT, 40_000 // height)
        per_row = 1 / (count * height)
        with threadpool_limits(1), ThreadPoolExecutor(CPU_COUNT) as pool:
            started = time.perf_counter()
            list(pool.map(partial(syrk, block), [count // CPU_COUNT] * CPU_COUNT))
            done = count // CPU_COUNT * CPU_COUNT / count
            best = min(best, (time.perf_counter() - started) * per_row / done)
        started = time.perf_counter()
        syrk(block, count)
        best = min(best, (time.perf_counter() - started) * per_row)
    return best * rows


def syrk(block: np.ndarray, count: int) -> None:
    """`count` symmetric rank-k updates: numpy sees that both factors are one and calls SYRK."""
    out = np.empty((M, M), np.float32)
    for _ in range(count):
        np.matmul(block.T, block, out=out)


def moment_seconds(X, y: np.ndarray, folds: np.ndarray, kernel: Kernel) -> float:
    """Seconds from zarr to the moments of every fold."""
    points = blocks.take_rows(X, np.arange(M))
    at = kernel.at(points, points, X.shape[0])
    rows = Outputs("classification", y, np.arange(2)).rows(folds, None)
    return timed(lambda: moments.gather(X, rows, FOLDS, at, points[:256]))


def scikit_learn_seconds(X: np.ndarray, y: np.ndarray) -> float:
    """Seconds of scikit-learn's landmark ridge regression."""
    features = Nystroem(kernel="rbf", gamma=BANDWIDTH**-2, n_components=M, random_state=0)
    target = 2 * y.astype(np.float32) - 1
    return timed(lambda: Ridge(solver="cholesky").fit(features.fit_transform(X), target))


def fit_seconds(X, y: np.ndarray) -> float:
    """Seconds of our fit at the landmarks that scikit-learn draws."""
    same = np.random.RandomState(0).permutation(X.shape[0])[:M]
    model = AsKLSClassifier(RBF(BANDWIDTH), 1.0, cv=None, merge="mean", landmarks=same, damping=1e-9)
    return timed(lambda: model.fit(X, y))


def timed(work: Callable[[], object]) -> float:
    """Wall-clock seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    main(**vars(parser.parse_args()))

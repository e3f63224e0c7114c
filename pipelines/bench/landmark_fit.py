"""How near the landmark pass is to the machine's limit, and how it compares with scikit-learn. One JSON line.

    python pipelines/bench/landmark_fit.py [--rows 200000] [--repeats 3]

Measured in one process, alternately, medians of the repeats, float32, from zarr:

syrk            the machine's own rate: the best, over block heights, of threaded BLAS and of one single-threaded BLAS a
                core, counting 2 N m^2 flops
sne, rbf        zarr to moments (5 folds) at 1000 landmarks: rows/s, and 2 N m^2 flops a Gram as a share of syrk
numpy_loop      the same moments (SNE, 5 folds) by plain NumPy on the rows in memory: chunks of 16,384, threaded BLAS
scikit_learn    Nystroem(1000) + Ridge on the same rows in memory with the same landmarks (RBF), against our whole fit
                from zarr (landmarks, moments, solve); time, and peak memory above the start, each in a new process
"""

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import made
import numpy as np
from dask.system import CPU_COUNT
from made import timed
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from ask_dask import AsKLSClassifier, blocks, compute, moments, store
from ask_dask.fit.outputs import Outputs
from ask_dask.kernels import RBF, SNE, Kernel

M, FOLDS, BANDWIDTH, CHUNK = 1000, 5, 12.0, 16384


def main(rows: int, repeats: int) -> None:
    """Measure and print."""
    folds = np.random.default_rng(0).integers(0, FOLDS, rows).astype(np.int16)
    with made.stored(rows) as (stored, y):
        X = np.asarray(stored[:])
        work = {
            "syrk": partial(syrk_seconds, rows),
            "sne": partial(moment_seconds, stored, y, folds, SNE(BANDWIDTH)),
            "rbf": partial(moment_seconds, stored, y, folds, RBF(BANDWIDTH)),
            "numpy_loop": lambda: timed(lambda: numpy_moments(X, y, folds)),
            "scikit_learn": partial(scikit_learn_seconds, X, y),
            "ours": partial(fit_seconds, stored, y),
        }
        seconds = made.in_turn(work, repeats)
        path = str(stored.store_path.store.root)
        peaks = {which: in_new_process(peak_mib, path, y, which) for which in ("ours", "scikit_learn")}
    print(json.dumps(figures(seconds, rows) | {"peak_mib_above_start": peaks}))


def figures(seconds: dict[str, list[float]], rows: int) -> dict:
    """Medians of times, and of ratios taken inside each repeat."""
    rate = [2 * rows * M**2 / s / 1e9 for s in seconds["syrk"]]
    paired = {name: list(zip(seconds["syrk"], seconds[name], strict=True)) for name in ("sne", "rbf")}
    ratio = [theirs / ours for theirs, ours in zip(seconds["scikit_learn"], seconds["ours"], strict=True)]
    loop = [theirs / ours for theirs, ours in zip(seconds["numpy_loop"], seconds["sne"], strict=True)]
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
        "times_faster_than_numpy_loop": round(median(loop), 2),
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


def numpy_moments(X: np.ndarray, y: np.ndarray, folds: np.ndarray) -> list[Any]:
    """Sums, Grams and products with Y of C and R' for each fold, as one would write them without this package."""
    Z, sign = X[:M], (2 * y - 1).astype(np.float32)
    affinity = affinities(Z, Z)
    weights = 1 / (len(X) / M * affinity.sum(1))
    found = [[[np.zeros(M), np.zeros((M, M)), np.zeros(M)] for _ in (0, 1)] for _ in range(FOLDS)]
    for start in range(0, len(X), CHUNK):
        rows = slice(start, start + CHUNK)
        E = affinities(X[rows], Z)
        C, R = E / (len(X) / M * E.sum(1, keepdims=True)), E * weights
        for fold in range(FOLDS):
            here = folds[rows] == fold
            for side, block in zip(found[fold], (C[here], R[here]), strict=True):
                side[0] += block.sum(0)
                side[1] += block.T @ block
                side[2] += block.T @ sign[rows][here]
    return found


def affinities(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """exp(-|x - z|^2 / bandwidth^2)."""
    squares = (X**2).sum(1)[:, None] - 2 * X @ Z.T + (Z**2).sum(1)
    return np.exp(squares / np.float32(-(BANDWIDTH**2)))


def scikit_learn_fit(X: np.ndarray, y: np.ndarray) -> None:
    """Scikit-learn's landmark ridge regression."""
    features = Nystroem(kernel="rbf", gamma=BANDWIDTH**-2, n_components=M, random_state=0)
    Ridge(solver="cholesky").fit(features.fit_transform(X), 2 * y.astype(np.float32) - 1)


def scikit_learn_seconds(X: np.ndarray, y: np.ndarray) -> float:
    """Seconds of that."""
    return timed(lambda: scikit_learn_fit(X, y))


def fit(X, y: np.ndarray) -> None:
    """Our fit at the landmarks that scikit-learn draws."""
    same = np.random.RandomState(0).permutation(X.shape[0])[:M]
    AsKLSClassifier(RBF(BANDWIDTH), 1.0, cv=None, merge="mean", landmarks=same, damping=1e-9).fit(X, y)


def fit_seconds(X, y: np.ndarray) -> float:
    """Seconds of that."""
    return timed(lambda: fit(X, y))


def peak_mib(path: str, y: np.ndarray, which: str) -> int:
    """Peak memory of one fit above what the process had, with the data that it was given, before."""
    X = store.array(store.open_store(Path(path)), "X")
    given = X if which == "ours" else np.asarray(X[:])
    steps: list[dict[str, Any]] = []
    with compute.measured(steps, "start"):
        time.sleep(0.1)
    with compute.measured(steps, "fit"):
        (fit if which == "ours" else scikit_learn_fit)(given, y)
    return (steps[1]["peak_bytes"] - steps[0]["peak_bytes"]) >> 20


def in_new_process(function: Any, *arguments: Any) -> Any:
    """What it returns there."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    main(**vars(parser.parse_args()))

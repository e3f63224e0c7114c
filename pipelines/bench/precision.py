"""Compare test scores of float32 and float64 fits, and whether a difference is told.

    python pipelines/bench/precision.py [--rows 20000] [--landmarks 300,1000] [--gammas 1,100,10000,1000000]
    python pipelines/bench/precision.py --only-pass 400000

Four synthetic tables, each with the kernels RBF, Laplacian, SNE and Student-t. From one pass for each precision every
gamma is solved and scored on 5,000 new rows. A case counts as told where a fit would warn. Prints one JSON line; the
exit code is 1 if a difference above 1 % is not told. With --only-pass the pass over so many rows at 1,000 landmarks is
timed instead, with the frames that keep float32's digits and without, in turn.
"""

import argparse
import json
import sys

import made
import numpy as np
from sklearn.datasets import make_friedman1

from ask_dask import blocks, moments, nystrom
from ask_dask.basis import TYPICAL_ROWS
from ask_dask.kernels import RBF, SNE, Kernel, Laplacian, StudentT
from ask_dask.kernels.base import Columns
from ask_dask.moments.frame import PIVOTS
from ask_dask.solve import LandmarkSystem, Solution

NEW = 5_000


def protein(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Nine correlated features with heavy tails."""
    turned = np.linalg.qr(rng.normal(size=(9, 9)))[0] * np.geomspace(3, 0.1, 9)
    X = rng.standard_t(4, size=(n, 9)) @ turned.T
    X = np.exp(0.4 * X / X.std(0))
    X = (X - X.mean(0)) / X.std(0)
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] * X[:, 2] + np.tanh(2 * X[:, 3]) + 0.5 * rng.normal(size=n)


def friedman(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ten uniform features, of which five count."""
    return make_friedman1(n, 10, noise=1.0, random_state=int(rng.integers(1 << 31)))


def normal(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Five normal features."""
    X = rng.normal(size=(n, 5))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.3 * rng.normal(size=n)


def far(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Thirty features of different sizes, far from the origin, and large labels."""
    X = rng.normal(size=(n, 30)) * np.geomspace(2, 0.1, 30) + 50
    return X, 1e5 + 1e3 * (np.sin(X[:, 0]) + (X[:, 1] - 50) * (X[:, 2] - 50) / 2 + 0.3 * rng.normal(size=n))


TABLES = {"protein": protein, "friedman": friedman, "normal": normal, "far": far}


def kernels(X: np.ndarray) -> list[Kernel]:
    """Return the kernels at bandwidths from the median distance."""
    some = X[:500]
    squares = np.sqrt(np.median(((some[:, None] - some) ** 2).sum(2)))
    sums = float(np.median(np.abs(some[:, None] - some).sum(2)))
    return [RBF(float(squares)), Laplacian(sums), SNE(float(squares)), StudentT()]


def path(
    kernel: Kernel, X: np.ndarray, y: np.ndarray, new: np.ndarray, m: int, gammas: list[float]
) -> list[tuple[Solution, np.ndarray]]:
    """Return the solution and the predictions of new rows at every gamma."""
    points = X[:m]
    at = kernel.at(points, points, len(X))
    core = kernel.at(*2 * [points.astype(np.float64)], len(X)).source(points.astype(np.float64))
    rows = moments.Rows((y[:, None] - y.mean()) / y.std(), np.asarray, np.zeros(len(X), np.int8))
    found = moments.gather(X, rows, 1, at, points[:TYPICAL_ROWS])
    maps = nystrom.feature_map(core, nystrom.resolution(X.dtype), kernel.symmetric)
    solutions = LandmarkSystem(moments.Centred.of(found, maps)).path(gammas)
    f = [blocks.discriminants(new, at, s.source, s.target, s.intercepts).mean(1) for s in solutions]
    return list(zip(solutions, f, strict=True))


def cases(name: str, n: int, counts: list[int], gammas: list[float]) -> list[dict[str, object]]:
    """Return the test errors at each kernel, landmark count and gamma, and whether their difference is told."""
    X, y = TABLES[name](n + NEW, np.random.default_rng(0))
    new, known, X, y = X[n:], (y[n:] - y[:n].mean()) / y[:n].std(), X[:n], y[:n]
    found = []
    for kernel in kernels(X):
        for m in counts:
            single, double = (path(kernel, X.astype(t), y, new.astype(t), m, gammas) for t in (np.float32, np.float64))
            for gamma, (solution, f), (_, exact) in zip(gammas, single, double, strict=True):
                errors = [float(np.sqrt(np.mean((g - known) ** 2))) for g in (f, exact)]
                found.append({
                    "table": name, "kernel": type(kernel).__name__, "landmarks": m, "gamma": gamma,
                    "rmse_float32": round(errors[0], 4), "rmse_float64": round(errors[1], 4),
                    "apart": abs(errors[0] / errors[1] - 1), "told": not solution.resolved,
                })  # fmt: skip
    return found


def slowdown(rows: int) -> dict[str, float]:
    """Return how many times as long the pass takes with frames as without, for two Grams and for one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, made.FEATURES)).astype(np.float32)
    given, points = moments.Rows(np.sign(X[:, :1]), np.asarray, np.arange(rows) % 5), X[:1000]
    found = {}
    for kernel in (SNE(12.0), RBF(12.0)):
        at = kernel.at(points, points, rows)

        def seconds(pivots: int, at: Columns = at) -> float:
            return made.timed(lambda: moments.gather(X, given, 5, at, points[:TYPICAL_ROWS], pivots=pivots))

        seconds(PIVOTS)
        taken = made.in_turn({"frames": lambda: seconds(PIVOTS), "plain": lambda: seconds(0)}, 5)
        found[type(kernel).__name__] = round(float(np.median(taken["frames"]) / np.median(taken["plain"])), 3)
    return found


def main(rows: int, landmarks: str, gammas: str, only_pass: int | None) -> int:
    """Measure and print."""
    if only_pass:
        print(json.dumps({"bench": "precision", "rows": only_pass, "frames_over_plain": slowdown(only_pass)}))
        return 0
    counts, weights = [int(m) for m in landmarks.split(",")], [float(g) for g in gammas.split(",")]
    found = [case for name in TABLES for case in cases(name, rows, counts, weights)]
    told = [case for case in found if case["told"]]
    silent = [case for case in found if case["apart"] > 0.01 and not case["told"]]
    needless = [case for case in told if case["apart"] < 0.001]
    print(json.dumps({
        "bench": "precision", "rows": rows, "cases": len(found), "told": len(told), "told_needlessly": len(needless),
        "silent": silent, "largest_untold": max(c["apart"] for c in found if not c["told"]),
        "told_cases": [f"{c['table']} {c['kernel']} {c['landmarks']} {c['gamma']:g}" for c in told],
    }))  # fmt: skip
    return bool(silent)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--landmarks", default="300,1000")
    parser.add_argument("--gammas", default="1,100,10000,1000000")
    parser.add_argument("--only-pass", type=int)
    sys.exit(main(**vars(parser.parse_args())))

"""Which choice of landmarks gives the smallest error for the time: uniform, kmeans, leverage, cross, greedy.

    python pipelines/bench/landmark_choice.py [--rows 5000] [--counts 25,50,100,200,400,800] [--budgets 0.1,0.3,1,3]
    python pipelines/bench/landmark_choice.py --data FOLDER/criteo/train_10k.txt    # its columns of numbers
    python pipelines/bench/landmark_choice.py --graph FOLDER/cora                   # its nodes, rows of A + I

One JSON line. Each way chooses so many landmarks a side (points alone give one choice for both sides), and C, R and the
map of C X R are formed; all of it is timed, ways in turn, medians over seeds. `error` is ||K - C X R|| / ||K||
(Frobenius) on all pairs of at most 5,000 points, `estimated` the same on a seeded sample of 500 rows and 500 columns.
Within a budget of seconds a way has the least error among its counts that took no longer.

Without data the points are 20 normal clusters of unequal size in 10 dimensions; the kernel is SNE, its bandwidth
`--bandwidth` times the median distance.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from ask_dask import landmarks, nystrom
from ask_dask.kernels import RBF, SNE

AT_MOST, SAMPLE, PROBES = 5000, 500, 100


def clusters(rows: int) -> np.ndarray:
    """Points of 20 clusters, the largest 20 times the smallest."""
    random = np.random.default_rng(0)
    weights = np.linspace(1, 20, 20)
    which = random.choice(20, rows, p=weights / weights.sum())
    return (3 * random.normal(size=(20, 10)))[which] + random.normal(size=(rows, 10))


def points(path: Path) -> np.ndarray:
    """The numbers of a Criteo log, as logarithms and scaled; 0 where one is missing."""
    X = np.genfromtxt(path, delimiter="\t", usecols=range(1, 14))[:AT_MOST]
    X = np.sign(X) * np.log1p(np.abs(X))
    spread = np.nanstd(X, axis=0)
    return np.nan_to_num((X - np.nanmean(X, axis=0)) / np.where(spread > 0, spread, 1))


def neighbours(folder: Path) -> sp.csr_matrix:
    """The adjacency of a graph with self loops."""
    edges = np.loadtxt(folder / "directed_edges.tsv", dtype=np.int64)
    n = min(int(edges.max()) + 1, AT_MOST)
    edges = edges[(edges < n).all(1)]
    A = sp.coo_matrix((np.ones(len(edges)), edges.T), (n, n)) + sp.identity(n)
    return (A > 0).astype(float).tocsr()


def median_distance(X: Any) -> float:
    """Of pairs among 500 points."""
    some = X[landmarks.uniform(X.shape[0], min(500, X.shape[0]), 0)]
    some = some.toarray() if sp.issparse(some) else some
    return float(np.median(np.sqrt(((some[:, None] - some[None]) ** 2).sum(-1))[np.triu_indices(len(some), 1)]))


class Whole:
    """SNE with the normalisers of all points, known beforehand: every way approximates one and the same matrix."""

    def __init__(self, width: float, X: Any) -> None:
        self.X, self.affinity, self.sne = X, RBF(width), SNE(width)
        self.norms = self.affinity(X, X).sum(1)

    def __call__(self, rows: Any, columns: Any) -> np.ndarray:
        """K at row and column numbers."""
        return self.affinity(self.X[rows], self.X[columns]) / self.norms[rows, None]


def approximated(whole: Whole, how: str, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two factors of C X R; the core is cut where other rows and columns ask for it."""
    X, n = whole.X, whole.X.shape[0]
    rows, columns = landmarks.choose(how, X, X, whole.sne, m, seed, same=how in landmarks.BY_POINTS)
    judges = landmarks.uniform(n, min(PROBES, n), [seed, 9])
    C, R = whole(slice(None), columns), whole(rows, slice(None))
    judge = nystrom.Judge(C[judges], R[:, judges], whole(judges, judges))
    maps = nystrom.fitted_map(C[rows], m, m, nystrom.resolution(np.float64), judge)
    return C @ maps.source, maps.target.T @ R


def errors(K: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Of all pairs, and on the sample."""
    random = np.random.default_rng(1)
    some = [random.choice(n, min(SAMPLE, n), False) for n in K.shape]
    part = K[np.ix_(*some)]
    estimated = np.linalg.norm(part - left[some[0]] @ right[:, some[1]]) / np.linalg.norm(part)
    return float(np.linalg.norm(K - left @ right) / np.linalg.norm(K)), float(estimated)


def measure(whole: Whole, hows: list[str], counts: list[int], seeds: int) -> dict[str, list[dict[str, float]]]:
    """For each way and count: medians over seeds of seconds and errors."""
    K = whole(slice(None), slice(None))
    found: dict[str, list[dict[str, float]]] = {how: [] for how in hows}
    for m in counts:
        taken: dict[str, list[tuple[float, float, float]]] = {how: [] for how in hows}
        for seed in range(seeds):
            for how in hows:
                started = time.perf_counter()
                factors = approximated(whole, how, m, seed)
                taken[how].append((time.perf_counter() - started, *errors(K, *factors)))
        for how in hows:
            medians = [median(column) for column in zip(*taken[how], strict=True)]
            names = ("seconds", "error", "estimated")
            found[how].append({"landmarks": m} | {n: float(f"{v:.3g}") for n, v in zip(names, medians, strict=True)})
    return found


def within(found: list[dict[str, float]], budget: float) -> float | None:
    """The least error among what took no longer; None where nothing was as fast."""
    return min((one["error"] for one in found if one["seconds"] <= budget), default=None)


def main() -> None:
    """Parse the command line, run, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=AT_MOST)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--bandwidth", type=float, default=0.5, help="Times the median distance.")
    parser.add_argument("--counts", default="25,50,100,200,400,800")
    parser.add_argument("--budgets", default="0.1,0.3,1,3")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    what = options.graph or options.data
    X = neighbours(what) if options.graph else points(what) if options.data else clusters(min(options.rows, AT_MOST))
    if X.shape[0] < 2:
        sys.exit("Give two points or more.")
    hows = [how for how in landmarks.HOWS if how != "coverage"]  # which is of sparse kernels
    counts = [m for m in map(int, options.counts.split(",")) if m <= X.shape[0]]
    width = options.bandwidth * median_distance(X)
    found = measure(Whole(width, X), hows, counts, options.seeds)
    budgets = {text: {how: within(found[how], float(text)) for how in hows} for text in options.budgets.split(",")}
    print(json.dumps({"bench": "landmark_choice", "data": what.name if what else "clusters", "points": X.shape[0],
                      "bandwidth": round(width, 3), "error_within_seconds": budgets, "ways": found}))  # fmt: skip


if __name__ == "__main__":
    main()

"""Node classification: features [U S, V S], which need no labels, and an LS-SVM on some of the nodes.

The rows and the columns of A + I are sources and targets of KSVD with the SNE kernel; SVD has the adjacency itself as
the kernel, KPCA rows with themselves and the RBF kernel, each by the same call. A trial trains an LS-SVM (ridge
regression on +-1) on 60 % of the nodes, stratified by class; its regularisation, the number of components, the
bandwidth, the power of S and whether each node's features are scaled to length 1 are chosen there by leave-one-out.
"""

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import graphs
import numpy as np
import scipy.linalg
from graphs import Graph
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from ask_dask import KSVD, landmarks
from ask_dask.kernels import RBF, SNE, Kernel, Precomputed


def methods(found: Graph, own: dict[str, Any]) -> Iterator[tuple[str, Kernel, str]]:
    """Name, kernel, and what it takes: node numbers, rows and columns, or rows with themselves."""
    for width in own["bandwidths"]:
        yield "KSVD", SNE(width), "rows and columns"
        yield "KPCA", RBF(width), "rows"
    yield "SVD", Precomputed(found.A), "numbers"


def embedding(found: Graph, kernel: Kernel, what: str, own: dict[str, Any]) -> np.ndarray:
    """[U S, V S], its columns in pairs of one component, over the largest singular value."""
    n = len(found.y)
    whole = n <= own["whole_up_to"]
    sampled = {} if whole else {"n_landmarks": own["landmarks"], "landmarks": covering(found, own["landmarks"])}
    model = KSVD(kernel, max(own["components"]), center=own["center"], solver="dense" if whole else "auto",
                 random_state=0, **sampled)  # fmt: skip
    if what == "rows and columns":
        model.fit(found.A)
    else:
        X = np.arange(n)[:, None] if what == "numbers" else found.A
        model.fit(X, Z=X)
    sides = [np.asarray(side) for side in (model.left_singular_vectors_, model.right_singular_vectors_)]
    scaled = np.stack(sides, 2) * (model.singular_values_ / model.singular_values_[0])[:, None]
    return scaled.reshape(n, -1)


def powered(features: np.ndarray, power: float) -> np.ndarray:
    """[U S^power, V S^power] of [U S, V S]: a power below 1 gives later components more weight."""
    s = np.linalg.norm(features[:, ::2], axis=0)  # the columns of U have length 1
    return features * np.repeat(np.divide(s**power, s, out=np.zeros_like(s), where=s > 0), 2)


def covering(found: Graph, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Landmarks of the rows and the columns: the nodes whose neighbours are the most nodes."""
    numbers = np.arange(len(found.y))[:, None]
    return landmarks.choose("coverage", numbers, numbers, Precomputed(found.A), count, 0)


def axes(X: np.ndarray) -> np.ndarray:
    """Right singular vectors (p, k) of X (n, p), from the Gram of its shorter side."""
    n, p = X.shape
    if p <= n:
        return scipy.linalg.eigh(X.T @ X, driver="evd")[1]
    values, Q = scipy.linalg.eigh(X @ X.T, driver="evd")  # the usual one may fail on many equal values
    kept = values > np.finfo(float).eps * n * values[-1]
    return X.T @ (Q[:, kept] / np.sqrt(values[kept]))


def ridges(X: np.ndarray, Y: np.ndarray, new: np.ndarray, alphas: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Of each alpha, the values (n, q) of each row by the LS-SVM of all others, and those of new rows.

    One decomposition of a Gram serves all, of 3,000 x 1,000 features in 0.28 of the time of RidgeCV and its SVD.
    """
    centre, mean = X.mean(0), Y.mean(0)
    V = axes(X - centre)
    P, P_new = (X - centre) @ V, (new - centre) @ V
    squares, crossed = P**2, P.T @ (Y - mean)
    for alpha in alphas:
        inverse = 1 / (squares.sum(0) + alpha)
        w = inverse[:, None] * crossed
        leverage = squares @ inverse + 1 / len(X)
        yield Y - (Y - mean - P @ w) / (1 - leverage)[:, None], P_new @ w + mean


def f1(found: Graph, features: list[np.ndarray], trial: int, own: dict[str, Any]) -> tuple[float, float]:
    """Micro and macro F1 on the test nodes of the best features and regularisation of the training nodes."""
    train, test = train_test_split(
        np.arange(len(found.y)), train_size=own["train"], random_state=trial, stratify=found.y
    )
    alphas, best = np.logspace(*own["alphas"]), (-1.0, test)
    one_hot = 2.0 * (found.y[train, None] == np.arange(found.y.max() + 1)) - 1
    for F in features:
        ranks = sorted({min(r, F.shape[1] // 2) for r in own["components"]})
        for r, unit in product(ranks, own["units"]):
            X = normalize(F[:, : 2 * r]) if unit else F[:, : 2 * r]
            for left_out, values in ridges(X[train], one_hot, X[test], alphas):
                accuracy = float((left_out.argmax(1) == found.y[train]).mean())
                best = max(best, (accuracy, values.argmax(1)), key=lambda pair: pair[0])
    micro, macro = (float(f1_score(found.y[test], best[1], average=how)) for how in ("micro", "macro"))
    return micro, macro


def rows(data: Path, own: dict[str, Any], trials: int) -> Iterator[str]:
    """The table: a line for each graph and method."""
    yield "| graph | paper | micro F1, macro F1, mean +- std | s |\n|---|---|---|---|"
    for name, paper in own["paper"].items():
        yield from _of_graph(name, graphs.read(data / name), paper, own | own["other"].get(name, {}), trials)


def _of_graph(name: str, found: Graph, paper: dict[str, str], own: dict[str, Any], trials: int) -> Iterator[str]:
    features: dict[str, list[np.ndarray]] = {}
    seconds: dict[str, float] = {}
    for method, kernel, what in methods(found, own):
        started = time.perf_counter()
        F = embedding(found, kernel, what, own)
        features.setdefault(method, []).extend(powered(F, power) for power in own["powers"])
        seconds[method] = seconds.get(method, 0.0) + time.perf_counter() - started
    for method, of_widths in features.items():
        scores = np.array([f1(found, of_widths, trial, own) for trial in range(trials)])
        ours = "  ".join(f"{m:.3f} +-{s:.3f}" for m, s in zip(scores.mean(0), scores.std(0), strict=True))
        yield f"| {name + ': ' + method:<18} | {paper.get(method, ''):<12} | {ours} | {seconds[method]:.0f} |"

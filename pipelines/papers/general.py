"""General data: how rows and columns of a small data matrix become compatible, and what their features are worth.

A trial takes 80 % of the rows, stratified, standardises by them, embeds them (a0 pseudo-inverse, of rows or of columns,
a1 PCA, a2 random, a3 learned on their labels; KPCA and SVD by the same call), and classifies the rest by a logistic
regression on the scores K V. Kernel, bandwidth, centring, components and penalty are chosen by folds of the training
rows, of which each is embedded anew, so that a3 never learns from the labels that judge it.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from askls import arff
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances, roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from ask_dask import KSVD
from ask_dask.kernels import RBF, SNE, Kernel, Linear

COMPATS = {"a0": "pinv_rows", "a0, columns": "pinv", "a1": "pca", "a2": "random", "a3": "learned"}
KERNELS = {"SNE": SNE, "RBF": RBF}


def read(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and two classes; missing values become the column's mean."""
    if name != "liver":
        X, y = arff(folder / f"{name}.arff", -1)
        return X, y
    table = np.genfromtxt(folder / "ILPD.csv", delimiter=",", skip_header=1, dtype=str)
    table[:, 1] = np.where(table[:, 1] == "Male", "1", "0")
    X = np.array([[float(cell) if cell else np.nan for cell in row[:-1]] for row in table])
    return np.where(np.isnan(X), np.nanmean(X, 0), X), (table[:, -1] == "1").astype(int)


def settings(method: str, X: np.ndarray, own: dict[str, Any]) -> Iterator[tuple[Kernel, bool]]:
    """Kernels that are tried for a method, and whether the kernel matrix is centred."""
    if method == "SVD":
        yield Linear(), False
        return
    width = float(np.median(pairwise_distances(X)))
    names = KERNELS if method in COMPATS else ["RBF"]
    for name, share, center in product(names, own["bandwidths"], own["centered"]):
        yield KERNELS[name](share * width), center


def features(method: str, setting: tuple[Kernel, bool], most: int, X: np.ndarray, y: np.ndarray, new: np.ndarray
             ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Scores of training and new rows, over the root mean square of the first one."""
    kernel, center = setting
    model = KSVD(kernel, most, compat=COMPATS.get(method), center=center, random_state=0)
    if method in COMPATS:
        model.fit(X, y)
    else:
        model.fit(X, Z=np.eye(X.shape[1]) if method == "SVD" else X)
    scale = model.singular_values_[0] / np.sqrt(len(X))
    return model.transform(X) / scale, model.transform(new) / scale


def classified(found: tuple[np.ndarray, np.ndarray], y: np.ndarray, r: int, penalty: float) -> np.ndarray:
    """Decision values of the new rows."""
    linear = LogisticRegression(C=penalty, max_iter=2000).fit(found[0][:, :r], y)
    return linear.decision_function(found[1][:, :r])


def trial(method: str, X: np.ndarray, y: np.ndarray, own: dict[str, Any], seed: int) -> tuple[float, float]:
    """AUROC and accuracy on the rows held out."""
    X, X_test, y, y_test = train_test_split(X, y, train_size=own["train"], random_state=seed, stratify=y)
    scaler = StandardScaler().fit(X)
    X, X_test, most = scaler.transform(X), scaler.transform(X_test), max(own["components"])
    grid = list(product(own["components"], np.logspace(*own["inverse_penalties"])))
    tried, judged = list(settings(method, X, own)), []
    folds = list(StratifiedKFold(own["folds"], shuffle=True, random_state=seed).split(X, y))
    for setting in tried:
        scores = np.zeros((len(folds), len(grid)))
        for k, (inside, outside) in enumerate(folds):
            found = features(method, setting, most, X[inside], y[inside], X[outside])
            scores[k] = [roc_auc_score(y[outside], classified(found, y[inside], r, c)) for r, c in grid]
        judged.append(scores.mean(0))
    best, of_grid = np.unravel_index(int(np.argmax(judged)), (len(tried), len(grid)))
    f = classified(features(method, tried[best], most, X, y, X_test), y, *grid[of_grid])
    return float(roc_auc_score(y_test, f)), float(((f > 0) == y_test).mean())


def rows(data: Path, own: dict[str, Any], trials: int) -> Iterator[str]:
    """The table: a line for each set and method."""
    yield "| set: method | AUROC, accuracy, mean +- std |\n|---|---|"
    for name in own["paper"]:
        X, y = read(data / "uci", name)
        for method in (*COMPATS, "KPCA", "SVD"):
            scores = np.array([trial(method, X, y, own, seed) for seed in range(trials)])
            ours = "  ".join(f"{m:.3f} +-{s:.3f}" for m, s in zip(scores.mean(0), scores.std(0), strict=True))
            yield f"| {name + ': ' + method:<16} | {ours} |"

"""Node classification of Tao, Tonin et al., Learning in Feature Spaces via Coupled Covariances, beside the paper's.

    python pipelines/papers/ksvd.py --data FOLDER                   # all graphs, 10 trials
    python pipelines/papers/ksvd.py --data FOLDER --only cora --trials 3

The rows and the columns of A + I are sources and targets; features are [U S, V S], which need no labels, of KSVD with
the SNE kernel, of SVD (the adjacency itself as the kernel) and of KPCA (rows with themselves, the RBF kernel), each by
the same call. A trial trains an LS-SVM (ridge regression on +-1) on 60 % of the nodes, stratified by class; its
regularisation, the number of components and the bandwidth are chosen there by leave-one-out. Settings:
pipelines/papers/ksvd.toml.
"""

import argparse
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from ask_dask import KSVD
from ask_dask.kernels import RBF, SNE, Kernel, Precomputed

SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Graph:
    """The adjacency with self loops, and a class for each node."""

    A: sp.csr_matrix
    y: np.ndarray


def graph(folder: Path) -> Graph:
    """Read a folder of the data."""
    if (folder / "PTBR_edges.csv").exists():
        edges = np.loadtxt(folder / "PTBR_edges.csv", dtype=np.int64, delimiter=",", skiprows=1)
        edges = np.vstack([edges, edges[:, ::-1]])
        table = np.loadtxt(folder / "PTBR_target.csv", dtype=str, delimiter=",", skiprows=1)
        y = np.zeros(len(table), np.int64)
        y[table[:, -1].astype(int)] = table[:, 2] == "True"
    else:
        edges = np.loadtxt(folder / "directed_edges.tsv", dtype=np.int64)
        labels = folder / ("labels.tsv" if (folder / "labels.tsv").exists() else "labels.txt")
        y = np.loadtxt(labels, dtype=np.int64, usecols=-1)
    A = sp.lil_matrix((len(y), len(y)))
    A[edges[:, 0], edges[:, 1]] = 1
    A.setdiag(1)
    return Graph(A.tocsr(), y)


def methods(found: Graph) -> Iterator[tuple[str, Kernel, str]]:
    """Name, kernel, and what it takes: node numbers, rows and columns, or rows with themselves."""
    for width in SETTINGS["nodes"]["bandwidths"]:
        yield "KSVD", SNE(width), "rows and columns"
        yield "KPCA", RBF(width), "rows"
    yield "SVD", Precomputed(found.A), "numbers"


def embedding(found: Graph, kernel: Kernel, what: str) -> np.ndarray:
    """[U S, V S], its columns in pairs of one component, over the largest singular value."""
    own, n = SETTINGS["nodes"], len(found.y)
    whole = n <= own["whole_up_to"]
    model = KSVD(kernel, max(own["components"]), None if whole else own["landmarks"], center=own["center"],
                 solver="dense" if whole else "auto", random_state=0)  # fmt: skip
    if what == "rows and columns":
        model.fit(found.A)
    else:
        X = np.arange(n)[:, None] if what == "numbers" else found.A
        model.fit(X, Z=X)
    sides = [np.asarray(side) for side in (model.left_singular_vectors_, model.right_singular_vectors_)]
    scaled = np.stack(sides, 2) * (model.singular_values_ / model.singular_values_[0])[:, None]
    return scaled.reshape(n, -1)


def f1(found: Graph, features: list[np.ndarray], trial: int) -> tuple[float, float]:
    """Micro and macro F1 on the test nodes of the best features and regularisation of the training nodes."""
    own = SETTINGS["nodes"]
    train, test = train_test_split(
        np.arange(len(found.y)), train_size=own["train"], random_state=trial, stratify=found.y
    )
    alphas, best = np.logspace(*own["alphas"]), None
    for F in features:
        for r in own["components"]:
            part = F[:, : 2 * r]
            model = RidgeClassifierCV(alphas, scoring="accuracy").fit(part[train], found.y[train])
            if best is None or model.best_score_ > best[0]:
                best = model.best_score_, model.predict(part[test])
    assert best is not None
    micro, macro = (float(f1_score(found.y[test], best[1], average=how)) for how in ("micro", "macro"))
    return micro, macro


def rows(name: str, found: Graph, trials: int) -> Iterator[str]:
    """A line for each method."""
    features: dict[str, list[np.ndarray]] = {}
    seconds: dict[str, float] = {}
    for method, kernel, what in methods(found):
        started = time.perf_counter()
        features.setdefault(method, []).append(embedding(found, kernel, what))
        seconds[method] = seconds.get(method, 0.0) + time.perf_counter() - started
    for method, of_widths in features.items():
        scores = np.array([f1(found, of_widths, trial) for trial in range(trials)])
        ours = "  ".join(f"{m:.3f} +-{s:.3f}" for m, s in zip(scores.mean(0), scores.std(0), strict=True))
        paper = SETTINGS["paper"][name].get(method, "")
        yield f"| {name + ': ' + method:<18} | {paper:<12} | {ours} | {seconds[method]:.0f} |"


def main() -> None:
    """Parse the command line, print the table as it is made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="Folder with cora/, citeseer/, pubmed/, twitch_pt/.")
    parser.add_argument("--only", default=",".join(SETTINGS["paper"]), help="Graphs, with commas.")
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args()
    print("| graph | paper | micro F1, macro F1, mean +- std | s |\n|---|---|---|---|", flush=True)
    for name in options.only.split(","):
        for line in rows(name, graph(options.data / name), options.trials):
            print(line, flush=True)


if __name__ == "__main__":
    main()

"""The tables of He et al., Learning with Asymmetric Kernels, measured on this package beside the paper's figures.

    python pipelines/papers/askls.py --data FOLDER                        # all tables, 10 trials (3 of Pubmed)
    python pipelines/papers/askls.py --data FOLDER --only cora,uci --trials 3

A trial trains on 60 % of the nodes or rows, stratified by class (of monks: the published training file), chooses gamma,
bandwidth or scale by ten-fold cross-validation there, and scores the rest. Features are standardised, those of monks,
small whole numbers, scaled to [-1, 1]. Symmetrised kernels are tuned and merged as AsK-LS is. Settings:
pipelines/papers/askls.toml.
"""

import argparse
import tomllib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import zarr
from sklearn.datasets import load_digits
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from ask_dask import AsKLSClassifier, store
from ask_dask.errors import ResonanceWarning
from ask_dask.kernels import (
    SNE,
    DirectedGraph,
    ExpNegative,
    Kernel,
    Precomputed,
    StudentT,
    divergences,
    fit_mixtures,
)

SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Split:
    """Training and test rows of one trial."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def split(X: np.ndarray, y: np.ndarray, trial: int) -> Split:
    """60 % for training."""
    X, X_test, y, y_test = train_test_split(X, y, train_size=0.6, random_state=trial, stratify=y)
    return Split(X, y, X_test, y_test)


def best(
    kernels: list[Callable[[np.ndarray], tuple[Kernel, np.ndarray]]], part: Split, trial: int, **given: Any
) -> Any:
    """The prediction of the model whose kernel and gamma do best on held-out rows."""
    found = []
    for make in kernels:
        kernel, X = make(part.X)
        parameters = {"n_landmarks": None, "cv": 10, "random_state": trial} | given
        model = AsKLSClassifier(kernel, **parameters).fit(X, part.y)
        found.append((model.cv_results_[f"mean_test_{model.scoring_}"].max(), model, make))
    _, model, make = max(found, key=lambda each: each[0])
    return model.predict(make(part.X_test)[1])


def f1(part: Split, predicted: np.ndarray) -> tuple[float, float]:
    """Micro and macro F1 on the test rows."""
    micro, macro = (float(f1_score(part.y_test, predicted, average=how)) for how in ("micro", "macro"))
    return micro, macro


def row(name: str, paper: str, scores: list[tuple[float, ...]]) -> str:
    """Mean +- standard deviation of the trials, beside the paper's."""
    means, deviations = np.mean(scores, 0), np.std(scores, 0)
    ours = "  ".join(f"{mean:.3f} +-{deviation:.3f}" for mean, deviation in zip(means, deviations, strict=True))
    return f"| {name:<48} | {paper:<15} | {ours:<30} |"


def graphs(data: Path, name: str, trials: int) -> Iterator[str]:
    """Node classification on a directed graph: micro and macro F1."""
    own = SETTINGS["graphs"]
    edges = np.loadtxt(data / name / "directed_edges.tsv", dtype=np.int64)
    labels = data / name / ("labels.tsv" if name == "citeseer" else "labels.txt")
    y = np.loadtxt(labels, dtype=np.int64, usecols=-1)
    loops = np.column_stack([np.arange(len(y))] * 2)  # so that nodes without edges are counted too
    graph = DirectedGraph(np.vstack([edges[edges[:, 0] != edges[:, 1]], loops]), self_loops=False)
    # The damped system needs no preconditioner, and landmarks know little of a sparse graph.
    settings = {"gamma": own["gamma"], "damping": own["damping"], "scoring": "f1_micro", "solver": "minres",
                "preconditioner": 0, "tol": own["tol"]}  # fmt: skip
    rows: list[tuple[str, dict[str, Any]]] = [
        ("AsK-LS, stacked", {}),
        ("AsK-LS, balanced stacking", {"merge": "balanced"}),
        ("source only", {"merge": "source"}),
        ("target only", {"merge": "target"}),
        ("(K + K')/2, stacked", {"symmetrise": "mean"}),
        ("(K + K')/2, balanced stacking", {"symmetrise": "mean", "merge": "balanced"}),
    ]
    if len(y) <= own["dense_up_to"]:  # their matrices are not sparse
        rows += [(f"{how}, stacked (3 trials)", {"symmetrise": how, "solver": "direct"}) for how in ("K'K", "KK'")]
    for what, more in [*rows, *_on_landmarks(name, own)]:
        scores = []
        for trial in range(min(3, trials) if more.get("solver") == "direct" else trials):
            part = split(np.arange(len(y))[:, None], y, trial)
            scores.append(f1(part, best([lambda X: (graph, X)], part, trial, **(settings | more))))
        yield row(f"{name}: {what}", SETTINGS["paper"][name] if what == "AsK-LS, stacked" else "", scores)


def _on_landmarks(name: str, own: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Of the large graph also landmarks, those whose neighbours are the most nodes."""
    if name != "pubmed":
        return []
    given = {"solver": "direct", "landmarks": "coverage", "merge": "balanced", "cv": own["landmark_folds"],
             "gamma": own["landmark_gamma"], "damping": own["landmark_damping"]}  # fmt: skip
    return [(f"{m} landmarks, balanced stacking", given | {"n_landmarks": m}) for m in own["landmarks"]]


def uci(data: Path, trials: int, only: str = "") -> Iterator[str]:
    """Accuracy with the SNE and the T kernel, gamma and bandwidth by cross-validation."""
    own = SETTINGS["uci"]
    for name in [only] if only else own["sets"]:
        for kind in ("SNE", "T"):
            scores = []
            for trial in range(trials):
                part = _uci(data / "uci", name, trial)
                widths = np.sqrt(part.X.shape[1]) * np.array(own["bandwidths"])
                kernels = [_widened(kind, width) for width in widths]
                gammas = np.logspace(*own["gammas"]).tolist()
                predicted = best(kernels, part, trial, gamma=gammas, damping=own["damping"], scoring="accuracy")
                scores.append((float(accuracy_score(part.y_test, predicted)),))
            yield row(f"{name}, {kind}", SETTINGS["paper"][name].split()[kind == "T"], scores)


def _widened(kind: str, width: float) -> Callable[[np.ndarray], tuple[Kernel, np.ndarray]]:
    """The kernel of a bandwidth; that of T is a scale of the features."""
    return lambda X: (SNE(float(width)), X) if kind == "SNE" else (StudentT(), X / width)


def _uci(folder: Path, name: str, trial: int) -> Split:
    if name.startswith("monks"):
        files = [arff(folder / f"monks-{name[-1]}.{part}", 0) for part in ("train", "test")]
        (X, y), (X_test, y_test) = files
        part, scaler = Split(X, y, X_test, y_test), MinMaxScaler((-1, 1))
    else:
        names = {"heart": "heart.statlog.arff", "sonar": "sonar.arff", "pima": "diabetes.arff"}
        found = np.loadtxt(folder / "australian.dat") if name == "australian" else None
        X, y = arff(folder / names[name], -1) if found is None else (found[:, :-1], found[:, -1])
        part, scaler = split(X, y, trial), StandardScaler()
    scaler.fit(part.X)
    return Split(scaler.transform(part.X), part.y, scaler.transform(part.X_test), part.y_test)


def arff(path: Path, label: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, and the column of labels as class numbers."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    cells = np.array([[cell.strip(" '") for cell in line.split(",")] for line in lines if line and line[0] not in "%@"])
    return np.delete(cells, label, 1).astype(float), np.unique(cells[:, label], return_inverse=True)[1]


def kl(trials: int) -> Iterator[str]:
    """Digits as sets of patches, a Gaussian mixture each: accuracy with exp(-a KL) and its symmetrised forms."""
    own = SETTINGS["kl"]
    images, y = load_digits(return_X_y=True)
    images, y = images[: own["images"]].reshape(-1, 8, 8), y[: own["images"]]
    samples = [extract_patches_2d(image, (own["patch"],) * 2).reshape(-1, own["patch"] ** 2) for image in images]
    mixtures = fit_mixtures(samples, own["components"], random_state=0)
    with TemporaryDirectory() as folder:
        group = zarr.open_group(folder, mode="w", zarr_format=3)
        divergences(mixtures, group, own["draws"], random_state=0)
        D, error = (np.asarray(store.read(store.array(group, name))) for name in ("divergence", "standard_error"))
    scales = np.array(own["scales"]) / np.median(D)
    yield f"(median KL {np.median(D):.1f}, median standard error {np.median(error):.2f})"
    asymmetric, jeffreys = ([_exponential(d, a) for a in scales] for d in (D, (D + D.T) / 2))
    for what, kernels, more in (
        ("exp(-a KL), AsK-LS", asymmetric, {}),
        ("exp(-a (KL + KL')/2), LS-SVM", jeffreys, {}),
        ("(K + K')/2, LS-SVM", asymmetric, {"symmetrise": "mean"}),
    ):
        scores = []
        for trial in range(trials):
            part = split(np.arange(len(y))[:, None], y, trial)
            settings = {"gamma": own["gamma"], "damping": own["damping"], "scoring": "accuracy"}
            predicted = best(kernels, part, trial, **(settings | more))
            scores.append((float(accuracy_score(part.y_test, predicted)),))
        yield row(f"digits, {own['patch']}x{own['patch']} patches: {what}", "", scores)


def _exponential(D: np.ndarray, scale: float) -> Callable[[np.ndarray], tuple[Kernel, np.ndarray]]:
    return lambda X: (ExpNegative(Precomputed(D), float(scale)), X)


def main() -> None:
    """Parse the command line, print the tables as they are made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="Folder with cora/, citeseer/, pubmed/ and uci/.")
    parser.add_argument("--only", default="cora,citeseer,pubmed,uci,kl", help="Tables, with commas; or sets of uci.")
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ResonanceWarning)
    print(f"| {'data':<48} | {'paper':<15} | {'measured, mean +- std':<30} |\n|---|---|---|", flush=True)
    for name in options.only.split(","):
        if name in SETTINGS["uci"]["sets"] or name == "uci":
            rows = uci(options.data, options.trials, "" if name == "uci" else name)
        elif name == "kl":
            rows = kl(options.trials)
        else:
            rows = graphs(options.data, name, min(3, options.trials) if name == "pubmed" else options.trials)
        for line in rows:
            print(line, flush=True)


if __name__ == "__main__":
    main()

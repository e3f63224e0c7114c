"""KSVD of the rows and hashed columns of a click log, which meet in random projections, against KPCA. One JSON line.

    python pipelines/bench/clicks.py --rows 1000000 --columns 1000000 --memory 2GiB
    python pipelines/bench/clicks.py --data FOLDER/criteo/train_10k.txt

The log is synthetic (`clicklog.synthetic`), sparse in a store; rows after the training rows are new: the first half of
them chooses each method's bandwidth, the other half gives its AUROC. Or it is Criteo's text, in five folds, a fifth of
whose training rows chooses. A linear classifier sees the standardised features (so that U and U S are the same ones) of
as many as 200,000 training rows. The methods, on the same projected rows and, where they have any, row landmarks:

KSVD                the data matrix, compat="random": rows and columns in projections that know nothing of each other
KPCA                rows with themselves, RBF, on landmarks (Nystroem)
KSVD, unit columns  the projected columns scaled to length 1, as the rows are
KSVD, coupled       column j is the sum of the projected rows, times their entries in it, scaled to length 1
projection          the projected rows themselves
one-hot             the sparse rows themselves

Steps have seconds, and the peak memory above that of the process at the start.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clicklog
import numpy as np
import psutil
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from ask_dask import KSVD, blocks, compute
from ask_dask.estimators.compat import sketched
from ask_dask.estimators.sketch import Sketch
from ask_dask.kernels import RBF

SEEN = 200_000
METHODS = ("KSVD", "KPCA", "KSVD, unit columns", "KSVD, coupled")


@dataclass
class Bench:
    """Settings, and what is measured."""

    options: argparse.Namespace
    start: int = field(default_factory=lambda: psutil.Process().memory_info().rss)
    steps: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step, and say so: a large log takes many minutes."""
        with compute.measured(self.steps, name):
            yield
        print(self.steps[-1], file=sys.stderr, flush=True)

    def taken(self) -> dict[str, Any]:
        """Seconds and peak MiB above the start, by step."""
        return {
            step["step"]: [round(step["seconds"], 1), round((step["peak_bytes"] - self.start) / 2**20)]
            for step in self.steps
        }

    def model(self, bandwidth: float, **parameters: Any) -> KSVD:
        """The estimator that all methods are."""
        o = self.options
        return KSVD(
            RBF(bandwidth), o.components, o.landmarks, center=True, memory=o.memory, random_state=0, **parameters
        )


@dataclass
class Log:
    """Training rows and their clicks, those that bandwidths are tried on, new ones that choose and that judge."""

    train: tuple[Any, np.ndarray]
    tried: tuple[Any, np.ndarray]
    chooses: tuple[Any, np.ndarray]
    judges: tuple[Any, np.ndarray]


@dataclass(frozen=True)
class Coupled(Sketch):
    """Columns as sums of the projected rows, times their entries in the column."""

    def add_columns(self, rows: sp.csr_matrix, first_row: int, out: np.ndarray) -> None:
        projected, columns = self.of_rows(rows), rows.tocsc()
        for part in blocks.row_blocks(out, 1 << 16):
            out[part] += columns[:, part].T @ projected


def fitted(bench: Bench, method: str, A: Any, bandwidth: float) -> KSVD:
    """One of the methods on training rows; all but the first take rows that are projected already."""
    d = bench.options.dim
    if method == "KSVD":
        return bench.model(bandwidth, compat="random", compat_dim=d).fit(A)
    X = blocks.map_rows(A, Sketch(d, 0).of_rows, d, None)
    if method == "KPCA":
        return bench.model(bandwidth).fit(X, Z=X)
    Z = sketched(A, (Coupled if method == "KSVD, coupled" else Sketch)(d, 0))[1]
    normalize(Z, copy=False)
    return bench.model(bandwidth).fit(X, Z=Z)


def features(bench: Bench, method: str, model: KSVD, rows: Any) -> np.ndarray:
    """Scores of rows as a method takes them."""
    return np.asarray(model.transform(rows if method == "KSVD" else Sketch(bench.options.dim, 0).of_rows(rows)))


def judged(seen: Any, y: np.ndarray, new: Any, y_new: np.ndarray) -> float:
    """AUROC on new rows of a linear classifier of training rows."""
    if sp.issparse(seen):
        model = LogisticRegression(C=1.0, max_iter=200).fit(seen, y)
    else:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500)).fit(seen, y)
    return float(roc_auc_score(y_new, model.decision_function(new)))


def chosen(bench: Bench, method: str, log: Log) -> float:
    """The bandwidth that is best on the rows that choose, fitted to few rows and the columns these have."""
    (A, y), (new, y_new) = log.tried, log.chooses
    used = np.flatnonzero(np.bincount(A.indices, minlength=A.shape[1]))
    A, new, found = A[:, used], new[:, used], {}
    for bandwidth in bench.options.bandwidths:
        model = fitted(bench, method, A, bandwidth)
        found[bandwidth] = judged(features(bench, method, model, A), y, features(bench, method, model, new), y_new)
    return max(found, key=lambda bandwidth: found[bandwidth])


def measured(bench: Bench, method: str, log: Log) -> dict[str, Any]:
    """AUROC of a method with a kernel on the rows that judge, bandwidth, components and estimated error."""
    (A, y), (new, y_new) = log.train, log.judges
    with bench.step(f"{method}: choose"):
        bandwidth = chosen(bench, method, log)
    with bench.step(f"{method}: fit"):
        model = fitted(bench, method, A, bandwidth)
    with bench.step(f"{method}: U S of the training rows"):
        scores = np.asarray(model.left_singular_vectors_)[:SEEN] * model.singular_values_
    with bench.step(f"{method}: judge"):
        auroc = judged(scores, y[:SEEN], features(bench, method, model, new), y_new)
    return {"auroc": auroc, "bandwidth": bandwidth, "components": model.n_components_,
            "estimated_error": model.error_.largest if model.error_ else None}  # fmt: skip


def compare(bench: Bench, log: Log) -> dict[str, Any]:
    """What is measured of every method; a model is gone before the next is fitted."""
    (A, y), (new, y_new) = log.train, log.judges
    seen, found, sketch = A[:SEEN], {}, Sketch(bench.options.dim, 0)
    for method in bench.options.methods:
        found[method] = measured(bench, method, log)
        print(method, found[method], file=sys.stderr, flush=True)
    found["projection"] = {"auroc": judged(sketch.of_rows(seen), y[:SEEN], sketch.of_rows(new), y_new)}
    found["one-hot"] = {"auroc": judged(seen, y[:SEEN], new, y_new)}
    return found


def made_up(folder: Path, bench: Bench) -> tuple[Log, float]:
    """A synthetic log in a store, and the AUROC of the probabilities behind the clicks that judge."""
    o = bench.options
    with bench.step("make"):
        A, y, _ = clicklog.synthetic(folder / "log.zarr", o.rows, o.columns)
        new, y_new, chance = clicklog.synthetic(folder / "new.zarr", o.rows // 5, o.columns, first=o.rows)
    few, half = min(o.tried, o.rows), min(o.tried, o.rows // 10)
    rest = slice(o.rows // 10, None)
    log = Log((A, y), (A[:few], y[:few]), (new[:half], y_new[:half]), (new[rest], y_new[rest]))
    return log, float(roc_auc_score(y_new[rest], chance[rest]))


def folds(A: sp.csr_matrix, y: np.ndarray) -> Iterator[Log]:
    """Five folds, without the columns that no training row has; a fifth of the training rows chooses."""
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(y, y):
        used = np.flatnonzero(np.bincount(A[train].indices, minlength=A.shape[1]))
        tried, chooses = train_test_split(train, test_size=0.2, stratify=y[train], random_state=0)
        yield Log(*[(A[rows][:, used], y[rows]) for rows in (train, tried, chooses, test)])


def main(options: argparse.Namespace) -> None:
    """Measure and print."""
    bench, about = Bench(options), {"bench": "clicks"} | vars(options)
    if options.data:
        found = [compare(bench, log) for log in folds(*clicklog.criteo(options.data, options.columns))]
        aurocs = {method: [fold[method]["auroc"] for fold in found] for method in found[0]}
        about |= {"data": options.data.name, "folds": found, "mean": {m: np.mean(v) for m, v in aurocs.items()},
                  "deviation": {m: np.std(v) for m, v in aurocs.items()}}  # fmt: skip
    else:
        with tempfile.TemporaryDirectory() as folder:
            log, best = made_up(Path(folder), bench)
            about |= {"entries_a_row": log.train[0].nnz / options.rows, "best_auroc": best} | compare(bench, log)
            about |= {"seconds_and_peak_mib_above_start": bench.taken()}
    print(json.dumps(rounded(about)))


def rounded(value: Any) -> Any:
    """Figures to four places."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(float(value), 4) if isinstance(value, float | np.floating) else value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=1 << 20)
    parser.add_argument("--data", type=Path, help="Criteo's text, instead of a synthetic log")
    parser.add_argument("--dim", type=int, default=256, help="of the projections")
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--bandwidths", type=float, nargs="+", default=[0.5, 0.7, 1.0, 1.4])
    parser.add_argument("--tried", type=int, default=10_000, help="rows that bandwidths are tried on")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="those with a kernel")
    parser.add_argument("--memory", default="2GiB")
    main(parser.parse_args())

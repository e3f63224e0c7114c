"""Where iterating on blocks of kernel columns overtakes the moments: seconds, passes, memory and agreement of both.

    python pipelines/bench/many_landmarks.py --rows 100000 --landmarks 1000,2000,4000 --memory 8GiB

Rows are standard normal in 20 dimensions, float32, with labels of a non-linear rule; the kernel is SNE with its
default bandwidth, or `--kernel rbf`; the gammas of `--gamma` and 5 folds are solved at once, on uniform landmarks. Each
fit is a process of its own, and one that its plan does not allow is null. One JSON line for each number of landmarks:
of each solver seconds (also by step, and of all cores' work, which other work on the machine changes less), peak MiB
above the process with its data, what the plan of memory and the estimate of time were, and passes over the rows; and
the largest difference of f on 2,000 rows in units of its standard deviation.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ask_dask import AsKLSClassifier
from ask_dask.compute import progress_shown
from ask_dask.errors import BudgetError
from ask_dask.estimators.inputs import default_bandwidth
from ask_dask.fit.outputs import Outputs
from ask_dask.fit.plan import Sizes
from ask_dask.kernels import RBF, SNE, Kernel

FEATURES, FOLDS, COMPARED = 20, 5, 2000


def make(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """X (rows, 20) float32 and labels that no linear function of X gives."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, FEATURES)).astype(np.float32)
    return X, (X[:, 0] * X[:, 1] + X[:, 2] ** 2 + random.normal(size=rows) > 1).astype(np.int8)


def kernel_of(name: str, X: np.ndarray) -> Kernel:
    """SNE or RBF at the default bandwidth."""
    return (RBF if name == "rbf" else SNE)(default_bandwidth(X[:COMPARED]))


def fit(options: argparse.Namespace, m: int, solver: str, to: Path) -> dict[str, Any] | None:
    """One fit: what it took; f of some rows is written."""
    X, y = make(options.rows)
    model = AsKLSClassifier(
        kernel_of(options.kernel, X), options.gamma, m, cv=FOLDS, merge="mean", solver=solver, tol=options.tol,
        max_scored_rows=20_000, memory=options.memory, random_state=0,
    )  # fmt: skip
    model_of_little = AsKLSClassifier(n_landmarks=50, gamma=1.0, solver=solver, tol=0.1, random_state=0)
    with warnings.catch_warnings(record=True) as said, progress_shown():
        warnings.simplefilter("always")
        model_of_little.fit(X[:3000], y[:3000])  # what is loaded and compiled once is not a fit's
        before, used = psutil.Process().memory_info().rss, time.process_time()
        try:
            model.fit(X, y)
        except BudgetError:
            return None
    used = time.process_time() - used
    np.save(to, model.discriminants(X[:COMPARED]))
    sizes = Sizes.of(model, X, Outputs("classification", y, np.arange(2)), (m,), FOLDS, len(options.gamma))
    planned = sizes.direct(m) if solver == "direct" else sizes.blockwise(m)
    kept = {name: model.solver_[name] for name in ("iterations", "evaluations", "converged") if name in model.solver_}
    return kept | {
        "seconds": round(sum(step["seconds"] for step in model.steps_), 1),
        "core_seconds": round(used, 1),
        "estimated_core_seconds": round(sizes.seconds()[solver], 1),
        "peak_mib": (max(step["peak_bytes"] for step in model.steps_) - before) >> 20,
        "planned_mib": planned.total >> 20,
        "auroc": round(float(model.cv_results_["mean_test_auroc"].max()), 4),
        "steps": {step["step"]: round(step["seconds"], 1) for step in model.steps_},
        "warnings": sorted({str(warning.message) for warning in said}),
    }


def apart(m: int, solver: str, to: Path) -> dict[str, Any] | None:
    """`fit` with this command line in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--one", f"{m},{solver},{to}"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def compared(options: argparse.Namespace, m: int) -> dict[str, Any]:
    """Each solver at m landmarks, and how far their answers are from each other."""
    with tempfile.TemporaryDirectory() as folder:
        files = {solver: Path(folder) / f"{solver}.npy" for solver in options.solvers.split(",")}
        took = {solver: apart(m, solver, to) for solver, to in files.items()}
        f = [np.load(to) for to in files.values() if to.exists()]
    apart_by = float(np.abs(f[0] - f[1]).max() / f[0].std()) if len(f) == 2 else None
    return took | {"largest_difference_of_f": apart_by}


def main() -> None:
    """Parse the command line, run, print a JSON line for each number of landmarks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--landmarks", default="1000,2000,4000", help="With commas.")
    parser.add_argument("--gamma", type=lambda text: [float(g) for g in text.split(",")], default=[10.0, 100.0])
    parser.add_argument("--kernel", choices=["sne", "rbf"], default="sne")
    parser.add_argument("--solvers", default="direct,minres")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--memory", default="8GiB")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        m, solver, to = options.one.split(",")
        print(json.dumps(fit(options, int(m), solver, Path(to))))
        return
    asked = {"kernel": options.kernel, "gammas": options.gamma, "folds": FOLDS, "tol": options.tol}
    for m in map(int, options.landmarks.split(",")):
        row = {"bench": "many_landmarks", "rows": options.rows, "landmarks": m} | asked | compared(options, m)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

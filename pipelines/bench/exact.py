"""The exact AsK-LS solution out of core: iterations with and without preconditioner, time, memory, agreement.

    python pipelines/bench/exact.py --rows 50000 --memory 2GiB

Rows are standard normal in 20 dimensions, float64, with labels of a non-linear rule; the kernel is SNE with its default
bandwidth. minres solves at `--rows` within the memory; at 5,000 rows it runs with and without its preconditioner and is
compared with the decomposition of the whole kernel matrix. One JSON line is printed.
"""

import argparse
import json
import warnings
from typing import Any

import numpy as np
import psutil

from ask_dask import AsKLSClassifier
from ask_dask.compute import progress_shown

SMALL = 5000


def make(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """X (rows, 20) and labels that no linear function of X gives."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 20))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] ** 2 + random.normal(size=rows) > 1).astype(int)


def fit(rows: int, gamma: float, **parameters: Any) -> tuple[AsKLSClassifier, dict[str, Any]]:
    """A fit of all rows at one gamma, and what it took."""
    X, y = make(rows)
    model = AsKLSClassifier(gamma=gamma, n_landmarks=None, cv=None, merge="mean", random_state=0, **parameters)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        before = psutil.Process().memory_info().rss
        model.fit(X, y)
    took = {
        "seconds": round(sum(step["seconds"] for step in model.steps_), 1),
        "mib_above_data": round((max(step["peak_bytes"] for step in model.steps_) - before) / 2**20),
        "warnings": [str(warning.message) for warning in said],
    }
    kept = ("iterations", "evaluations", "relative_residual", "converged")
    return model, took | {name: model.solver_[name] for name in kept if name in model.solver_}


def main() -> None:
    """Parse the command line, run, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--gamma", type=float, default=100.0)
    options = parser.parse_args()
    with progress_shown():
        dense, dense_took = fit(SMALL, options.gamma)
        small, small_took = fit(SMALL, options.gamma, solver="minres")
        _, plain_took = fit(SMALL, options.gamma, solver="minres", preconditioner=0)
        _, large_took = fit(options.rows, options.gamma, solver="minres", memory=options.memory)
    X = make(SMALL)[0]
    difference = np.abs(small.decision_function(X) - dense.decision_function(X)).max()
    print(json.dumps({
        "bench": "exact", "gamma": options.gamma, "dense_5000": dense_took, "minres_5000": small_took,
        "without_preconditioner_5000": plain_took, "largest_difference_of_f": float(difference),
        f"minres_{options.rows}": large_took | {"kernel_matrix_gib": round(8 * options.rows**2 / 2**30, 1)},
    }))  # fmt: skip


if __name__ == "__main__":
    main()

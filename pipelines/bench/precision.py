"""What float32 kernel blocks cost in accuracy: the same fit of float32 and of float64 rows. One JSON line.

    python pipelines/bench/precision.py [--rows 100000]

SNE and RBF at 1,000 landmarks, one gamma, the score f of 20,000 rows and their AUROC from both fits.
"""

import argparse
import json
import warnings

import made
import numpy as np
from sklearn.metrics import roc_auc_score

from ask_dask import AsKLSClassifier
from ask_dask.kernels import RBF, SNE, Kernel

SHOWN = 20_000


def differences(X: np.ndarray, y: np.ndarray, kernel: Kernel, gamma: float) -> dict[str, float]:
    """Largest and root-mean-square difference of f over the rows shown, against its spread, and that of AUROC."""
    scores = []
    for dtype in (np.float32, np.float64):
        model = AsKLSClassifier(kernel, gamma, n_landmarks=1000, cv=None, merge="mean", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f = model.fit(X.astype(dtype), y).decision_function(X[:SHOWN].astype(dtype))
        scores.append(np.asarray(f, np.float64))
    single, double = scores
    auroc = [roc_auc_score(y[:SHOWN], f) for f in scores]
    return {
        "largest": float(np.abs(single - double).max()),
        "rms": float(np.sqrt(np.mean((single - double) ** 2))),
        "spread_of_f": float(double.std()),
        "auroc": round(auroc[1], 5),
        "auroc_difference": float(abs(auroc[0] - auroc[1])),
    }


def main(rows: int) -> None:
    """Measure and print."""
    with made.stored(rows) as (stored, y):
        X = np.asarray(stored[:])
    found = {
        f"{type(kernel).__name__}, gamma {gamma:g}": differences(X, y, kernel, gamma)
        for kernel in (SNE(12.0), RBF(12.0))
        for gamma in (1e2, 1e4, 1e6)
    }
    print(json.dumps({"bench": "precision", "rows": rows, "f": found}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    main(**vars(parser.parse_args()))

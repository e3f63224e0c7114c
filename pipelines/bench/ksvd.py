"""KSVD out of core, on landmarks or exact: time, memory and error. One JSON line.

    python pipelines/bench/ksvd.py --rows 200000 --landmarks 2000 --memory 2GiB
    python pipelines/bench/ksvd.py --rows 50000 --exact --memory 2GiB            # block iteration

Two sets of so many points, standard normal in 20 dimensions, float32; the kernel is SNE, whose whole matrix would not
fit. Both sides of the singular vectors are computed, a block at a time, and not kept. Memory is the peak above what the
process held when the points had been made.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
import numpy as np
import psutil

from ask_dask import KSVD
from ask_dask.kernels import SNE


@contextmanager
def peak_above() -> Iterator[dict[str, int]]:
    """The most resident bytes inside the block above those at its start, under "bytes"."""
    process, done = psutil.Process(), threading.Event()
    before, found = process.memory_info().rss, {"bytes": 0}

    def watch() -> None:
        while not done.wait(0.02):
            found["bytes"] = max(found["bytes"], process.memory_info().rss - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def main(rows: int, landmarks: int | None, components: int, bandwidth: float, memory: str, method: str) -> None:
    """Fit, extend, print; without landmarks exact."""
    random = np.random.default_rng(0)
    X, Z = (random.normal(size=(rows, 20)).astype(np.float32) for _ in range(2))
    model = KSVD(SNE(bandwidth), components, landmarks, method=method, memory=memory, random_state=0)
    with peak_above() as peak:
        started = time.perf_counter()
        model.fit(X, Z=Z)
        fitted = time.perf_counter()
        sums = dask.compute(*[(side**2).sum(0) for side in (model.left_singular_vectors_,
                                                            model.right_singular_vectors_)])  # fmt: skip
        ended = time.perf_counter()
    print(json.dumps(figures(model, sums) | {
        "bench": "ksvd", "rows": rows, "landmarks": landmarks, "components": components, "bandwidth": bandwidth,
        "method": method, "memory": memory, "fit_s": round(fitted - started, 2), "vectors_s": round(ended - fitted, 2),
        "peak_mib_above_data": round(peak["bytes"] / 2**20),
        "kernel_matrix_gib": round(8 * rows**2 / 2**30, 1),
    }))  # fmt: skip


def figures(model: KSVD, sums: Any) -> dict[str, Any]:
    """Values, estimated error or residuals of the iterations, and how far the vectors are from unit length."""
    error = {"estimated_error": float(f"{model.error_.largest:.3g}")} if model.error_ else {
        "iterations": len(model.residuals_), "residual": float(f"{model.residuals_[-1]:.3g}")}  # fmt: skip
    return error | {
        "values": [float(f"{s:.3g}") for s in model.singular_values_[[0, 1, -1]]],
        "largest_departure_from_unit_length": float(f"{max(np.abs(side - 1).max() for side in sums):.2g}"),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    sampled = parser.add_mutually_exclusive_group()
    sampled.add_argument("--landmarks", type=int, default=2000)
    sampled.add_argument("--exact", dest="landmarks", action="store_const", const=None)
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--bandwidth", type=float, default=4.0)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--method", default="orthonormal")
    main(**vars(parser.parse_args()))

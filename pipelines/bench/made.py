"""What the benchmarks share: made-up rows in a store, and medians of alternate timings."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import zarr

from ask_dask import store

FEATURES = 39


@contextmanager
def stored(n: int) -> Iterator[tuple[zarr.Array, np.ndarray]]:
    """X (n, 39) float32, standard normal, in a store, and labels (n,) that no linear function of X gives."""
    with tempfile.TemporaryDirectory() as folder:
        path, labels, rng = Path(folder) / "data.zarr", [], np.random.default_rng(0)
        with store.create(path, "dataset") as group:
            X = store.create_array(group, "X", (n, FEATURES), np.dtype(np.float32))
            for start in range(0, n, 1_000_000):
                part = rng.normal(size=(min(1_000_000, n - start), FEATURES)).astype(np.float32)
                X[start : start + len(part)] = part
                labels.append((part[:, 0] * part[:, 1] + rng.normal(size=len(part)) > 0).astype(np.int8))
        yield store.array(store.open_store(path), "X"), np.concatenate(labels)


def timed(work: Callable[[], object]) -> float:
    """Wall-clock seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_turn(work: dict[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """The seconds that each way says it took, ways in turn, so that a noisy moment meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, measure in work.items():
            seconds[name].append(measure())
    return seconds

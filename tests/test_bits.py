"""The same bits for any number of workers, scheduler and chunks of a store."""

from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

from ask_dask import KSVD, AsKLSClassifier, AsymmetricNystroem, blocks, compute
from ask_dask.kernels import RBF, SNE

RNG = np.random.default_rng(0)
X = RNG.normal(size=(21_000, 5))
y = (X[:, 0] * X[:, 1] + RNG.normal(size=len(X)) > 0).astype(int)
COMMON = {"random_state": 0, "n_landmarks": 40}
MODELS = {
    "two sides": lambda: AsKLSClassifier(SNE(2.0), [1.0, 100.0], cv=3, **COMMON),
    "one side": lambda: AsKLSClassifier(RBF(2.0), [1.0, 100.0], cv=3, **COMMON),
    "kmeans": lambda: AsKLSClassifier(SNE(2.0), 10.0, cv=2, landmarks="kmeans", **COMMON),
    "minres": lambda: AsKLSClassifier(SNE(2.0), 1.0, cv=2, solver="minres", tol=0.05, **COMMON),
    "ksvd": lambda: KSVD(SNE(2.0), n_components=3, **COMMON),
    "nystroem": lambda: AsymmetricNystroem(SNE(2.0), **COMMON),
}


def numbers(name, rows):
    """What a model says of some rows after a fit, and the scores that chose it."""
    model = MODELS[name]()
    if isinstance(model, AsKLSClassifier):
        model.fit(rows, y)
        scores = model.cv_results_["mean_test_log_loss"].tolist()
        return np.c_[model.discriminants(X[:3000]), model.predict_proba(X[:3000])], scores, model.gamma_
    if isinstance(model, KSVD):
        return model.fit(rows, Z=X[:500]).transform(X[:3000]), model.singular_values_.tolist(), None
    return model.fit(rows).transform(X[:3000]), None, None


@contextmanager
def cluster(n):
    with LocalCluster(n, threads_per_worker=1, processes=False, dashboard_address=None) as made, Client(made):
        yield


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_workers_and_any_chunks(tmp_path, name, dtype):
    rows = X.astype(dtype)
    with dask.config.set(num_workers=1):
        expected, *chosen = numbers(name, rows)
    stored = zarr.create_array(tmp_path / "x", data=rows, chunks=(1111, 5))
    inputs = {2: rows, 3: stored, 4: da.from_array(rows, chunks=(7777, 2))}
    for workers, given in inputs.items():
        with dask.config.set(num_workers=workers):
            found, *others = numbers(name, given)
        np.testing.assert_array_equal(found, expected, err_msg=f"{workers} workers")
        assert others == chosen


@pytest.mark.parametrize("name", ["two sides", "minres", "ksvd"])
def test_any_scheduler(name, pool):
    with dask.config.set(num_workers=1):
        expected, *chosen = numbers(name, X)
    with dask.config.set(scheduler="processes", num_workers=2, pool=pool):
        found, *others = numbers(name, X)
    np.testing.assert_array_equal(found, expected)
    with cluster(3):
        again, *more = numbers(name, X)
    np.testing.assert_array_equal(again, expected)
    assert others == more == chosen


@pytest.mark.parametrize("total", [1, 2, 5, 13, 16, 17, 35, 80])
def test_sums_of_neighbours_are_parts_of_the_same_sum(total):
    parts = RNG.normal(size=total) * 10.0 ** RNG.integers(-8, 8, total)
    whole = added(parts)
    if total <= compute.PAIRED:
        for together in (2, 4, 8, 16):
            shares = [parts[i : i + together] for i in range(0, total, together)]
            assert added([added(share) for share in shares]) == whole, together


@pytest.mark.parametrize("total", [3, 16, 35])
def test_any_number_of_distributed_workers_adds_the_same_sum(total):
    parts = RNG.normal(size=total) * 10.0 ** RNG.integers(-8, 8, total)
    whole, task = added(parts), dask.delayed(float, pure=False)
    for threads in (1, 8, 40):
        with LocalCluster(1, threads_per_worker=threads, processes=False, dashboard_address=None) as made, Client(made):
            assert compute.run_sum([task(part) for part in parts], None) == whole


def added(parts):
    task = dask.delayed(float, pure=False)
    found = compute.run_sum([task(part) for part in parts], None)
    if len(parts) <= compute.PAIRED:
        out = [np.zeros(1)]
        compute.add_in_pairs([lambda out, part=part: out[0].fill(part) for part in parts], out)
        assert out == [found]
    return found


@pytest.mark.parametrize("n", [1, 2048, 2049, 21_000, 250_000, 8_000_000])
@pytest.mark.parametrize("summed", [1, 12_288])
def test_shards_are_as_many_for_any_workers(n, summed):
    rows, heights = np.broadcast_to(np.float32(0), (n, 5)), set()
    for workers in (1, 2, 3, 16):
        with dask.config.set(num_workers=workers):
            heights.add(blocks.height(rows, summed=summed))
    assert len(heights) == 1 and -(-n // heights.pop()) <= max(blocks.PARTS, n * 20 >> 26)

"""Promises about memory and passes: the peak stays within the plan, tasks grow with shards, nothing is read early."""

import json
import re
import subprocess
import sys
import textwrap

import dask
import dask.array as da
import numpy as np
import pytest
import zarr

from ask_dask import KSVD, AsKLSClassifier, blocks, budget
from ask_dask.errors import BudgetError
from ask_dask.fit.plan import Sizes
from ask_dask.kernels import SNE

rng = np.random.default_rng(1)
X = rng.normal(size=(800, 3))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
FIT = {"kernel": SNE(1.5), "gamma": [1.0, 10.0], "n_landmarks": [10, 20], "cv": 4, "random_state": 0}

# ------------------------------------------------------------------------------------------------------------- memory
ALONE = """
import json, sys
import dask, numpy as np, psutil, zarr
from ask_dask import AsKLSClassifier
from ask_dask.compute import measured
from ask_dask.kernels import SNE

m, solver, memory, rows = int(sys.argv[1]), sys.argv[2], sys.argv[3], 6000

def fit(m, rows, memory=None):
    X = zarr.create_array({}, shape=(rows, 5), chunks=(2048, 5), dtype="f4")
    X[:] = np.random.default_rng(0).normal(size=(rows, 5))
    y = np.arange(rows) % 2
    model = AsKLSClassifier(SNE(2.0), 10.0, m, cv=5, solver=solver, tol=0.05, memory=memory, random_state=0)
    return model.fit(X, y)

with dask.config.set(num_workers=2):
    fit(40, 2500)  # what is loaded and compiled once
    before, steps = psutil.Process().memory_info().rss, []
    with measured(steps, "fit"):
        model = fit(m, rows, memory)
print(json.dumps(max(step["peak_bytes"] for step in steps + model.steps_) - before))
"""


def peak(m, solver, memory):
    """Bytes above the process before, of a fit in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(ALONE), str(m), solver, str(memory)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def require_within(measured, planned):
    """What a fit took is no more than what its plan says."""
    assert measured <= planned, f"{budget.size(measured)} were used and {budget.size(planned)} planned"


@pytest.mark.parametrize("solver", ["direct", "minres"])
def test_the_peak_of_a_fit_is_within_its_plan_and_above_a_third_of_it(solver):
    """The budget is what is planned: with less the fit is refused, and a third of it would not hold it."""
    sizes = Sizes(6000, (600,), 5, 1, 1, 20, 4, 2, symmetric=False, damped=False, sampled=None)
    planned = (sizes.direct(600) if solver == "direct" else sizes.blockwise(600)).total
    measured = peak(600, solver, planned)
    require_within(measured, planned)
    with pytest.raises(AssertionError, match="were used and"):
        require_within(measured, planned // 3)


@pytest.mark.parametrize("solver", ["direct", "minres"])
def test_less_than_the_plan_is_refused(solver):
    sizes = Sizes(800, (600,), 4, 2, 1, 24, 8, 1, symmetric=False, damped=False, sampled=None)
    plan = sizes.direct(600) if solver == "direct" else sizes.blockwise(600)
    with dask.config.set(scheduler="synchronous", num_workers=1), pytest.raises(BudgetError, match="n_landmarks=600"):
        AsKLSClassifier(**FIT | {"n_landmarks": 600, "solver": solver, "memory": plan.total - 1}).fit(X, y)


def test_held_out_rows_that_do_not_fit_are_refused_and_fewer_fit():
    many = FIT | {"gamma": np.logspace(0, 4, 50), "n_landmarks": (10, 20), "cv": 2}
    with dask.config.set(scheduler="synchronous", num_workers=1):
        least = Sizes(800, (10, 20), 2, 50, 1, 24, 8, 1, False, False, None).direct(20).total
        with pytest.raises(BudgetError, match=r"max_scored_rows=800 needs .* use max_scored_rows=\d+ or less") as told:
            AsKLSClassifier(**many | {"memory": least}).fit(X, y)
        fitting = int(re.search(r"use max_scored_rows=(\d+)", str(told.value))[1])
        assert 100 < fitting < 800
        model = AsKLSClassifier(**many | {"memory": least, "max_scored_rows": fitting}).fit(X, y)
    assert model.held_out_["n"] == fitting


# -------------------------------------------------------------------------------------------------------------- tasks
class Tasks:
    """A scheduler that counts the tasks it runs."""

    def __init__(self):
        self.n = 0

    def __call__(self, graph, keys, callbacks=(), **more):
        return dask.get(graph, keys, callbacks=[*callbacks, (None, None, self.count, None, None)], **more)

    def count(self, *_):
        self.n += 1


def tasks_of_a_fit(rows, chunk_rows):
    points = zarr.create_array({}, data=np.resize(X, (rows, 3)), chunks=(chunk_rows, 3))
    counting = Tasks()
    with dask.config.set(scheduler=counting, num_workers=1):
        AsKLSClassifier(**FIT).fit(points, np.resize(y, rows))
    return counting.n, len(blocks.shards(points))


def test_tasks_grow_with_shards_and_not_with_chunks(monkeypatch):
    monkeypatch.setattr(budget, "CHUNK_BYTES", 1)
    monkeypatch.setattr(budget, "SHARD_BYTES", 1)  # the smallest shard is one kernel block, 2048 rows
    with dask.config.set(num_workers=1):
        few, shards = tasks_of_a_fit(8192, 256)
        many, more_shards = tasks_of_a_fit(16384, 256)
        assert (shards, more_shards) == (4, 8)
        assert tasks_of_a_fit(8192, 2048) == (few, shards)  # an eighth of the chunks
    assert 0 < many - few <= 8 * (more_shards - shards)  # read and take, read and sum and add, read and predict


# --------------------------------------------------------------------------------------------------------- early reads
@pytest.fixture
def lazy():
    """X in eight delayed blocks, and the list of those that were evaluated."""
    reads = []

    def read(i):
        reads.append(i)
        return X[100 * i : 100 * i + 100]

    parts = [da.from_delayed(dask.delayed(read, pure=False)(i), (100, 3), X.dtype) for i in range(8)]
    with dask.config.set(scheduler="synchronous", num_workers=1):
        yield da.concatenate(parts), reads


def times_read(reads):
    """How often every block was read; all the same."""
    counts = np.bincount(reads, minlength=8)
    assert (counts == counts[0]).all(), counts
    reads.clear()
    return counts[0]


@pytest.mark.parametrize("change", [{}, {"gamma": [0.1, 1.0, 10.0, 100.0], "n_landmarks": [10, 20, 30], "cv": 8}])
def test_a_fit_reads_landmarks_one_pass_and_held_out_rows(lazy, change):
    points, reads = lazy
    model = AsKLSClassifier(**FIT | change)
    assert not reads
    model.fit(points, y)
    assert times_read(reads) == 3
    found = model.decision_function(points), model.predict_proba(points), model.predict(points)
    assert not reads
    dask.compute(*found)
    assert 1 <= times_read(reads) <= 3


def test_a_fit_of_one_model_reads_landmarks_and_one_pass(lazy):
    points, reads = lazy
    AsKLSClassifier(SNE(1.5), 10.0, 20, cv=None, merge="mean", random_state=0).fit(points, y)
    assert times_read(reads) == 2


@pytest.mark.parametrize("change", [{}, {"method": "scaled", "center": True}])
def test_singular_vectors_read_landmarks_and_one_pass_and_are_not_computed_before_they_are_used(lazy, change):
    points, reads = lazy
    model = KSVD(SNE(1.5), 3, n_landmarks=20, n_probes=10, random_state=0, **change)
    assert not reads
    model.fit(points, Z=points)
    assert times_read(reads) == 2
    found = (model.left_singular_vectors_, model.right_singular_vectors_, model.transform(points),
             model.transform_target(points))  # fmt: skip
    assert not reads
    for of_points in found:
        of_points.compute()
        assert times_read(reads) == 1


def test_singular_vectors_of_two_sets_read_each_for_its_landmarks_and_one_pass(lazy):
    points, reads = lazy
    KSVD(SNE(1.5), 3, n_landmarks=20, n_probes=10, random_state=0).fit(points, Z=X[:300])
    assert times_read(reads) == 2


def test_iterations_read_the_rows_once_a_pass_whatever_is_asked(lazy):
    points, reads = lazy
    model = AsKLSClassifier(**FIT | {"n_landmarks": 20, "solver": "minres"}).fit(points, y)
    assert times_read(reads) == model.solver_["evaluations"] + 3  # landmarks, sample, held-out scores

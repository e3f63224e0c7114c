"""The exact solutions: dense and out of core against the oracle and each other, checkpoints, memory."""

import threading
import tracemalloc
import warnings
from contextlib import suppress

import dask
import numpy as np
import oracle
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from ask_dask import AsKLSClassifier, AsKLSRegressor, compute
from ask_dask.errors import BudgetError, ResonanceWarning, StoreError
from ask_dask.kernels import (
    RBF,
    SNE,
    ConditionalProbability,
    DirectedGraph,
    ExpNegative,
    KLDivergence,
    LocalRBF,
    Precomputed,
    StudentT,
    Symmetrised,
)
from ask_dask.solve import DenseSystem, IterativeSystem, Tiles, tiles
from ask_dask.store import checkpoint

rng = np.random.default_rng(11)
POINTS = rng.uniform(0.1, 2.0, size=(70, 4))
NUMBERS = np.arange(70)
K = rng.normal(size=(70, 70)) @ np.diag(0.7 ** np.arange(70)) @ rng.normal(size=(70, 70)) / 40
FLAT = np.random.default_rng(2).normal(size=(70, 70)) / 20  # many modes
Y = rng.normal(size=(70, 3))
CLASSES = rng.integers(0, 3, 70)
X, y = make_moons(90, noise=0.25, random_state=0)
ALL_ROWS = {"n_landmarks": None, "cv": None, "merge": "mean"}
FOLDS = {"cv": KFold(3, shuffle=True, random_state=1), "merge": "stack"}
SPARSE_K = np.where(rng.random((70, 70)) < 0.1, K, 0)
KERNELS = [
    RBF(1.0), SNE(0.7), SNE(0.7, "exact"), StudentT(), LocalRBF(5), KLDivergence(2.0), KLDivergence(0.1, "gaussian"),
    ConditionalProbability(), 0.5 * RBF(0.7) + SNE(0.5), LocalRBF(3) * StudentT(), 3 * LocalRBF(4),
    Symmetrised(SNE(0.7)), Precomputed(K), DirectedGraph(SPARSE_K != 0), ExpNegative(Precomputed(K**2), 2.0),
    Precomputed(K) * DirectedGraph(SPARSE_K != 0) + 2 * Precomputed(K.T),
]  # fmt: skip


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Set once for a whole test, and not by each of many small steps."""
    with compute.one_blas_thread():
        yield


def points_of(kernel):
    return POINTS if kernel.shape is None else NUMBERS[:, None]


# ------------------------------------------------------------------------------------------------------------- dense
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**31), st.integers(2, 40), st.integers(1, 4), st.floats(0.05, 20))
def test_dense_is_the_dual_of_the_oracle(seed, n, q, gamma):
    random = np.random.default_rng(seed)
    K, Y = random.normal(size=(n, n)), random.normal(size=(n, q))
    system = DenseSystem(K, Y)
    if np.abs(1 - gamma * system.singular_values).min() < 1e-4:
        return
    s, (a, c, intercepts) = system.solve(gamma), oracle.askls_dual(K, Y, gamma)
    for found, expected in ((s.target, a), (s.source, c), (s.intercepts, intercepts)):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(a).max())
    np.testing.assert_allclose(system.singular_values, np.linalg.svd(oracle.centred(K))[1], atol=1e-9)


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_the_path_is_the_single_solutions_and_damping_the_formula_on_modes(damping):
    gammas = (0.3, 2.0, 9.0)
    _, solutions = oracle.askls_path(K, Y, gammas, damping)
    for gamma, s, expected in zip(gammas, DenseSystem(K, Y).path(gammas, damping), solutions, strict=True):
        alone = DenseSystem(K, Y).solve(gamma, damping)
        np.testing.assert_array_equal(s.source, alone.source)
        np.testing.assert_allclose(K @ s.source + s.intercepts[0], expected.source(K), atol=1e-8)
        np.testing.assert_allclose(K.T @ s.target + s.intercepts[1], expected.target(K), atol=1e-8)


@settings(deadline=None, max_examples=8)
@given(st.lists(st.integers(0, 3), min_size=70, max_size=70).filter(lambda w: np.count_nonzero(w) > 2))
def test_weights_are_repeated_rows_and_zero_removes_one(weights):
    rows = np.repeat(np.arange(70), weights)
    weighted = DenseSystem(K, Y, np.array(weights, float)).solve(0.9, damping=0.1)
    repeated = DenseSystem(K[np.ix_(rows, rows)], Y[rows]).solve(0.9, damping=0.1)
    for name in ("source", "target"):
        summed = np.zeros((70, 3))
        np.add.at(summed, rows, getattr(repeated, name))
        np.testing.assert_allclose(getattr(weighted, name), summed, atol=1e-8)
    np.testing.assert_allclose(weighted.intercepts, repeated.intercepts, atol=1e-8)


# ------------------------------------------------------------------------------------------------------------- tiles
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_products_of_tiles_are_dense_products(monkeypatch, kernel):
    monkeypatch.setattr(tiles, "TILE", 16)
    points = points_of(kernel)
    whole, found = kernel(points, points), Tiles(kernel.at(points, points, 70, points), 70)
    Kc, Ka = found.products(Y, Y[:, :2])
    np.testing.assert_allclose(Kc, whole @ Y, atol=1e-10)
    np.testing.assert_allclose(Ka, whole.T @ Y[:, :2], atol=1e-10)
    np.testing.assert_allclose(found.matrix(), whole, atol=1e-12)


@pytest.mark.parametrize("bands", [1, 2])
def test_a_band_of_several_tiles_adds_them_up(monkeypatch, bands):
    monkeypatch.setattr(tiles, "TILE", 16)
    monkeypatch.setattr(tiles, "BANDS", bands)
    Kc, Ka = Tiles(Precomputed(K).at(NUMBERS[:, None], NUMBERS[:, None], 70), 70).products(Y, Y[:, :2])
    np.testing.assert_allclose(Kc, K @ Y, atol=1e-10)
    np.testing.assert_allclose(Ka, K.T @ Y[:, :2], atol=1e-10)


def test_products_of_tiles_are_the_same_whatever_the_number_of_workers(monkeypatch):
    """To the last bit: workers come and go while MINRES runs."""
    monkeypatch.setattr(tiles, "TILE", 16)
    rng = np.random.default_rng(0)
    points, c = rng.normal(size=(200, 3)), rng.normal(size=(200, 4))
    found = []
    for workers in (1, 3):
        with dask.config.set(num_workers=workers):
            found.append(Tiles(SNE().at(points, points, 200), 200).products(c, c))
    np.testing.assert_array_equal(*found)


class Counting:
    """A landmark kernel that counts how often each entry is evaluated."""

    def __init__(self, K):
        self.K, self.counts, self.lock = K, np.zeros(K.shape, int), threading.Lock()

    def tile(self, rows, columns):
        with self.lock:
            self.counts[rows, columns] += 1
        return self.K[rows, columns]


@pytest.mark.parametrize("damping", [0.0, 0.1])
def test_each_entry_is_evaluated_once_an_iteration_for_all_systems(monkeypatch, damping):
    monkeypatch.setattr(tiles, "TILE", 16)
    counting, sets = Counting(K), np.column_stack([NUMBERS % 3 != 0, np.ones(70)]).astype(float)
    system = IterativeSystem(Tiles(counting, 70), Y, sets, (0.5, 1.0), damping)
    found = system.solve()
    assert found.converged and (counting.counts == found.evaluations).all()
    assert found.iterations == len(found.residuals) < found.evaluations <= found.iterations + 8
    assert found.residuals[-1] < 1e-8 < found.residuals[0]


# ------------------------------------------------------------------------------------------------------------ minres
@pytest.mark.parametrize(("kernel", "preconditioner", "change"), [
    (SNE(0.7), 0, {}), (SNE(0.7), 25, {"damping": 0.3}), (LocalRBF(20), "auto", FOLDS),
    (Precomputed(K), 0, {"damping": 0.3}), (Precomputed(K), 25, FOLDS),
    (Precomputed(K), "auto", FOLDS | {"damping": 0.1}),
    (DirectedGraph(SPARSE_K != 0), 25, {"symmetrise": "mean"})])  # fmt: skip
def test_minres_is_the_dense_solution(kernel, preconditioner, change):
    points, weights = points_of(kernel), np.random.default_rng(1).uniform(0.1, 2.0, 70)
    params = {"kernel": kernel, "gamma": [0.2, 0.9] if "cv" in change else 0.8, "random_state": 0} | ALL_ROWS | change
    dense = AsKLSClassifier(**params).fit(points, CLASSES, weights)
    minres = AsKLSClassifier(**params, solver="minres", preconditioner=preconditioner).fit(points, CLASSES, weights)
    assert minres.solver_["converged"] and minres.solver_["relative_residual"] <= 1e-8
    np.testing.assert_allclose(minres.discriminants(points), dense.discriminants(points), rtol=1e-6, atol=1e-6)
    for name, values in (dense.cv_results_ if "cv" in change else {}).items():
        np.testing.assert_allclose(minres.cv_results_[name], values, rtol=1e-5, err_msg=name)


@settings(deadline=None, max_examples=6)
@given(st.integers(0, 2**31), st.integers(2, 12), st.integers(1, 3), st.floats(0.05, 5), st.sampled_from([0.0, 0.4]))
def test_minres_is_dense_for_any_matrix(seed, n, q, gamma, damping):
    random = np.random.default_rng(seed)
    K, Y, weights = random.normal(size=(n, n)), random.normal(size=(n, q)), random.uniform(0.5, 2, n)
    dense = DenseSystem(K, Y, weights)
    if np.abs(1 - gamma * dense.singular_values).min() < 1e-2:
        return
    system = IterativeSystem(Tiles(Counting(K), n), Y, weights[:, None], (gamma,), damping)
    assert system.solve(tol=1e-10).converged
    expected, found = dense.solve(gamma, damping), system.solution(0, 0, dense.singular_values)
    size = np.abs(expected.target).max()
    np.testing.assert_allclose(found.target, expected.target, atol=1e-6 * size)
    np.testing.assert_allclose(found.source, expected.source, atol=1e-6 * size)
    np.testing.assert_allclose(found.intercepts, expected.intercepts, atol=1e-6 * max(size, 1))


def test_preconditioning_saves_iterations():
    params = {"kernel": SNE(0.7), "gamma": 30.0, "solver": "minres", "random_state": 0} | ALL_ROWS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResonanceWarning)
        counts = [AsKLSClassifier(**params, preconditioner=m).fit(X, y).n_iter_ for m in (0, 80)]
    assert counts[1] < counts[0] / 2


def test_processes_give_what_threads_give(pool):
    params = {"kernel": SNE(0.7), "gamma": 0.5, "solver": "minres", "tol": 1e-5, "random_state": 0} | ALL_ROWS
    expected = AsKLSClassifier(**params).fit(X, y)
    with dask.config.set(scheduler="processes", pool=pool):
        found = AsKLSClassifier(**params).fit(X, y)
    assert found.n_iter_ == expected.n_iter_
    np.testing.assert_allclose(found.discriminants(X), expected.discriminants(X), atol=1e-8)


# -------------------------------------------------------------------------------------------------------- checkpoint
class _Interrupted(Precomputed):
    """A matrix whose evaluation is interrupted once a number of blocks were read."""

    left = float("inf")

    def __call__(self, X, Z):
        type(self).left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().__call__(X, Z)


@pytest.fixture
def eager(monkeypatch):
    """Checkpoints at every step; blocks are counted from a large number down."""
    monkeypatch.setattr(checkpoint, "SECONDS", 0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    monkeypatch.setattr(_Interrupted, "left", 10**6)


def minres(path, kernel=None, **change):
    params = {"kernel": kernel or _Interrupted(K), "gamma": 3.0, "solver": "minres", "preconditioner": 0} | ALL_ROWS
    return AsKLSRegressor(**params | {"checkpoint": path} | change)


def test_an_interrupted_fit_goes_on_where_it_was(tmp_path, eager):
    path = tmp_path / "kept.zarr"
    flat = {"kernel": _Interrupted(FLAT), "gamma": 1.0}
    expected = minres(None, **flat).fit(NUMBERS, Y)
    needed = 10**6 - _Interrupted.left
    _Interrupted.left = 0.6 * needed
    with pytest.raises(KeyboardInterrupt):
        minres(path, **flat).fit(NUMBERS, Y)
    assert path.exists()
    _Interrupted.left = 10**6
    resumed = minres(path, **flat).fit(NUMBERS, Y)
    assert 10**6 - _Interrupted.left < 0.75 * needed
    np.testing.assert_array_equal(resumed.discriminants(NUMBERS), expected.discriminants(NUMBERS))
    assert resumed.solver_["residuals"] == expected.solver_["residuals"]
    assert not path.exists()


@pytest.mark.parametrize("change", [
    {"damping": 0.3}, {"preconditioner": 20, "kernel": _Interrupted(K)}, {"gamma": [0.2, 0.3], "cv": 3},
], ids=["damped", "preconditioned", "gammas"])  # fmt: skip
def test_a_fit_that_is_interrupted_again_and_again_takes_the_same_steps(tmp_path, monkeypatch, change):
    monkeypatch.setattr(_Interrupted, "left", 10**6)
    path, flat = tmp_path / "kept.zarr", {"kernel": _Interrupted(FLAT), "gamma": 1.0, "random_state": 0} | change
    expected = minres(None, **flat).fit(NUMBERS, Y)
    needed, runs, found = 10**6 - _Interrupted.left, 0, None
    while found is None:
        _Interrupted.left, runs = 0.6 * needed + 5 * runs, runs + 1  # of which each run needs some before it goes on
        with suppress(KeyboardInterrupt):
            found = minres(path, **flat).fit(NUMBERS, Y)
    assert runs > 1
    _Interrupted.left = 10**6
    np.testing.assert_array_equal(found.discriminants(NUMBERS), expected.discriminants(NUMBERS))
    assert found.solver_["residuals"] == expected.solver_["residuals"]


@pytest.mark.parametrize("change", ["kernel", "gamma", "y", "X", "weights", "damping"])
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, eager, change):
    path = tmp_path / "kept.zarr"
    with pytest.warns(ConvergenceWarning):
        minres(path, max_iter=3).fit(NUMBERS, Y)
    other = {"kernel": {"kernel": _Interrupted(K + np.eye(70))}, "gamma": {"gamma": 2.0}, "damping": {"damping": 0.1}}
    with pytest.raises(StoreError, match="checkpoint of another fit"):
        minres(path, **other.get(change, {})).fit(
            NUMBERS[::-1] if change == "X" else NUMBERS, Y + (change == "y"), NUMBERS if change == "weights" else None
        )


@pytest.mark.parametrize("change", ["X", "y"])
def test_a_checkpoint_knows_where_sparse_entries_are(tmp_path, eager, change):
    path, sparse = tmp_path / "kept.zarr", sp.random_array((70, 6), density=0.2, format="csr", rng=0)
    labels = sp.csr_matrix(sparse != 0, dtype=int)
    params = {"kernel": SNE(1.0), "gamma": 3.0, "solver": "minres", "max_iter": 3} | ALL_ROWS
    params = params | {"checkpoint": path, "preconditioner": 0}
    with pytest.warns(ConvergenceWarning):
        AsKLSClassifier(**params).fit(sparse, labels)
    moved = {"X": sparse, "y": labels} | {change: {"X": sparse, "y": labels}[change][:, [1, 0, 2, 3, 4, 5]]}
    with pytest.raises(StoreError, match="checkpoint of another fit"):
        AsKLSClassifier(**params).fit(moved["X"], moved["y"])


def test_not_converged_is_told_and_more_iterations_go_on(tmp_path):
    path = tmp_path / "kept.zarr"
    with pytest.warns(ConvergenceWarning, match=r"minres stopped after 5 iterations .* lie close around 1/gamma"):
        few = minres(path, max_iter=5).fit(NUMBERS, Y)
    assert not few.solver_["converged"] and few.n_iter_ == 5 and path.exists()
    assert np.isfinite(few.discriminants(NUMBERS)).all()
    more = minres(path).fit(NUMBERS, Y)
    assert more.solver_["converged"] and more.solver_["residuals"][:5] == few.solver_["residuals"]
    expected = minres(None).fit(NUMBERS, Y)
    np.testing.assert_allclose(more.discriminants(NUMBERS), expected.discriminants(NUMBERS), atol=1e-6)


# ------------------------------------------------------------------------------------------------- reference and memory
@pytest.mark.parametrize("memory", [None, "30MiB"])
def test_the_error_of_landmarks_is_recorded_and_ends_at_nothing(memory):
    params = {"kernel": RBF(0.5) * LocalRBF(5, anchors=X), "gamma": 0.3, "cv": 3, "memory": memory}
    model = AsKLSClassifier(**params, n_landmarks=[10, 40, 90], compare_exact=True, random_state=0).fit(X, y)
    found = model.landmark_error_
    assert found["n_landmarks"] == [10, 40, 90] and found["n"] == 90
    assert found["reference"] == "exact, dense"
    for role in ("source", "target"):
        first, second, last = found[role]
        assert first > second > last and last < 1e-6


def test_plans_that_do_not_fit_are_refused_before_work_and_name_a_way_out():
    many = np.zeros((5000, 2))
    labels = np.arange(5000) % 2
    model = AsKLSClassifier(SNE(1.0), 1.0, **ALL_ROWS, solver="direct", memory="100MiB")
    with pytest.raises(BudgetError, match=r"use rows=\d+ or less, .* solver='minres'"):
        model.fit(many, labels)
    with pytest.raises(BudgetError, match=r"preconditioner=2000 needs .* use preconditioner=\d+ or less"):
        model.set_params(solver="minres", preconditioner=2000).fit(many, labels)
    with pytest.raises(BudgetError, match=r"preconditioner=0 needs .* use a budget of"):
        model.set_params(preconditioner="auto", memory="10MiB").fit(many, labels)


def test_minres_stays_within_its_plan_where_dense_does_not_fit():
    many, labels = make_moons(1000, noise=0.25, random_state=0)
    model = AsKLSClassifier(SNE(0.5), 5.0, **ALL_ROWS, solver="direct", memory="40MiB", random_state=0)
    with pytest.raises(BudgetError):
        model.fit(many, labels)
    tracemalloc.start()
    model.set_params(solver="auto").fit(many, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20 and model.solver_["name"] == "minres"
    assert model.score(many, labels) > 0.9

"""Landmarks too many for moments: MINRES on blocks of kernel columns against the direct solution; passes and plan."""

import tracemalloc
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

import ask_dask
from ask_dask import AsKLSClassifier, AsKLSRegressor, blocks, compute
from ask_dask.errors import BudgetError, InputError, ResonanceWarning
from ask_dask.fit.plan import Sizes, solver_of
from ask_dask.kernels import RBF, SNE, LocalRBF, Symmetrised
from ask_dask.report.texts import solver_sentence
from ask_dask.solve import Passes
from ask_dask.store import checkpoint

rng = np.random.default_rng(3)
X = rng.normal(size=(300, 4))
Y = np.column_stack([X[:, 0] * X[:, 1], np.sin(X[:, 2]) + 0.1 * rng.normal(size=300)])
CLASSES = (Y[:, 0] > 0).astype(int) + (X[:, 3] > 1)
WEIGHTS = rng.uniform(0.2, 2, 300)
PAIR = (np.arange(0, 90, 2), np.arange(1, 70, 2))
PARAMS = {"kernel": SNE(1.5), "gamma": [0.5, 4.0], "n_landmarks": [15, 40], "cv": 3, "random_state": 0}
ALONE = {"gamma": 4.0, "n_landmarks": 40, "cv": None, "merge": "mean"}


@pytest.fixture(autouse=True)
def in_this_thread():
    """And one BLAS thread for a whole test, not set by each of many small steps."""
    with dask.config.set(scheduler="synchronous"), compute.one_blas_thread():
        yield


def both(cls=AsKLSClassifier, inputs=(X, CLASSES), tol=1e-10, **change):
    """The same model by moments and by passes over the blocks."""
    direct = cls(**PARAMS | change, solver="direct").fit(*inputs)
    minres = cls(**PARAMS | {"preconditioner": 300} | change, solver="minres", tol=tol).fit(*inputs)
    assert minres.solver_["name"] == direct.solver_["name"] == "landmarks"
    assert minres.solver_["converged"] and minres.solver_["relative_residual"] <= tol
    return minres, direct


def close(minres, direct, points=X, atol=1e-6):
    np.testing.assert_allclose(minres.discriminants(points), direct.discriminants(points), atol=atol)
    assert (minres.gamma_, minres.n_landmarks_) == (direct.gamma_, direct.n_landmarks_)
    found, expected = (model.cv_results_ if direct.cv else {} for model in (minres, direct))
    known = not direct.cv or np.array_equal(found["sound"], expected["sound"])  # minres knows some singular values only
    for name in expected if known else [name for name in expected if name not in ("sound", "rank_test_score")]:
        np.testing.assert_allclose(found[name], expected[name], atol=100 * atol, err_msg=name)


# ---------------------------------------------------------------------------------------------------- the same answer
@pytest.mark.parametrize("kernel", [SNE(1.5), SNE(1.5, "exact"), RBF(1.5), LocalRBF(200), 0.5 * RBF(1.0) + SNE(2.0),
                                    Symmetrised(SNE(1.5))], ids=repr)  # fmt: skip
@pytest.mark.parametrize("change", [{}, {"damping": 0.05}])
def test_it_is_the_direct_solution(kernel, change):
    """Folds, gammas, nested landmark counts, weights and several classes at once."""
    close(*both(kernel=kernel, inputs=(X, CLASSES, WEIGHTS), **change))


@pytest.mark.parametrize("change", [
    {"landmarks": PAIR, "n_landmarks": "auto"}, ALONE | {"preconditioner": "auto"}, ALONE | {"preconditioner": 0},
    {"n_landmarks": None, "landmarks": np.arange(300)[::5]}, {"symmetrise": "mean"}, {"landmarks": "kmeans"},
])  # fmt: skip
def test_it_is_the_direct_solution_in_other_ways(change):
    close(*both(**change))


def test_several_values_and_one_value():
    close(*both(AsKLSRegressor, (X, Y)))
    close(*both(AsKLSRegressor, (X, Y[:, 0], WEIGHTS), kernel=RBF(1.5)))


def test_float32_is_as_near_as_its_entries():
    minres, direct = both(inputs=(X.astype(np.float32), CLASSES), **ALONE)
    close(minres, direct, X.astype(np.float32), atol=2e-3)
    assert minres.discriminants(X.astype(np.float32)).dtype == np.float32


def test_duplicated_rows_and_landmarks_are_no_trouble():
    twice = np.vstack([X[:150], X[:150]])
    close(*both(inputs=(twice, np.tile(CLASSES[:150], 2)), n_landmarks=200, kernel=RBF(0.7)), twice)


@pytest.mark.parametrize("chunk_rows", [70, 300])
def test_chunks_and_threads_do_not_matter(chunk_rows):
    expected = AsKLSClassifier(**PARAMS | ALONE, solver="minres").fit(X, CLASSES)
    with dask.config.set(scheduler="threads", num_workers=3):
        lazy = da.from_array(X, chunks=(chunk_rows, 2))
        found = AsKLSClassifier(**PARAMS | ALONE, solver="minres").fit(lazy, CLASSES)
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-7)


# ------------------------------------------------------------------------------------------------------------- passes
def test_each_step_is_one_pass_for_every_system(monkeypatch):
    seen = []
    both_ = blocks.row_blocks
    monkeypatch.setattr(blocks, "row_blocks", lambda block, rows: seen.append(len(block)) or both_(block, rows))
    model = AsKLSClassifier(**PARAMS | {"n_landmarks": 40, "cv": 5}, solver="minres").fit(X, CLASSES)
    found = model.solver_
    assert found["iterations"] < found["evaluations"] <= found["iterations"] + 12
    assert sum(seen) - 260 - 3 * 40 == 300 * found["evaluations"]  # held-out scores and the sample beside them


def test_a_sample_of_rows_preconditions_better_than_the_core():
    steps = [AsKLSClassifier(**PARAMS | ALONE, solver="minres", preconditioner=n).fit(X, CLASSES).n_iter_
             for n in (0, 40, 300)]  # fmt: skip
    assert steps[2] < 10 < steps[1] < steps[0]


def test_products_leave_out_folds_and_take_off_offsets():
    C, folds = rng.normal(size=(300, 7)), np.arange(300) % 4
    points = rng.normal(size=(7, 4))
    rows = ask_dask.moments.Rows(Y, np.asarray, folds, WEIGHTS)
    passes = Passes(da.from_array(X, chunks=(90, 4)), rows, RBF(2.0).at(points, points, 300), 4, (7,))
    K, c, offsets, left_out = RBF(2.0)(X, points), C[:7, :3], np.array([0.5, 0.0, -1.0]), np.array([2, -1, 0])
    D = WEIGHTS[:, None] * (folds[:, None] != left_out)
    (product,), (total,) = passes.grams([c], [offsets], left_out)
    np.testing.assert_allclose(product, K.T @ (D * (K @ c - offsets)), atol=1e-10)
    np.testing.assert_allclose(total, (D * (K @ c - offsets)).sum(0), atol=1e-10)
    count, sum_y, yy, (columns,) = passes.moments()
    for fold in range(4):
        here, w = folds == fold, WEIGHTS[folds == fold, None]
        np.testing.assert_allclose((count[fold], *sum_y[fold]), [w.sum(), *(w * Y[here]).sum(0)])
        np.testing.assert_allclose(yy[fold], (w * Y[here] ** 2).sum(0))
        np.testing.assert_allclose(columns[fold], K[here].T @ (w * np.hstack([np.ones_like(w), Y[here]])), atol=1e-10)


# ---------------------------------------------------------------------------------- resonance, convergence, checkpoint
@pytest.mark.parametrize("gap", [3e-4, 0.0])
def test_a_resonance_is_found_and_its_solution_is_the_direct_one(gap):
    """At it, both give the pseudo-inverse's; rounding leaves a singular system's residual at some 1e-9."""
    some = {"kernel": SNE(1.5), "n_landmarks": 30, "cv": None, "merge": "mean", "random_state": 0}
    sigma = AsKLSClassifier(gamma=1.0, solver="direct", **some).fit(X, CLASSES).singular_values_
    some["gamma"] = float(1 / (sigma[5] * (1 + gap)))
    with pytest.warns(ResonanceWarning, match=r"use gamma=\S+, or damping"):
        minres, direct = both(tol=1e-8, preconditioner="auto", **some)
    assert minres.resonance_.gap == pytest.approx(direct.resonance_.gap, rel=0.02, abs=1e-9)
    assert minres.resonance_.sigma == pytest.approx(sigma[5], rel=1e-4)
    assert minres.resonance_.treatment == direct.resonance_.treatment
    assert minres.solver_["pseudo_inverse"] == (0 if gap else 3)  # an output for each class
    scale = np.abs(direct.discriminants(X)).max()
    np.testing.assert_allclose(minres.discriminants(X) / scale, direct.discriminants(X) / scale, atol=1e-5)


def test_not_converged_is_told_and_more_iterations_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0)
    path, params = tmp_path / "kept.zarr", PARAMS | ALONE | {"solver": "minres", "preconditioner": 40}
    with pytest.warns(ConvergenceWarning, match=r"minres stopped after 5 iterations .* raise max_iter"):
        AsKLSClassifier(**params, max_iter=5, checkpoint=path).fit(X, CLASSES)
    assert path.exists()
    model = AsKLSClassifier(**params, checkpoint=path).fit(X, CLASSES)
    assert model.solver_["converged"] and model.solver_["evaluations"] <= model.n_iter_ and not path.exists()


@pytest.mark.parametrize("change", [{}, {"damping": 0.05}], ids=["plain", "damped"])
def test_a_fit_that_is_told_to_stop_keeps_where_it_was_and_takes_the_same_steps(tmp_path, monkeypatch, change):
    """Whenever the checkpoint was written before."""
    monkeypatch.setattr(checkpoint, "SHARE", 0)  # it would never be time
    path, params = tmp_path / "kept.zarr", PARAMS | {"solver": "minres", "preconditioner": 40} | change
    expected, grams, done = AsKLSClassifier(**params).fit(X, CLASSES), Passes.grams, []

    def told_to_stop(self, *given):
        done.append(given)
        if len(done) == stop:
            raise KeyboardInterrupt
        return grams(self, *given)

    monkeypatch.setattr(Passes, "grams", told_to_stop)
    stop = 0
    AsKLSClassifier(**params).fit(X, CLASSES)
    stop, _ = len(done) - 8, done.clear()
    with pytest.raises(KeyboardInterrupt):
        AsKLSClassifier(**params, checkpoint=path).fit(X, CLASSES)
    assert path.exists()
    done.clear()
    stop = 0
    found = AsKLSClassifier(**params, checkpoint=path).fit(X, CLASSES)
    np.testing.assert_array_equal(found.discriminants(X), expected.discriminants(X))
    assert found.solver_["residuals"] == expected.solver_["residuals"] and not path.exists()


def test_the_model_is_kept_and_described(tmp_path):
    model = AsKLSClassifier(**PARAMS, solver="minres").fit(X, CLASSES)
    model.save(tmp_path / "m.zarr")
    loaded = ask_dask.load(tmp_path / "m.zarr")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.solver_ == model.solver_ and loaded.solver == "minres"
    said = solver_sentence({"solver": model.solver_})
    assert said.startswith(f"The system was solved on landmarks by MINRES in {model.n_iter_} iterations, to a relative")


def test_the_error_against_the_exact_solution_is_that_of_the_direct_one():
    minres, direct = both(gamma=0.5, n_landmarks=[40, 80], compare_exact=True)
    for role in ("source", "target"):
        np.testing.assert_allclose(minres.landmark_error_[role], direct.landmark_error_[role], rtol=1e-4)


# ------------------------------------------------------------------------------------------------------ plan and choice
def sizes(m, n=200_000, **change):
    given = {"n_folds": 5, "n_gammas": 4, "n_outputs": 1, "row_bytes": 160, "itemsize": 4, "workers": 2}
    return Sizes(n, (m,), **given, symmetric=False, damped=False, sampled=None, **change)


def test_what_fits_and_is_faster_is_chosen():
    model = AsKLSClassifier(SNE(1.0), memory="8GiB")
    assert solver_of(model, sizes(1000)) == "direct" and sizes(1000).direct(1000).total < 8 << 30
    assert solver_of(model, sizes(10_000)) == "minres" and sizes(10_000).direct(10_000).total > 8 << 30
    assert solver_of(model.set_params(solver="direct"), sizes(10_000)) == "direct"
    assert solver_of(model.set_params(solver="auto", ridge=1.0), sizes(10_000)) == "direct"
    fast = [min(sizes(m).seconds(), key=sizes(m).seconds().get) for m in (500, 1000, 40_000)]
    assert fast == ["direct", "direct", "minres"]


def test_the_solver_is_chosen_in_a_fit_and_refused_with_a_size_that_fits(monkeypatch):
    monkeypatch.setattr(compute, "workers", lambda: 2)  # the plan is of as many as the machine has cores
    points, labels = make_moons(1500, noise=0.25, random_state=0)
    params = {"kernel": SNE(0.7), "gamma": 4.0, "cv": 2, "random_state": 0, "memory": "61MiB", "tol": 1e-5}
    model = AsKLSClassifier(**params, n_landmarks=500).fit(points, labels)
    assert model.solver_["iterations"] > 0 and model.score(points, labels) > 0.9
    with pytest.raises(BudgetError, match=r"use n_landmarks=\d+ or less, .* or solver='minres'"):
        AsKLSClassifier(**params, n_landmarks=500, solver="direct").fit(points, labels)
    with pytest.raises(BudgetError, match=r"n_landmarks=1200 needs .*feature maps .* use n_landmarks=\d+ or less"):
        AsKLSClassifier(**params, n_landmarks=1200).fit(points, labels)
    with pytest.raises(InputError, match="ridge goes with solver='direct'"):
        AsKLSClassifier(**params, n_landmarks=50, solver="minres", ridge=1.0).fit(points, labels)


def test_arrays_stay_within_the_plan_and_grow_with_landmarks_alone():
    """No N x m and no Gram a fold."""
    points, labels = rng.normal(size=(3000, 6)), np.arange(3000) % 2
    of_rows = [Sizes(n, (300,), 4, 2, 1, 48, 8, 1, False, False, None) for n in (3000, 30_000)]
    planned, more = (sizes.blockwise(300).total for sizes in of_rows)
    assert more - planned == (2 + 3) * 27_000 * 48  # rows alone, held twice, and three times while they are read
    model = AsKLSClassifier(SNE(2.0), [1.0, 9.0], 10, cv=4, solver="minres", max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(points, labels)  # what is loaded and compiled once
        tracemalloc.start()
        model.set_params(n_landmarks=300).fit(points, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert planned / 3 < peak < planned

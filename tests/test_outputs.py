"""Outputs: real values, several labels a row, weights of rows and classes, and bad input."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from sklearn.datasets import make_moons
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.utils.class_weight import compute_sample_weight

import ask_dask
from ask_dask import AsKLSClassifier, AsKLSRegressor, compute
from ask_dask.errors import InputError
from ask_dask.kernels import RBF, SNE, LocalRBF

X, y = make_moons(120, noise=0.25, random_state=0)
rng = np.random.default_rng(17)
VALUES = np.column_stack([np.sin(3 * X[:, 0]), X[:, 0] * X[:, 1], X[:, 1] ** 2]) + 0.05 * rng.normal(size=(120, 3))
LABELS = (VALUES > VALUES.mean(0)).astype(int)
CLASSES = np.array(["few", "many", "some"])[LABELS[:, 0] + LABELS[:, 1] * (X[:, 0] > 0)]
TASKS = {
    "regression": (AsKLSRegressor, VALUES[:, 0]), "several values": (AsKLSRegressor, VALUES),
    "two classes": (AsKLSClassifier, y), "three classes": (AsKLSClassifier, CLASSES),
    "several labels": (AsKLSClassifier, LABELS), "sparse labels": (AsKLSClassifier, sp.csr_matrix(LABELS)),
}  # fmt: skip
WAYS = {
    "landmarks": {"n_landmarks": 30},
    "dense": {"n_landmarks": None},
    "minres": {"n_landmarks": None, "solver": "minres"},
}
ANCHORED = LocalRBF(5, anchors=X[:20])  # asymmetric, of x and z alone
SMALL = {"kernel": SNE(0.7), "gamma": [1, 10], "n_landmarks": [20, 40], "cv": 3, "random_state": 0}


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Set once for a whole test, and not by each of many small steps."""
    with compute.one_blas_thread():
        yield


def dense(found):
    return found.toarray() if sp.issparse(found) else np.asarray(found)


# ------------------------------------------------------------------------------------------ several outputs
@pytest.mark.parametrize(("way", "merge"), [("landmarks", "stack"), ("dense", "target"), ("minres", "stack")])
def test_several_values_are_single_ones(way, merge):
    params = {"kernel": ANCHORED, "gamma": 0.1, "cv": 3, "merge": merge, "random_state": 0} | WAYS[way]
    together = AsKLSRegressor(**params).fit(X, VALUES)
    for k in range(2):
        alone = AsKLSRegressor(**params).fit(X, VALUES[:, k])
        np.testing.assert_allclose(together.predict(X)[:, k], alone.predict(X), atol=1e-6)
        np.testing.assert_allclose(together.decision_source(X)[:, k], alone.decision_source(X), atol=1e-6)
    assert together.score(X, VALUES) > 0.6


@pytest.mark.parametrize("way", WAYS)
def test_several_labels_are_single_ones(way):
    params = {"kernel": ANCHORED, "gamma": 0.1, "cv": KFold(3), "random_state": 0} | WAYS[way]
    together = AsKLSClassifier(**params).fit(X, sp.csr_matrix(LABELS))
    for k in range(2):
        alone = AsKLSClassifier(**params).fit(X, LABELS[:, k])
        np.testing.assert_allclose(together.decision_function(X)[:, k], alone.decision_function(X), atol=1e-4)
        np.testing.assert_allclose(together.predict_proba(X)[:, k], alone.predict_proba(X)[:, 1], atol=1e-4)
    np.testing.assert_array_equal(together.classes_, [0, 1, 2])
    assert f1_score(LABELS, together.predict(X), average="micro") > 0.8


def test_a_thousand_sparse_labels_share_the_moments():
    labels = sp.random_array((120, 1000), density=0.03, format="csr", rng=0).astype(bool).astype(np.int8)
    params = {"kernel": SNE(0.7), "gamma": 3.0, "n_landmarks": 40, "random_state": 0}
    model = AsKLSClassifier(**params, cv=None, merge="mean").fit(X, labels)
    assert model.decision_function(X).shape == (120, 1000)
    for k in (0, 500, 999):
        alone = AsKLSClassifier(**params, cv=None, merge="mean").fit(X, labels[:, [k]].toarray().ravel())
        np.testing.assert_allclose(model.decision_function(X)[:, k], alone.decision_function(X), atol=1e-9)
    found = model.predict(X)
    assert sp.issparse(found) and found.dtype == np.int8 and found.shape == (120, 1000)
    chosen = AsKLSClassifier(**params | {"gamma": [1, 3]}, cv=2).fit(X, labels[:, :30])  # some are in one fold alone
    assert np.isfinite(chosen.predict_proba(X)).all()


@pytest.mark.parametrize(("task", "kind"), [
    *((task, "dask") for task in TASKS), ("several values", "zarr"), ("several labels", "zarr")])  # fmt: skip
def test_lazy_inputs_give_lazy_outputs_and_the_same_answers(task, kind):
    estimator, labels = TASKS[task]
    expected = estimator(**SMALL).fit(X, labels)
    wrap = (lambda a: da.from_array(a, chunks=50)) if kind == "dask" else (lambda a: zarr.create_array({}, data=a))
    inputs = wrap(X)
    model = estimator(**SMALL).fit(inputs, labels if sp.issparse(labels) or labels.dtype.kind == "U" else wrap(labels))
    assert model.gamma_ == expected.gamma_
    methods = ["predict", "decision_source", "decision_target"]
    for method in methods + (["predict_proba", "decision_function"] if estimator is AsKLSClassifier else []):
        found, wanted = getattr(model, method)(inputs), dense(getattr(expected, method)(X))
        assert isinstance(found, da.Array)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind == "U":
            assert (found.compute() == wanted).all()
        else:
            np.testing.assert_allclose(found.compute(), wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("task", "change"), [
    *((task, {"cv": None, "merge": "source", "gamma": 2.0, "n_landmarks": 30}) for task in TASKS),
    ("regression", {"compare_exact": True}), ("several labels", {"compare_exact": True, "merge": "balanced"}),
    ("several values", {"n_landmarks": None, "solver": "minres", "gamma": 0.3, "cv": 2}),
    ("sparse labels", {"n_landmarks": None, "solver": "minres", "gamma": 0.3, "cv": 2}),
    ("three classes", {"n_landmarks": None, "merge": "mean"})])  # fmt: skip
def test_saved_and_loaded_it_predicts_the_same(tmp_path, task, change):
    estimator, labels = TASKS[task]
    model = estimator(**SMALL | change).fit(X, labels)
    model.save(tmp_path / "m.zarr")
    loaded = ask_dask.load(tmp_path / "m.zarr")
    found, expected = loaded.predict(X), model.predict(X)
    assert type(found) is type(expected) and (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(dense(found), dense(expected))
    if model.cv is not None and estimator is AsKLSClassifier:
        np.testing.assert_array_equal(loaded.predict_proba(10 * X), model.predict_proba(10 * X))
    for name in ("task_", "n_outputs_", "gamma_", "solver_", "asymmetry_", "resonance_", "scoring_"):
        assert getattr(loaded, name) == getattr(model, name), name
    assert getattr(loaded, "landmark_error_", None) == getattr(model, "landmark_error_", None)
    again = type(model)(**loaded.get_params(deep=False)).fit(X, labels)
    np.testing.assert_allclose(again.discriminants(X), model.discriminants(X), atol=1e-9)


# ------------------------------------------------------------------------------------------ weights
COUNTS = rng.integers(0, 4, 120)
REPEATED = np.repeat(np.arange(120), COUNTS)
FOLDS = np.arange(120) % 3


@pytest.mark.parametrize(("task", "way"), [
    *((task, "landmarks") for task in TASKS), ("several values", "dense"), ("three classes", "minres")])  # fmt: skip
def test_weights_are_repeated_rows_and_zero_removes_one(task, way):
    estimator, labels = TASKS[task]
    params = {"kernel": ANCHORED, "gamma": 0.05, "cv": None, "merge": "mean", "random_state": 0} | WAYS[way]
    first = np.flatnonzero(COUNTS)[:30]  # the same points as landmarks, wherever they are
    places = [first, np.searchsorted(REPEATED, first)] if way == "landmarks" else ["uniform"] * 2
    weighted = estimator(**params, landmarks=places[0]).fit(X, labels, COUNTS)
    repeated = estimator(**params, landmarks=places[1]).fit(X[REPEATED], labels[REPEATED])
    np.testing.assert_allclose(weighted.discriminants(X), repeated.discriminants(X), atol=1e-6)


@pytest.mark.parametrize("task", ["regression", "two classes", "sparse labels"])
def test_weights_are_repeated_rows_in_folds_scores_and_merging_too(task):
    estimator, labels = TASKS[task]
    first = np.flatnonzero(COUNTS == 1)[:25]  # landmarks are not scored, and their copies would be
    places = [first, np.searchsorted(REPEATED, first)]
    splits = [[(np.flatnonzero(f != k), np.flatnonzero(f == k)) for k in range(3)] for f in (FOLDS, FOLDS[REPEATED])]
    params = {"kernel": ANCHORED, "gamma": [0.05, 0.2], "random_state": 0}
    weighted = estimator(**params, landmarks=places[0], cv=splits[0]).fit(X, labels, COUNTS)
    repeated = estimator(**params, landmarks=places[1], cv=splits[1]).fit(X[REPEATED], labels[REPEATED])
    np.testing.assert_allclose(weighted.discriminants(X), repeated.discriminants(X), atol=1e-8)
    found, expected = (model.merged_(model.discriminants(X)) for model in (weighted, repeated))
    np.testing.assert_allclose(found, expected, atol=1e-3)
    for name, values in repeated.cv_results_.items():
        np.testing.assert_allclose(weighted.cv_results_[name], values, rtol=1e-3, atol=1e-3, err_msg=name)
    assert weighted.held_out_["n"] == np.count_nonzero(COUNTS) - len(first)
    for name, value in repeated.held_out_.items():
        if isinstance(value, float) or name in ("label_rates", "auroc_by_label", "f1_by_label", "mean_probability"):
            assert weighted.held_out_[name] == pytest.approx(value, rel=1e-3, abs=1e-3), name


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("way", WAYS)
def test_rows_of_weight_zero_count_nowhere_on_held_out_rows(task, way):
    """Their labels are wrong, so that every score that counts them is another."""
    estimator, labels = TASKS[task]
    wrong, weight = (labels.toarray() if sp.issparse(labels) else labels).copy(), np.ones(120)
    weight[80:], wrong[80:] = 0, wrong[:40][::-1]
    wrong = sp.csr_matrix(wrong) if sp.issparse(labels) else wrong
    params = {"kernel": ANCHORED, "gamma": 0.05, "random_state": 0} | WAYS[way]
    folds = [[(np.flatnonzero(f != k), np.flatnonzero(f == k)) for k in range(3)] for f in (FOLDS, FOLDS[:80])]
    params |= {"landmarks": np.arange(30)} if way == "landmarks" else {}
    weighted = estimator(**params, cv=folds[0]).fit(X, wrong, weight)
    without = estimator(**params, cv=folds[1]).fit(X[:80], wrong[:80])
    for name, value in without.held_out_.items():
        if isinstance(value, int | float):
            assert weighted.held_out_[name] == pytest.approx(value, rel=1e-3, abs=1e-4), name


def test_class_weights_do_not_count_in_scores():
    """They are how a model is fitted, and not how many rows there are."""
    params = {"kernel": SNE(0.7), "gamma": 0.3, "n_landmarks": 30, "cv": 3, "random_state": 0}
    model = AsKLSClassifier(**params, class_weight={0: 1.0, 1: 30.0}).fit(X, y)
    rate = np.delete(y, model.row_landmarks_).mean()
    assert model.held_out_["label_rates"] == pytest.approx([1 - rate, rate]) and model.held_out_["n"] == 90


@pytest.mark.parametrize(("way", "class_weight"), [
    ("landmarks", "balanced"), ("dense", {"few": 3.0, "many": 0.5}), ("minres", "balanced")])  # fmt: skip
def test_class_weights_are_weights_of_their_rows(way, class_weight):
    params = {"kernel": SNE(0.7), "gamma": 0.3, "cv": 2, "random_state": 0} | WAYS[way]
    found = AsKLSClassifier(**params, class_weight=class_weight).fit(X, CLASSES)
    expected = AsKLSClassifier(**params).fit(X, CLASSES, compute_sample_weight(class_weight, CLASSES))
    np.testing.assert_allclose(found.discriminants(X), expected.discriminants(X), atol=1e-6)
    both = AsKLSClassifier(**params, class_weight=class_weight).fit(X, CLASSES, 1.0 + COUNTS)
    expected = AsKLSClassifier(**params).fit(X, CLASSES, compute_sample_weight(class_weight, CLASSES) * (1.0 + COUNTS))
    np.testing.assert_allclose(both.discriminants(X), expected.discriminants(X), atol=1e-6)


@pytest.mark.parametrize("class_weight", ["balanced", {"few": 3.0}, {0: 2.0, 1: 5.0}, [{0: 1.0, 1: 2.0}] * 3])
def test_class_weights_are_kept(tmp_path, class_weight):
    labels = LABELS if isinstance(class_weight, list) else y if class_weight == {0: 2.0, 1: 5.0} else CLASSES
    model = AsKLSClassifier(**SMALL, class_weight=class_weight).fit(X, labels)
    model.save(tmp_path / "m.zarr")
    assert ask_dask.load(tmp_path / "m.zarr").class_weight == class_weight


def test_weight_on_few_rows_has_a_finite_answer():
    few, one = np.zeros(120), np.zeros(120)
    few[[3, 4, 50]] = one[3] = 1
    for way in WAYS.values():
        params = {"kernel": ANCHORED, "gamma": 0.1, "cv": 3, "random_state": 0} | way
        for estimator, labels in (TASKS["three classes"], TASKS["regression"]):
            assert np.isfinite(estimator(**params).fit(X, labels, few).discriminants(X)).all()
            with pytest.raises(InputError, match=r"Without fold \d every row has the weight zero"):
                estimator(**params).fit(X, labels, one)
            alone = estimator(**params | {"cv": None, "merge": "mean"}).fit(X, labels, one)
            assert np.isfinite(alone.discriminants(X)).all()


# ------------------------------------------------------------------------------------------ bad input
@pytest.mark.parametrize(("estimator", "change", "labels", "weights", "message"), [
    (AsKLSRegressor, {}, VALUES[:-1], None, "y has 119 values and X has 120 rows"),
    (AsKLSRegressor, {}, VALUES[:, :, None], None, r"y has shape \(120, 3, 1\)"),
    (AsKLSRegressor, {}, CLASSES, None, "dtype <U4: give numbers"),
    (AsKLSRegressor, {}, np.where(VALUES > 0.5, np.nan, VALUES), None, "contains NaN or infinity, first in row"),
    (AsKLSRegressor, {}, None, None, "requires y to be passed"),
    (AsKLSRegressor, {"merge": "balanced"}, VALUES, None, "merge='balanced' is for classes"),
    (AsKLSRegressor, {"scoring": "auroc"}, VALUES, None, "scoring='auroc' must be one of"),
    (AsKLSRegressor, {"landmarks": "stratified"}, VALUES, None, "landmarks='stratified' needs classes"),
    (AsKLSRegressor, {"cv": 121}, VALUES, None, r"cv=121 folds are more than the rows of X \(n_samples=120\)"),
    (AsKLSClassifier, {}, VALUES, None, "must be 0 or 1: for real values use AsKLSRegressor"),
    (AsKLSClassifier, {}, LABELS + 1, None, "must be 0 or 1"),
    (AsKLSClassifier, {}, sp.csr_matrix(2 * LABELS), None, "must be 0 or 1"),
    (AsKLSClassifier, {}, LABELS[:-1], None, "y has 119 rows of labels and X has 120 rows"),
    (AsKLSClassifier, {}, VALUES[:, 0], None, "holds continuous values"),
    (AsKLSClassifier, {"cv": 30}, np.arange(120) % 5, None, "cv=30 folds are more than the 24 rows of the smallest"),
    (AsKLSClassifier, {"gamma": []}, y, None, "gamma is an empty list"),
    (AsKLSClassifier, {"scoring": "r2"}, y, None, "scoring='r2' must be one of"),
    (AsKLSClassifier, {"class_weight": "fair"}, y, None, "class_weight: .*balanced"),
    (AsKLSClassifier, {"class_weight": {0: -1.0, 1: 1.0}}, y, None, "class_weight is -1.0 in row"),
    (AsKLSClassifier, {}, y, np.where(X[:, 0] > 1, -1.0, 1.0), r"sample_weight is -1.0 in row \d+"),
    (AsKLSClassifier, {}, y, np.full(120, np.nan), "sample_weight is nan in row 0"),
    (AsKLSClassifier, {}, y, np.zeros(120), "sample_weight is zero in every row"),
    (AsKLSClassifier, {}, y, np.ones(7), r"sample_weight has shape \(7,\)"),
    (AsKLSClassifier, {"solver": "minres", "n_landmarks": None, "ridge": 1.0}, y, None, "ridge goes with solver="),
    (AsKLSClassifier, {"solver": "lu"}, y, None, "solver='lu' must be one of"),
    (AsKLSClassifier, {"compare_exact": True, "n_landmarks": None}, y, None, "compare_exact compares landmarks"),
    (AsKLSClassifier, {"compare_exact": True, "ridge": 1.0}, y, None, "ridge lives on landmarks and has no exact"),
    (AsKLSClassifier, {"tol": 0}, y, None, "tol=0 must be"),
    (AsKLSClassifier, {"max_iter": 0}, y, None, "max_iter=0"),
    (AsKLSClassifier, {"preconditioner": -1}, y, None, "preconditioner=-1"),
    (AsKLSClassifier, {"symmetrise": "both"}, y, None, "symmetrise='both' must be one of"),
    (AsKLSClassifier, {"symmetrise": "mean", "landmarks": (np.arange(40), np.arange(40, 80))}, y, None, "one set of"),
    (AsKLSClassifier, {"class_weight": {0: 0.0, 1: 1.0}}, y, 1.0 - y, "sample_weight times class_weight is zero in"),
    (AsKLSClassifier, {"memory": "much"}, y, None, "memory='much' is not a size"),
])  # fmt: skip
def test_bad_input_is_one_sentence(estimator, change, labels, weights, message):
    with pytest.raises(InputError, match=message) as caught:
        estimator(**SMALL | change).fit(X, labels, weights)
    assert "\n" not in str(caught.value)


def test_symmetric_kernels_and_one_landmark_still_give_values():
    for kernel in (RBF(0.7), None):
        model = AsKLSRegressor(kernel, 1.0, 1, cv=3, random_state=0).fit(X, VALUES)
        assert np.isfinite(model.predict(X)).all()

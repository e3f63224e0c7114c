"""AsKLSClassifier: the oracle, every kind of input, invariance, conventions, bad input, its store."""

import warnings

import dask
import dask.array as da
import numpy as np
import oracle
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from dask.distributed import Client
from machines import Machines
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.estimator_checks import parametrize_with_checks

import ask_dask
from ask_dask import AsKLSClassifier, AsKLSRegressor, blocks, landmarks, moments, nystrom, store
from ask_dask.errors import BudgetError, InputError, ResonanceWarning, StoreError
from ask_dask.kernels import RBF, SNE, DirectedGraph, Linear, StudentT
from ask_dask.solve import LandmarkSystem

X, y = make_moons(400, noise=0.25, random_state=0)
SMALL = {"kernel": SNE(bandwidth=0.7), "gamma": [1, 10], "n_landmarks": [20, 40], "cv": 3, "random_state": 0}


def not_expected(estimator):
    """The checks of scikit-learn that hold for no estimator of this kind, and why."""
    reason = "landmarks, folds and the normaliser of the default kernel are of rows, whatever their weight"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [AsKLSClassifier(cv=2, damping=1e-6), AsKLSRegressor(cv=2, damping=1e-6)], expected_failed_checks=not_expected
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", [SNE(0.7), SNE(0.7, "exact"), StudentT(), RBF(0.7)], ids=repr)
def test_every_point_a_landmark_is_the_exact_dual(kernel):
    few, labels = X[:80], y[:80]
    model = AsKLSClassifier(kernel, gamma=3.0, n_landmarks=None, cv=None, merge="mean").fit(few, labels)
    K, new = kernel(few, few), kernel.at(few, few, 80, few)
    expected = oracle.askls_dual(K, 2.0 * labels - 1, 3.0)
    np.testing.assert_allclose(model.decision_source(X), expected.source(new.source(X))[:, 0], atol=1e-8)
    np.testing.assert_allclose(model.decision_target(X), expected.target(new.target(X).T)[:, 0], atol=1e-8)
    mean = (model.decision_source(X) + model.decision_target(X)) / 2
    np.testing.assert_allclose(model.decision_function(X), mean, atol=1e-12)


def test_separate_row_and_column_landmarks():
    few, labels = np.random.default_rng(7).normal(size=(60, 4)), np.arange(60) % 2
    rows, columns = np.arange(25), np.arange(10, 40)
    model = AsKLSClassifier(SNE(1.5, "exact"), 2.5, cv=None, merge="source", landmarks=(rows, columns))
    model.fit(few, labels)
    K = oracle.sne(few, few, 1.5, few)
    source, target = oracle.landmark_features(K[:, columns], K[np.ix_(rows, columns)], K[rows])
    w, _, intercepts = oracle.askls_primal(source, target, 2.0 * labels - 1, 2.5)
    np.testing.assert_allclose(model.decision_function(few), (source @ w + intercepts[0])[:, 0], atol=1e-8)
    assert (len(model.row_landmarks_), len(model.column_landmarks_)) == (25, 30)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_an_average_pair_of_points_has_exp_of_minus_one_by_default(convert):
    model = AsKLSClassifier(gamma=1.0, n_landmarks=None, cv=None, merge="mean", damping=0.1).fit(convert(X), y)
    squares = ((X[:, None] - X) ** 2).sum(2)
    assert model.kernel_.bandwidth**2 == pytest.approx(squares.mean(), rel=1e-9)


def kinds(tmp_path):
    stored = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(64, 2), shards=(128, 2))
    labels = zarr.create_array(tmp_path / "y.zarr", data=y, chunks=(64,))
    return {
        "numpy": (X, y),
        "dask": (da.from_array(X, chunks=(37, 1)), da.from_array(y, chunks=50)),
        "zarr": (stored, labels),
        "sparse": (sp.csr_matrix(X), y),
        "csc": (sp.csc_array(X), y),
        "list": (X.tolist(), y.tolist()),
    }


@pytest.mark.parametrize("kind", ["dask", "zarr", "sparse", "csc", "list"])
@pytest.mark.parametrize("kernel", [SNE(0.7), RBF(0.7)], ids=repr)
def test_every_kind_of_input_gives_the_same_answer(tmp_path, kind, kernel):
    expected = clone(AsKLSClassifier(**SMALL)).set_params(kernel=kernel).fit(X, y)
    inputs, labels = kinds(tmp_path)[kind]
    model = AsKLSClassifier(**SMALL).set_params(kernel=kernel).fit(inputs, labels)
    assert (model.gamma_, model.n_landmarks_) == (expected.gamma_, expected.n_landmarks_)
    for method in ("decision_function", "decision_source", "decision_target", "predict_proba", "predict"):
        found, wanted = getattr(model, method)(inputs), getattr(expected, method)(X)
        assert isinstance(found, da.Array) == (kind in ("dask", "zarr"))
        assert found.shape == wanted.shape
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [7, 64, 400])
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_chunking_and_workers_do_not_matter(rows, scheduler):
    expected = AsKLSClassifier(**SMALL).fit(X, y)
    with dask.config.set(scheduler=scheduler, num_workers=3):
        close(AsKLSClassifier(**SMALL).fit(da.from_array(X, chunks=(rows, 2)), y), expected)


def test_processes_and_a_real_scheduler_give_the_same_answer(tmp_path, pool):
    expected = AsKLSClassifier(**SMALL).fit(X, y)
    chunked = da.from_array(X, chunks=(100, 2))
    with dask.config.set(scheduler="processes", num_workers=2, pool=pool):
        close(AsKLSClassifier(**SMALL).fit(chunked, y), expected)
    machines = Machines(tmp_path, pause=0)
    try:
        with Client(scheduler_file=machines.file):
            close(AsKLSClassifier(**SMALL).fit(chunked, y), expected)
        assert machines.begun
    finally:
        machines.close()


def close(model, expected):
    np.testing.assert_allclose(model.solution_.source, expected.solution_.source, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.solution_.target, expected.solution_.target, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), rtol=1e-9, atol=1e-9)
    for name, values in expected.cv_results_.items():
        np.testing.assert_allclose(model.cv_results_[name], values, rtol=1e-6, err_msg=name)


def test_one_pass_gives_what_separate_fits_give():
    """Every fold, gamma and nested landmark count from one pass equals a fit of its own on those rows."""
    landmarks = np.random.default_rng(0).permutation(400)[:40]
    model = AsKLSClassifier(RBF(0.7), [1, 10], [20, 40], cv=KFold(4), landmarks=landmarks, merge="mean").fit(X, y)
    names = ("param_n_landmarks", "param_gamma", "split2_test_auroc")
    for n, gamma, auroc in zip(*(model.cv_results_[name] for name in names), strict=True):
        train, test = list(KFold(4).split(X))[2]
        test = np.setdiff1d(test, landmarks)  # a held-out landmark is not like a new row
        points = X[landmarks[:n]]
        at = RBF(0.7).at(points, points, 400)
        rows = moments.Rows(2.0 * y[train, None] - 1, np.asarray, np.zeros(len(train), int))
        found = moments.of_rows(X[train], rows, at, 1)
        maps = nystrom.feature_map(at.source(points), nystrom.resolution(np.float64))
        solution = LandmarkSystem(moments.Centred.of(found, maps)).solve(gamma)
        f = blocks.discriminants(X[test], at, solution.source, solution.target, solution.intercepts)
        assert roc_auc_score(y[test], f.mean(1)) == pytest.approx(auroc, abs=1e-9)


def test_the_data_are_read_twice_whatever_is_asked(monkeypatch):
    seen, read = [], store.read
    monkeypatch.setattr(store, "read", lambda *a: seen.append(a[1:]) or read(*a))
    stored = zarr.create_array({}, data=X, chunks=(100, 2), shards=(200, 2))
    with dask.config.set(scheduler="synchronous"):
        near = np.r_[100:120, 310:330]
        AsKLSClassifier(SNE(0.7), [1, 3, 10, 30], [10, 20, 40], cv=5, landmarks=near, random_state=0).fit(stored, y)
    assert seen == [(100, 200), (300, 400), (0, 400), (0, 400)]  # chunks with landmarks; moments; held-out scores


def test_labels_of_a_held_out_fold_do_not_reach_its_model():
    cv, fold = KFold(4), 1
    test = list(cv.split(X))[fold][1]
    changed = y.copy()
    changed[test] = 1 - changed[test]
    params = {"kernel": SNE(0.7), "gamma": 3.0, "n_landmarks": 30, "cv": cv, "merge": "mean", "random_state": 0}
    ones = AsKLSClassifier(**params).fit(X, y).cv_results_[f"split{fold}_test_auroc"]
    others = AsKLSClassifier(**params).fit(X, changed).cv_results_[f"split{fold}_test_auroc"]
    np.testing.assert_allclose(ones, 1 - others, atol=1e-9)


@pytest.mark.parametrize("merge", ["stack", "mean", "source", "target"])
def test_several_classes_in_one_solve(merge):
    digits, labels = load_digits(return_X_y=True)
    names = np.array(list("abcdefghij"))[labels]
    model = AsKLSClassifier(SNE(bandwidth=15.0), [10, 100], 200, cv=3, merge=merge, random_state=0)
    model.fit(digits[:1200], names[:1200])
    assert model.decision_function(digits[:5]).shape == (5, 10)
    assert model.score(digits[1200:], names[1200:]) > 0.88
    probability = model.predict_proba(digits[1200:])
    np.testing.assert_allclose(probability.sum(1), 1)
    np.testing.assert_array_equal(model.classes_[probability.argmax(1)], model.predict(digits[1200:]))


@pytest.mark.parametrize("kernel", [SNE(0.7), RBF(0.7)], ids=repr)
def test_results_keep_the_dtype_and_float32_is_close(kernel):
    model = AsKLSClassifier(kernel, 1.0, 20, cv=3, random_state=0)
    expected = model.fit(X, y).decision_function(X)
    found = model.fit(X.astype(np.float32), y).decision_function(X.astype(np.float32))
    assert (found.dtype, expected.dtype) == (np.float32, np.float64)
    assert np.abs(found - expected).max() < 2e-2


def test_stratified_landmarks_and_samples_of_scored_rows():
    rare = (np.arange(400) % 20 == 0).astype(int)
    model = AsKLSClassifier(**SMALL | {"landmarks": "stratified", "max_scored_rows": 200}).fit(X, rare)
    assert rare[model.row_landmarks_].sum() == round(model.n_landmarks_ / 20)
    assert model.held_out_["n"] == 200


def test_scored_rows_without_weight_in_other_folds_are_refused():
    weights = (np.arange(400) < 40).astype(float)
    with pytest.raises(InputError, match="max_scored_rows=3 takes rows with a weight from one fold alone or none"):
        AsKLSClassifier(**SMALL | {"max_scored_rows": 3}).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("how", [*landmarks.HOWS, "stratified"])
def test_landmarks_are_chosen_in_every_way(how):
    graph = how == "coverage"
    kernel, rows = (DirectedGraph(kneighbors_graph(X, 5)), np.arange(400)) if graph else (SNE(0.7), X)
    model = AsKLSClassifier(**SMALL | {"kernel": kernel, "landmarks": how, "damping": 0.1}).fit(rows, y)
    for side in (model.row_landmarks_, model.column_landmarks_):
        assert len(set(side)) == model.n_landmarks_
    apart = how in ("leverage", "cross", "greedy")
    assert np.array_equal(model.row_landmarks_, model.column_landmarks_) == (not apart)
    assert model.held_out_["auroc"] > 0.9


def test_it_searches_and_clones():
    search = GridSearchCV(AsKLSClassifier(**SMALL), {"kernel": [SNE(0.3), SNE(3.0)]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.85
    assert clone(search.best_estimator_).kernel == search.best_params_["kernel"]


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("change", [
    {}, {"cv": None, "merge": "mean", "gamma": 2.0, "n_landmarks": 30}, {"kernel": SNE(0.7, "exact")},
    {"kernel": 0.5 * RBF(1.0) + Linear() * SNE(1.0)}, {"kernel": None}, {"cv": KFold(3)},
    {"landmarks": (np.arange(50), np.arange(20, 70))}, {"ridge": 1.5}])  # fmt: skip
def test_saved_and_loaded_it_predicts_the_same(tmp_path, convert, change):
    inputs = convert(X)
    model = AsKLSClassifier(**SMALL | change).fit(inputs, y)
    model.save(tmp_path / "m.zarr")
    loaded = ask_dask.load(tmp_path / "m.zarr")
    np.testing.assert_array_equal(loaded.discriminants(inputs), model.discriminants(inputs))
    np.testing.assert_array_equal(loaded.predict(inputs), model.predict(inputs))
    assert loaded.resonance_ == model.resonance_
    assert loaded.gamma_ == model.gamma_ and loaded.kernel_ == model.kernel_
    if model.cv is not None:
        np.testing.assert_array_equal(loaded.predict_proba(inputs), model.predict_proba(inputs))
        assert loaded.cv_results_.keys() == model.cv_results_.keys()
    if change != {"cv": KFold(3)} and "cv" not in change:
        np.testing.assert_allclose(clone(loaded).fit(inputs, y).discriminants(inputs), model.discriminants(inputs))


def test_resonance_warns_and_names_a_safe_gamma():
    params = {"kernel": SNE(0.7), "n_landmarks": 30, "cv": None, "merge": "mean", "random_state": 0}
    sigma = AsKLSClassifier(gamma=1.0, **params).fit(X, y).singular_values_[2]
    with pytest.warns(ResonanceWarning, match=r"use gamma=\S+, or damping"):
        model = AsKLSClassifier(gamma=1 / sigma, **params).fit(X, y)
    assert model.resonance_.gap < 1e-9
    assert np.isfinite(model.decision_function(X)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AsKLSClassifier(gamma=model.resonance_.safe_gamma, **params).fit(X, y)
        AsKLSClassifier(gamma=1 / sigma, damping=0.1, **params).fit(X, y)
        AsKLSClassifier(gamma=1 / sigma, ridge=1.0, **params).fit(X, y)


@pytest.mark.parametrize("case", ["constant column", "duplicated rows", "far away", "float32 wide range"])
def test_difficult_data_have_finite_answers(case):
    data = X.copy()
    if case == "constant column":
        data = np.column_stack([data, np.full(400, 7.0)])
    elif case == "duplicated rows":
        data[:200] = data[0]
    elif case == "far away":
        data[5] = 1e6
    else:
        data = (data * [1, 1e4]).astype(np.float32)
    for kernel in (SNE(0.7), RBF(0.7), StudentT(), None):
        model = AsKLSClassifier(**SMALL | {"kernel": kernel}).fit(data, y)
        for found in (model.decision_function(data), model.predict_proba(data), model.singular_values_):
            assert np.isfinite(found).all(), (case, kernel)


def nan_at(row, column, value=np.nan):
    bad = X.copy()
    bad[row, column] = value
    return bad


LAZY_NAN = da.from_array(nan_at(300, 1), chunks=(64, 2))


@pytest.mark.parametrize(("change", "data", "labels", "message"), [
    ({"gamma": 0}, X, y, "gamma=0 must be"),
    ({"gamma": [1, -2]}, X, y, "gamma=-2 must be"),
    ({"gamma": []}, X, y, "gamma is an empty list"),
    ({"gamma": None}, X, y, "gamma=None must be"),
    ({"gamma": "high"}, X, y, "gamma='high' must be"),
    ({"n_landmarks": 2.7}, X, y, "n_landmarks=2.7 must be"),
    ({"n_landmarks": "many"}, X, y, "n_landmarks=many must be"),
    ({"landmarks": np.array([0.5, 1])}, X, y, "row numbers from 0 to 399"),
    ({"damping": None}, X, y, "damping=None must be"),
    ({"tol": None}, X, y, "tol=None must be"),
    ({}, X, np.array(["a", 1] * 200, object), "labels that cannot be compared"),
    ({}, X, np.array(["a", None] * 200, object), "missing value, first in row 1"),
    ({}, X, pd.array([1, 0, pd.NA, 1] * 100), "first in row 2"),
    ({}, X, np.ma.masked_equal(np.arange(400) % 3, 1), "missing value, first in row 1"),
    ({}, X, np.array(["2020-01-01", "2021-01-01"] * 200, "M8[D]"), "labels of type datetime64"),
    ({}, X, np.array([b"a", b"b"] * 200), "labels of type bytes"),
    ({"n_landmarks": 500}, X, y, "n_landmarks=500 is more than the 400 rows"),
    ({"n_landmarks": 0}, X, y, "n_landmarks=0"),
    ({"cv": 1}, X, y, "cv=1"),
    ({"max_scored_rows": 1}, X, y, "max_scored_rows=1 takes rows with a weight from one fold"),
    ({"cv": [([], np.arange(400))]}, X, y, "cv has one test set: use 2 or more"),
    ({"cv": 300}, X, y, "cv=300 folds are more than"),
    ({"cv": None}, X, y, "needs out-of-fold scores"),
    ({"merge": "sum"}, X, y, "merge='sum'"),
    ({"scoring": "roc"}, X, y, "scoring='roc'"),
    ({"ridge": -1}, X, y, "ridge=-1"),
    ({"ridge": 1, "damping": 1}, X, y, "two cures"),
    ({"kernel": "sne"}, X, y, "is not a Kernel"),
    ({"landmarks": "best"}, X, y, "landmarks='best'"),
    ({"landmarks": np.array([400])}, X, y, "row numbers from 0 to 399"),
    ({}, X, np.zeros(400), "only one class"),
    ({}, X, y[:-1], "y has 399 labels and X has 400 rows"),
    ({}, X, np.where(y == 1, np.nan, 0.0), "contains NaN"),
    ({}, LAZY_NAN, y, "NaN, first in row 300, column 1"),
    ({}, da.from_array(nan_at(3, 0, np.inf), chunks=100), y, "infinity, first in row 3, column 0"),
    ({}, da.from_array(nan_at(3, 0, 1e25).astype("f4"), chunks=100), y, "too large to be squared, first in row 3"),
    ({}, da.zeros((0, 3)), [], "at least one row"),
    ({}, zarr.create_array({}, data=np.array([["a", "b"]] * 400, dtype="U1")), y, "must hold numbers"),
])  # fmt: skip
def test_bad_input_is_one_sentence(change, data, labels, message):
    with pytest.raises(InputError, match=message) as caught:
        AsKLSClassifier(**SMALL | change).fit(data, labels)
    assert "\n" not in str(caught.value)


def test_bad_input_at_predict():
    model = AsKLSClassifier(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but AsKLSClassifier is expecting 2"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict(da.zeros((2, 3)))
    with pytest.raises(InputError, match="NaN, first in row 300"):
        model.decision_function(LAZY_NAN).compute(scheduler="synchronous")


def test_a_plan_that_does_not_fit_names_one_that_does():
    with pytest.raises(BudgetError, match=r"n_landmarks=40 needs .* use") as caught:
        AsKLSClassifier(**SMALL | {"memory": "8MiB"}).fit(np.zeros((400, 2000)), y)
    assert "budget" in str(caught.value)
    with pytest.raises(BudgetError, match=r"use n_landmarks=\d+ or less"):
        AsKLSClassifier(**SMALL | {"memory": "300MiB", "n_landmarks": 4000}).fit(
            np.zeros((5000, 2)), np.arange(5000) % 2
        )


def test_model_stores_of_other_kinds_are_refused(tmp_path):
    with store.create(tmp_path / "p.zarr", "predictions"):
        pass
    with pytest.raises(StoreError, match="is a predictions store, where a model or an embedding is needed"):
        ask_dask.load(tmp_path / "p.zarr")
    with pytest.raises(StoreError, match="no store at"):
        ask_dask.load(tmp_path / "none.zarr")
    with pytest.raises(StoreError, match="not a store that ask-dask wrote"):
        ask_dask.load(tmp_path)
    model = AsKLSClassifier(**SMALL).fit(X, y)
    model.save(tmp_path / "m.zarr")
    with pytest.raises(StoreError, match="exists already"):
        model.save(tmp_path / "m.zarr")
    model.save(tmp_path / "m.zarr", overwrite=True)
    about, own = tmp_path / "m.zarr" / "zarr.json", store.VERSIONS["model"]
    about.write_text(about.read_text().replace(f'"version": {own}', '"version": 99'))
    with pytest.raises(StoreError, match="version 99"):
        ask_dask.load(tmp_path / "m.zarr")

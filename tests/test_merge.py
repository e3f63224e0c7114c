"""Merging f_s and f_t: robust regressions, and one rule for classes in every method, score and store."""

import dask.array as da
import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score, log_loss, r2_score, recall_score, roc_auc_score

import ask_dask
from ask_dask import AsKLSClassifier, AsKLSRegressor, compute, store
from ask_dask.errors import StoreError
from ask_dask.fit.merge import METHODS, RIDGE, Bend, Merger, combine
from ask_dask.kernels import RBF, SNE, StudentT

rng = np.random.default_rng(17)
F = rng.normal(size=(200, 6)) + np.repeat(rng.normal(size=(200, 3)), 2, axis=1)[:, [0, 2, 4, 1, 3, 5]]
SIGNS = np.where(F[:, :3] + 2 * F[:, 3:] + rng.normal(size=(200, 3)) > 2, 1, -1)
X = rng.normal(size=(400, 3))
RARE = (X[:, 0] + rng.normal(size=400) > 1.6).astype(int)  # one in eight: the mean of f_s and f_t is far from log-odds
FOUR = np.digitize(X[:, 0] + 0.5 * rng.normal(size=400), [-1.0, 0.0, 1.6])
TASKS = {"two": RARE, "four": FOUR, "labels": (X + 0.5 * rng.normal(size=X.shape) > 1).astype(int)}


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Set once for a whole test, and not by each of many small steps."""
    with compute.one_blas_thread():
        yield


# ------------------------------------------------------------------------------------------ the regression
def best(own, y, model, loss, widths, weights):
    """The predictions of the width that fits best; (features -> bent) written out once more."""
    lower, centre, upper = np.quantile(own, [0.25, 0.5, 0.75], axis=0, method="inverted_cdf", weights=weights)
    found = []
    deviation = (upper - lower) / 1.349
    for width in widths:
        if width is None:
            low, high = np.maximum(own.min(0), centre - 3 * deviation), np.minimum(own.max(0), centre + 3 * deviation)
            bent = np.clip(own, low, high)
            bent += 0.01 * (high - low) * np.arcsinh((own - bent) / (high - low))
        elif np.isinf(width):
            bent = own
        else:
            bent = centre + width * deviation * np.arcsinh((own - centre) / (width * deviation))
        mean = np.average(bent, axis=0, weights=weights)
        bent = (bent - mean) / np.sqrt(np.average((bent - mean) ** 2, axis=0, weights=weights))
        fitted = model.fit(bent, y, weights)
        value = fitted.predict(bent) if isinstance(model, Ridge) else fitted.decision_function(bent)
        found.append((loss(y, value), value))
    return min(found, key=lambda one: one[0])[1]


@pytest.mark.parametrize(("method", "features"), [
    ("stack", lambda f: f), ("balanced", lambda f: f), ("source", lambda f: f[:, :1]), ("target", lambda f: f[:, 1:]),
    ("mean", lambda f: f.mean(1, keepdims=True))])  # fmt: skip
@pytest.mark.parametrize("weights", [None, rng.uniform(0.2, 2.0, 200)], ids=["plain", "weighted"])
def test_a_merger_is_a_regression_per_output(method, features, weights):
    task = "classification" if method in ("stack", "balanced") else "multilabel"  # else one of all classes
    merger = Merger.fit(method, F, SIGNS, task, weights)
    values = Merger.fit(method, F, F[:, :3] + 2 * F[:, 3:] + 1, "regression", weights)
    rows = np.ones(200) if weights is None else weights
    for k in range(3):
        own, positive = features(F[:, [k, 3 + k]]), SIGNS[:, k] > 0
        sides = np.array([rows[~positive].sum(), rows[positive].sum()])
        each = rows * ((rows.sum() / (2 * sides))[positive.astype(int)] if method == "balanced" else 1)
        model = LogisticRegression(C=2.0 if method == "mean" else 1.0, tol=1e-12, solver="newton-cholesky")

        class Weighted:
            """Features are standardised by the rows' weights, and fitted by those of the balanced sides too."""

            def fit(self, bent, y, _, model=model, each=each):
                return model.fit(bent, y, each)

        def loss(y, value, each=each):
            return log_loss(y, expit(value), sample_weight=each)

        expected = best(
            own, positive, Weighted(), loss, (16.0, 2.0) if method == "balanced" else (16.0, 2.0, 0.3, None), weights
        )
        np.testing.assert_allclose(merger.value(F)[:, k], expected, atol=1e-6)
        y = F[:, k] + 2 * F[:, 3 + k] + 1
        if method in ("stack", "balanced"):
            ridge = Ridge(alpha=RIDGE * rows.sum())
            error = lambda y, value: rows @ (y - value) ** 2  # noqa: E731
            expected = best(own, y, ridge, error, (np.inf, 16.0, 2.0, 0.3, None), weights)
            np.testing.assert_allclose(values.value(F)[:, k], expected, atol=1e-8)
        else:
            np.testing.assert_allclose(values.value(F)[:, k], own[:, 0], atol=1e-12)
    if task == "classification":
        np.testing.assert_allclose(merger.probability(F).sum(1), 1)
    assert values.probability(F) is None


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("method", METHODS)
def test_a_weight_of_a_merger_is_the_number_of_times_a_row_counts(task, method):
    counts = np.random.default_rng(3).integers(0, 4, 200)
    y = SIGNS if task == "classification" else F[:, 3:]
    weighted = Merger.fit(method, F, y, task, counts.astype(float))
    repeated = Merger.fit(method, np.repeat(F, counts, axis=0), np.repeat(y, counts, axis=0), task)
    np.testing.assert_allclose(weighted.value(10 * F), repeated.value(10 * F), rtol=1e-6)


@pytest.mark.parametrize("width", [0.3, 2.0, np.inf])
def test_a_bend_keeps_the_order_and_ends_near_its_range(width):
    bend = Bend(np.array(-40.0), np.array(90.0), np.array(1.0), np.array(width))
    found = bend(np.concatenate([[-1e9, -1e3], np.linspace(-40, 90, 1000), [1e3, 1e9]]))
    assert (np.diff(found) > 0).all() and bend(np.array(1.0)) == 1
    assert found[0] > found[2] - 0.2 * (found[-3] - found[2]) and found[-1] < found[-3] + 0.2 * (found[-3] - found[2])
    assert np.isfinite(
        Bend(np.array(1.0), np.array(1.0), np.array(1.0), np.array(width))(np.array([-1e300, 1e300]))
    ).all()
    np.testing.assert_array_equal(Bend.linear((2,))(np.array([-1e300, 3.0])), [-1e300, 3.0])


@pytest.mark.parametrize("tail", [1.0, 1.5])
def test_heavy_tails_do_not_collapse_probabilities(tail):
    """Log-odds that level off in the tails of the scores, as Student-t kernels have it."""
    random = np.random.default_rng(0)
    t = random.standard_t(tail, 6000)
    odds, f = 2 * np.tanh(t) - 1, np.column_stack([t, 3 * t + 0.1 * random.standard_t(tail, 6000)])
    y = random.random(6000) < expit(odds)
    for method in ("stack", "mean", "source", "target"):
        p = Merger.fit(method, f[:3000], np.where(y[:3000, None], 1, -1)).probability(f[3000:])
        assert log_loss(y[3000:], p) < log_loss(y[3000:], expit(odds[3000:])) + 0.02
        assert p[:, 1].min() < 0.1 and p[:, 1].max() > 0.6


def test_heavy_tails_do_not_spoil_values():
    random = np.random.default_rng(0)
    t = random.normal(size=2000)
    y, f = t + 0.3 * random.normal(size=2000), t[:, None] + 0.3 * random.normal(size=(2000, 2))
    merged = {}
    for name, far in (("plain", 0 * f), ("cauchy", 0.1 * random.standard_t(1, f.shape)), ("outliers", 0 * f)):
        given = f + far
        given[::200] *= 1e6 if name == "outliers" else 1
        merger = Merger.fit("stack", given[:1000], y[:1000, None], "regression")
        merged[name] = r2_score(y[1000:], merger.value(given[1000:]))
    assert merged["plain"] > 0.85 and merged["cauchy"] > 0.7 and merged["outliers"] > 0.5


def test_rare_large_values_are_kept():
    """Most scores are one value but for rounding: what robust deviations call an outlier is all there is to learn."""
    random = np.random.default_rng(0)
    z = np.where(random.random(2000) < 0.85, 0, random.exponential(3, 2000))
    f, y = z[:, None] + 1e-12 * random.normal(size=(2000, 2)), z + 0.3 * random.normal(size=2000)
    merger = Merger.fit("stack", f[:1000], y[:1000, None], "regression")
    assert r2_score(y[1000:], merger.value(f[1000:])) > 0.95
    p = Merger.fit("stack", f[:1000], np.where(z[:1000, None] > 0, 1, -1)).probability(f[1000:])
    assert roc_auc_score(z[1000:] > 0, p[:, 1]) > 0.999 and log_loss(z[1000:] > 0, p) < 0.1


def test_a_constant_score_and_one_row_have_an_answer():
    f = np.zeros((6, 2))
    y = np.array([1, -1, 1, 1, -1, 1])[:, None]
    np.testing.assert_allclose(Merger.fit("stack", f, y).probability(f)[:, 1], 4 / 6, atol=1e-6)
    np.testing.assert_allclose(Merger.fit("stack", f, 1.0 * y, "regression").value(f), 1 / 3)
    assert Merger.fit("stack", f[:1], y[:1] * 5.0, "regression").value(f[:1]) == 5


@pytest.mark.parametrize("n_landmarks", [None, 120])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_of_new_rows_stay_near_those_of_held_out_rows(n_landmarks, dtype):
    """f_s of a row that is itself a normaliser's target is nearly constant, and far from that on new rows."""
    random = np.random.default_rng(1)
    points, new = (random.normal(size=(n, 13)).astype(dtype) for n in (120, 300))
    y, yn = (250 + 50 * random.normal(size=n) for n in (120, 300))
    model = AsKLSRegressor(SNE(0.9), 1e5, n_landmarks=n_landmarks, random_state=0).fit(points, y)
    assert model.score(new, yn) > model.held_out_["r2"] - 0.3
    assert y.min() < model.predict(new).min() and model.predict(new).max() < y.max()
    labels = AsKLSClassifier(SNE(0.9), 1e5, n_landmarks=n_landmarks, random_state=0).fit(points, y > 250)
    assert log_loss(yn > 250, labels.predict_proba(new)) < labels.held_out_["log_loss"] + 0.1


# ------------------------------------------------------------------------------------------ symmetric kernels
@pytest.mark.parametrize("change", [
    {"kernel": RBF(2.0)}, {"kernel": RBF(2.0) + RBF(1.0)}, {"kernel": SNE(1.0), "symmetrise": "mean"},
    {"kernel": RBF(2.0), "n_landmarks": None}, {"kernel": RBF(2.0), "n_landmarks": None, "solver": "minres"},
    {"kernel": RBF(2.0), "n_landmarks": 60, "landmarks": (np.arange(60), np.arange(60))}])  # fmt: skip
@pytest.mark.parametrize("estimator", [AsKLSClassifier, AsKLSRegressor])
def test_of_a_symmetric_kernel_the_mean_is_stacked(change, estimator, tmp_path):
    y = RARE if estimator is AsKLSClassifier else np.column_stack([np.sin(X[:, 0]), X[:, 1]])
    for dtype in (np.float32, np.float64):
        model = estimator(**{"gamma": 30.0, "n_landmarks": 60, "cv": 3, "random_state": 0} | change)
        model.fit(X.astype(dtype), y)
        np.testing.assert_array_equal(model.merger_.weights[0], model.merger_.weights[1])
        assert model.merger_.shared and np.abs(model.merger_.weights).max() < 20
    model.save(tmp_path / "m.zarr")
    np.testing.assert_array_equal(ask_dask.load(tmp_path / "m.zarr").predict(X), model.predict(X))


def test_of_other_landmarks_both_are_stacked():
    apart = (np.arange(60), np.arange(60, 120))
    for change in ({"kernel": RBF(2.0), "landmarks": apart}, {"kernel": StudentT()}):
        model = AsKLSRegressor(gamma=1.0, n_landmarks=60, cv=3, random_state=0, **change).fit(X, X[:, 0])
        assert not model.merger_.shared and model.merger_.weights[0, 0] != model.merger_.weights[1, 0]


@pytest.mark.parametrize("difference", [1e-15, 1e-9, 1e-6])
def test_a_difference_that_is_rounding_gets_no_large_weight(difference):
    random = np.random.default_rng(0)
    t = random.normal(size=500)
    f = t[:, None] + difference * random.normal(size=(500, 2))
    for task, y in (("regression", t + random.normal(size=500)), ("classification", np.where(t > 0, 1, -1))):
        assert np.abs(Merger.fit("stack", f, y[:, None], task).weights).max() < 10


# ------------------------------------------------------------------------------------------ one rule
def chosen(model, found):
    """Classes or labels as probabilities say."""
    return (found > 0.5).astype(int) if model.task_ == "multilabel" else model.classes_[found.argmax(1)]


@pytest.mark.parametrize("merge", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_what_is_predicted_is_most_probable_and_what_is_scored(merge, task):
    y, new = TASKS[task], np.random.default_rng(5).normal(size=(3000, 3))
    for dtype in (np.float32, np.float64):
        params = {"kernel": SNE(0.4), "gamma": 0.05, "n_landmarks": 50, "cv": 3, "random_state": 0}
        model = AsKLSClassifier(**params, merge=merge, scoring="accuracy").fit(X.astype(dtype), y)
        for points in (new.astype(dtype), da.from_array(new.astype(dtype), chunks=(1000, 3))):
            predicted, score = np.asarray(model.predict(points)), np.asarray(model.decision_function(points))
            np.testing.assert_array_equal(predicted, chosen(model, np.asarray(model.predict_proba(points))))
            many = task == "four"
            np.testing.assert_array_equal(predicted, model.classes_[score.argmax(1)] if many else (score > 0))
        assert model.held_out_["accuracy"] == pytest.approx(model.cv_results_["mean_test_accuracy"][0], abs=0.01)


@pytest.mark.parametrize("task", TASKS)
def test_without_folds_the_merged_score_decides(task):
    y = TASKS[task]
    for merge in ("mean", "source", "target"):
        model = AsKLSClassifier(SNE(0.4), 0.05, 50, cv=None, merge=merge, random_state=0).fit(X, y)
        score, f = model.decision_function(X), model.discriminants(X)
        q = model.n_outputs_
        sides = {"source": f[:, :q], "target": f[:, q:], "mean": (f[:, :q] + f[:, q:]) / 2}
        np.testing.assert_array_equal(score.reshape(400, q), sides[merge])
        np.testing.assert_array_equal(model.predict(X), score.argmax(1) if task == "four" else (score > 0))


@pytest.mark.parametrize("merge", ["mean", "source", "target"])
def test_values_that_are_not_stacked_are_raw(merge):
    params = {"kernel": SNE(0.4), "gamma": 3.0, "n_landmarks": 50, "cv": 3, "random_state": 0}
    model = AsKLSRegressor(**params, merge=merge).fit(X, X[:, 0])
    f = model.discriminants(5 * X)
    expected = {"source": f[:, 0], "target": f[:, 1], "mean": (f[:, 0] + f[:, 1]) / 2}[merge]
    np.testing.assert_allclose(model.predict(5 * X), expected, rtol=1e-12)


VALUES = [[-800.0, -900.0, -750.0], [-1e6, -1e5, -1e6], [20.0, 40.0, 45.0], [800.0, 700.0, 801.0], [1e-9, 2e-9, 0.0],
          [-1.0, -1.0, -1.0 + 1e-12]]  # fmt: skip


@pytest.mark.parametrize("values", VALUES)
def test_probabilities_that_underflow_or_round_to_equal_ones_agree(values):
    f = np.hstack([np.array([values]), np.zeros((1, 3))])
    merger = Merger("source", np.array([[1.0] * 3, [0.0] * 3]), np.zeros(3), Bend.linear((2, 3)))
    p = merger.probability(f)
    assert p.sum() == pytest.approx(1, abs=1e-6) and (p >= 0).all()
    assert p.argmax() == p.astype(np.float32).argmax() == np.argmax(values)
    labels = Merger("source", merger.weights, merger.intercepts, merger.bend, task="multilabel").probability(f)
    for rounded in (labels, labels.astype(np.float32)):
        np.testing.assert_array_equal(rounded[0] > 0.5, np.array(values) > 0)
    for value in (*values, -1e-300, 1e-300, 0.0):
        two = Merger("source", np.array([[1.0], [0.0]]), np.zeros(1), Bend.linear((2, 1)))
        p = two.probability(np.array([[value, 0.0]]))
        assert p.argmax() == p.astype(np.float32).argmax() == (value > 0)


def test_balanced_merging_chooses_rare_classes():
    sizes = {"n_samples": [300, 30, 20], "centers": [[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]]}
    points, labels = make_blobs(**sizes, random_state=0)
    params = {"kernel": SNE(1.5), "gamma": 3.0, "n_landmarks": 40, "cv": 3, "random_state": 0}
    scores = {}
    for merge in ("stack", "balanced"):
        model = AsKLSClassifier(**params, merge=merge).fit(points, labels)
        scores[merge] = recall_score(labels, model.predict(points), average=None)
        np.testing.assert_allclose(model.predict_proba(points).sum(1), 1)
        assert roc_auc_score(labels, model.predict_proba(points), multi_class="ovr") > 0.8
    assert (scores["balanced"][1:] > scores["stack"][1:] + 0.2).all()
    assert scores["balanced"].mean() > scores["stack"].mean() + 0.1


# ------------------------------------------------------------------------------------------ stores
@pytest.mark.parametrize("merge", METHODS)
@pytest.mark.parametrize("task", ["two", "four"])
def test_a_store_of_predictions_and_its_score_follow_predict(tmp_path, merge, task):
    from ask_dask.score import score_predictions
    from ask_dask.steps.prediction import write_predictions

    y, weight = TASKS[task], np.random.default_rng(2).uniform(0, 3, 400)
    weight[:50] = 0
    with store.create(tmp_path / "d.zarr", "dataset") as group:
        store.describe(group, fingerprint="d")
        for name, values in (("X", X.astype(np.float32)), ("y", y), ("weight", weight)):
            store.write_array(group, name, values)
    data = store.open_store(tmp_path / "d.zarr")
    params = {"kernel": SNE(0.4), "gamma": 0.05, "n_landmarks": 50, "cv": 3, "random_state": 0}
    model = AsKLSClassifier(**params, merge=merge).fit(data["X"], y, weight)
    with store.create(tmp_path / "p.zarr", "predictions") as group:
        write_predictions(model, data, group)
        store.describe(group, classes=model.classes_.tolist(), data_fingerprint="d", task=model.task_)
    predictions, predicted = store.open_store(tmp_path / "p.zarr"), model.predict(X.astype(np.float32))
    np.testing.assert_array_equal(model.classes_[predictions["probability"][:].argmax(1)], predicted)
    for given in (data, None):
        found = score_predictions(predictions, given)
        of_rows = {"sample_weight": weight}
        assert found["n"] == 350
        assert found["accuracy"] == pytest.approx(accuracy_score(y, predicted, **of_rows), rel=1e-6)
        assert found["f1_macro"] == pytest.approx(f1_score(y, predicted, average="macro", **of_rows), rel=1e-6)
        expected = log_loss(y, model.predict_proba(X.astype(np.float32)), **of_rows)
        assert found["log_loss"] == pytest.approx(expected, rel=1e-4)


def test_a_model_of_the_last_version_is_refused(tmp_path):
    """It has no bounds, and its calibrated values decide no class."""
    model = AsKLSClassifier(SNE(1.0), 1.0, n_landmarks=30, cv=3, random_state=0).fit(X, RARE)
    model.save(tmp_path / "m.zarr")
    about = tmp_path / "m.zarr" / "zarr.json"
    about.write_text(about.read_text().replace(f'"version": {store.VERSIONS["model"]}', '"version": 2'))
    with pytest.raises(StoreError, match="a model store of version 2 and this release reads version"):
        ask_dask.load(tmp_path / "m.zarr")


@pytest.mark.parametrize("method", ["mean", "source", "target"])
def test_classes_that_are_not_stacked_keep_the_order_of_their_scores(method):
    """One regression for all classes, of the rows of every class after another."""
    codes = np.random.default_rng(8).integers(0, 4, 500)
    f = np.random.default_rng(9).standard_t(3, size=(500, 8)) + 2 * (codes[:, None] == np.arange(8) % 4)
    Y = np.where(codes[:, None] == np.arange(4), 1.0, -1.0)
    merger, score = Merger.fit(method, f, Y), combine(method, f)
    np.testing.assert_array_equal(merger.probability(f).argmax(1), score.argmax(1))
    column = np.tile(score.T.reshape(-1, 1), 2)
    flat = Merger.fit("source", column, Y.T.reshape(-1, 1)).value(column)
    np.testing.assert_allclose(merger.value(f).T.ravel(), flat.ravel(), atol=0.06)  # the mean has twice the penalty


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_scores_are_turned_round_only_where_that_is_sure(task):
    """A little against the labels out of fold tells of the labels of other folds, not of new rows."""
    random = np.random.default_rng(5)
    y = np.where(random.random(4000) < 0.5, 1.0, -1.0)[:, None]
    noise = random.normal(size=(4000, 2))
    noise -= y @ np.linalg.lstsq(y, noise, rcond=None)[0]
    for against, turned in ((0.03, False), (0.2, True)):
        both = Merger.fit("stack", noise + y * [1.0, -against], y, task)
        assert both.weights[0, 0] > 0.3 and (both.weights[1, 0] < -0.05) == turned
        f = np.repeat(noise[:, :1] - against * y, 2, axis=1)
        alone = Merger.fit("stack", f, y, task, symmetric=True)
        assert (alone.weights[0, 0] < -0.01) == turned
        if not turned:
            assert 0 <= alone.weights[0, 0] < 0.01
            order = np.argsort(f[:, 0])
            assert task == "regression" or (np.diff(alone.value(f)[order, 0]) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [SNE(np.sqrt(52)), RBF(np.sqrt(52))], ids=repr)
def test_held_out_scores_of_noise_are_not_above_one_half(kernel):
    found = []
    for seed in range(80):
        random = np.random.default_rng(19000 + seed)
        X, y = random.normal(size=(2000, 26)), random.integers(0, 2, 2000)
        model = AsKLSClassifier(kernel, 100.0, n_landmarks=100, random_state=seed).fit(X, y)
        found.append([model.held_out_["auroc"], model.cv_results_["mean_test_auroc"][0]])
    deviation = np.std(found, axis=0, ddof=1) / np.sqrt(80)
    assert (np.mean(found, axis=0) - 0.5 < 3 * deviation).all()

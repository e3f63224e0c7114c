"""Kernel ridge, kernel PCA and the Fisher discriminant: against their definitions, scikit-learn, and one another."""

import warnings

import dask
import dask.array as da
import numpy as np
import oracle
import pytest
import scipy.sparse as sp
import zarr
from sklearn.datasets import load_digits, make_moons
from sklearn.decomposition import KernelPCA as DenseKernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_ridge import KernelRidge as DenseKernelRidge
from sklearn.model_selection import KFold, LeaveOneOut
from sklearn.utils.estimator_checks import parametrize_with_checks

from ask_dask import KernelFisherDiscriminant, KernelPCA, KernelRidge, blocks, load, moments, nystrom, solve, store
from ask_dask.errors import BudgetError, CheckpointError, InputError, PrecisionWarning
from ask_dask.kernels import RBF, SNE, Kernel, Laplacian, Linear, Polynomial, Symmetrised
from ask_dask.moments import gathering
from ask_dask.store import Checkpoint, checkpoint

RNG = np.random.default_rng(5)
X = RNG.normal(size=(200, 3))
Y = np.column_stack([np.sin(2 * X[:, 0]) + 50, X[:, 1] * X[:, 2]]) + 0.1 * RNG.normal(size=(200, 2))
CODES = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
NEW = RNG.normal(size=(40, 3))
KERNEL = RBF(2.0)
FEW = {"n_landmarks": 30, "random_state": 0}


def not_expected(estimator):
    reason = "landmarks and folds are drawn, and a row of weight 2 is not two rows of the draw"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [KernelRidge(cv=2), KernelPCA(), KernelFisherDiscriminant(cv=2)], expected_failed_checks=not_expected
)
def test_scikit_learn_conventions(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        check(estimator)


def features(model, rows):
    """Return the features of rows in the source role at a model's landmarks."""
    basis = model.basis_
    maps = nystrom.feature_map(basis.core(model.n_landmarks_), nystrom.resolution(np.float64), basis.symmetric)
    return basis.at.prefix(model.n_landmarks_).source(rows) @ maps.source


# --------------------------------------------------------------------------------------------------------------- ridge
@pytest.mark.parametrize("alpha", [1e-2, 1.0, 100.0])
def test_ridge_with_every_row_a_landmark_is_that_of_scikit_learn(alpha):
    ours = KernelRidge(KERNEL, alpha, None, cv=None, fit_intercept=False).fit(X, Y)
    theirs = DenseKernelRidge(alpha=alpha, kernel="rbf", gamma=0.25).fit(X, Y)
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), atol=1e-6 * np.abs(Y).max())


@pytest.mark.parametrize("weights", [None, RNG.uniform(0, 2, 200)], ids=["unit", "weighted"])
@pytest.mark.parametrize("kernel", [KERNEL, SNE(2.0), Laplacian(3.0)], ids=repr)
def test_ridge_solves_the_normal_equations_of_its_features(kernel, weights):
    model = KernelRidge(kernel, 0.3, cv=None, **FEW).fit(X, Y, weights)
    F = features(model, X)
    w, b = oracle.ridge(F, Y, 0.3, weights)
    np.testing.assert_allclose(model.predict(NEW), features(model, NEW) @ w + b, rtol=1e-8)
    t = np.ones(200) if weights is None else weights
    D = F - np.average(F, axis=0, weights=t)
    inverse = np.linalg.inv((D.T * t) @ D + 0.3 * np.eye(F.shape[1]))
    freedom = 1 + np.trace((D.T * t) @ D @ inverse)
    np.testing.assert_allclose(model.degrees_of_freedom_, freedom, rtol=1e-8)
    squares = t @ (Y - F @ w - b) ** 2
    np.testing.assert_allclose(model.noise_, squares / (t.sum() - freedom), rtol=1e-7)
    around = features(model, NEW) - np.average(F, axis=0, weights=t)
    spread = np.einsum("ij,jk,ik->i", around, inverse, around) + 1 / t.sum()
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(NEW))
    np.testing.assert_allclose(std, np.sqrt(spread[:, None] * model.noise_), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_landmarks", [[20, 50], 150], ids=["few", "most rows"])
def test_held_out_errors_from_moments_are_those_of_the_rows(n_landmarks, dtype):
    """Few landmarks are left out of the rows that are scored; where most rows are, each fold has its own."""
    cv = KFold(4, shuffle=True, random_state=1)
    model = KernelRidge(KERNEL, [0.01, 1.0], n_landmarks, cv=cv, random_state=0).fit(X.astype(dtype), Y)
    rows, landmarks, errors, total = X.astype(dtype), model.basis_.row_points, [], 0
    apart = np.size(n_landmarks) == 1
    for train, test in cv.split(X):
        here, inside = (np.isin(a[:, 0], b[:, 0]) for a, b in ((rows[test], landmarks), (landmarks, rows[test])))
        scored = test if apart else test[~here]
        points = (landmarks[~inside] if apart else landmarks)[: model.n_landmarks_].astype(np.float64)
        maps = nystrom.feature_map(KERNEL(points, points), nystrom.resolution(dtype), True)
        F, G = (KERNEL(rows[some].astype(np.float64), points) @ maps.source for some in (train, scored))
        w, b = oracle.ridge(F, Y[train], model.alpha_)
        errors.append(1 - ((Y[scored] - G @ w - b) ** 2).mean(0) / Y[scored].var(0))
        total += len(scored)
    best = np.argmin(model.cv_results_["rank_test_score"])
    found = [model.cv_results_[f"split{f}_test_r2"][best] for f in range(4)]
    np.testing.assert_allclose(found, np.mean(errors, axis=1), atol=1e-8 if dtype == np.float64 else 5e-3)
    assert model.held_out_["n"] == total and model.held_out_["r2"] == pytest.approx(np.mean(found), abs=0.1)


def test_held_out_rows_are_counted_beyond_those_that_are_scored_one_by_one(monkeypatch):
    monkeypatch.setattr(KernelRidge, "max_scored_rows", 50)
    assert KernelRidge(KERNEL, 1.0, cv=2, **FEW).fit(X, Y).held_out_["n"] == 170


def test_leave_one_out_leaves_out_one_row_at_a_time():
    model = KernelRidge(KERNEL, [1e-3, 0.1, 10.0], cv="loo", **FEW).fit(X, Y)
    rows = np.setdiff1d(np.arange(200), model.row_landmarks_)
    for alpha, found in zip((1e-3, 0.1, 10.0), model.cv_results_["mean_test_loo"], strict=True):
        F, squares = features(model, X), []
        for train, (row,) in LeaveOneOut().split(X):
            if row in rows:
                w, b = oracle.ridge(F[train], Y[train], alpha)
                squares.append((Y[row] - F[row] @ w - b) ** 2)
        assert found == pytest.approx(np.mean(squares), rel=1e-6)
    assert model.alpha_ == (1e-3, 0.1, 10.0)[np.argmin(model.cv_results_["mean_test_loo"])]


def test_generalised_cross_validation_is_its_formula():
    model = KernelRidge(KERNEL, [1e-3, 0.1, 10.0], cv="gcv", **FEW).fit(X, Y[:, 0])
    F, y = features(model, X), (Y[:, 0] - Y[:, 0].mean()) / Y[:, 0].std()
    expected = []
    for alpha in (1e-3, 0.1, 10.0):
        w, b = oracle.ridge(F, y, alpha)
        D = F - F.mean(0)
        freedom = 1 + np.trace(np.linalg.solve(D.T @ D + alpha * np.eye(F.shape[1]), D.T @ D))
        expected.append(200 * ((y - F @ w[:, 0] - b) ** 2).sum() / (200 - freedom) ** 2)
    np.testing.assert_allclose(model.cv_results_["mean_test_gcv"], expected, rtol=1e-7)
    assert model.alpha_ == (1e-3, 0.1, 10.0)[np.argmin(expected)]
    assert sorted(model.cv_results_["rank_test_score"]) == [1, 2, 3]
    assert model.cv_results_["rank_test_score"][np.argmin(expected)] == 1


def test_a_small_alpha_is_warned_of_in_float32_and_the_one_that_is_named_is_not():
    far = (3 * X + 100).astype(np.float32)
    with pytest.warns(
        PrecisionWarning, match=r"alpha=1e-09 is too small for float32 rows.*alpha=\S+ or more"
    ) as caught:
        KernelRidge(RBF(30.0), 1e-9, 100, cv=None, random_state=0).fit(far, Y[:, 1])
    safe = float(str(caught[0].message).split("Use alpha=")[1].split()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        KernelRidge(RBF(30.0), 1.01 * safe, 100, cv=None, random_state=0).fit(far, Y[:, 1])


# ---------------------------------------------------------------------------------------------------------- components
def test_components_with_every_row_a_landmark_are_those_of_scikit_learn():
    ours = KernelPCA(KERNEL, 4, None).fit(X)
    theirs = DenseKernelPCA(4, kernel="rbf", gamma=0.25).fit(X)
    values, scores = oracle.components(KERNEL(X, X), 4)
    np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(scores), atol=1e-8)
    np.testing.assert_allclose(np.abs(ours.transform(NEW)), np.abs(theirs.transform(NEW)), atol=1e-8)
    np.testing.assert_allclose(ours.eigenvalues_, values, rtol=1e-10)
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, values / np.trace(oracle.centred(KERNEL(X, X))), rtol=1e-10
    )


def test_an_anomaly_score_is_what_the_components_leave_of_a_row():
    model = KernelPCA(KERNEL, 3, None).fit(X)
    K, new = KERNEL(X, X), KERNEL(NEW, X)
    distance = 1 - 2 * new.mean(1) + K.mean()
    np.testing.assert_allclose(model.anomaly_score(NEW), distance - (model.transform(NEW) ** 2).sum(1), atol=1e-9)
    assert model.anomaly_score(NEW).max() < model.anomaly_score(np.full((1, 3), 9.0))[0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_captured_variance_of_held_out_rows_is_that_of_the_rows(dtype):
    cv = KFold(4, shuffle=True, random_state=1)
    rows = X.astype(dtype)
    model = KernelPCA(KERNEL, 5, [20, 40], cv=cv, random_state=0).fit(rows)
    points = model.basis_.row_points.astype(np.float64)[: model.n_landmarks_]
    maps = nystrom.feature_map(KERNEL(points, points), nystrom.resolution(dtype), True)
    best = np.argmin(model.cv_results_["rank_test_score"])
    for fold, (train, test) in enumerate(cv.split(X)):
        scored = test[~np.isin(rows[test][:, 0], model.basis_.row_points[:, 0])]
        F, G = (KERNEL(rows[some].astype(np.float64), points) @ maps.source for some in (train, scored))
        mean = F.mean(0)
        V = np.linalg.svd(F - mean, full_matrices=False)[2][:5].T
        total = (1 - 2 * G @ mean + mean @ mean).sum()
        expected = (((G - mean) @ V) ** 2).sum() / total
        found = model.cv_results_[f"split{fold}_test_captured"][best]
        assert found == pytest.approx(expected, abs=1e-8 if dtype == np.float64 else 1e-4)


@pytest.mark.parametrize("kernel", [KERNEL, Polynomial(degree=2)], ids=repr)
def test_points_are_found_again_from_their_scores(kernel):
    model = KernelPCA(kernel, 9, None).fit(X)
    found = model.inverse_transform(model.transform(X[:50]))
    assert np.abs(found - X[:50]).mean() < (0.15 if kernel is KERNEL else 0.5) * np.abs(X).mean()


def test_components_beyond_the_precision_are_left_out():
    model = KernelPCA(Linear(), 10, None).fit(X.astype(np.float32))
    assert model.n_components_ == 3 == model.transform(X).shape[1]


KERNELS = [RBF(1.5), Laplacian(2.0), Linear(), Polynomial(2, 0.5), 2 * RBF(1.0) + Linear() * RBF(3.0)]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_a_diagonal_is_that_of_the_kernel_matrix(kernel, form):
    expected = np.diag(kernel(X, X))
    np.testing.assert_allclose(kernel.diagonal(form(X)), expected, rtol=1e-12)
    np.testing.assert_allclose(Kernel.diagonal(kernel, form(X)), expected, rtol=1e-12)  # of one without a shorter way


def test_a_kernel_that_depends_on_all_points_has_no_diagonal():
    with pytest.raises(InputError, match="SNE depends on all points"):
        SNE(1.0).diagonal(X)


# -------------------------------------------------------------------------------------------------------------- fisher
@pytest.mark.parametrize("kernel", [KERNEL, SNE(2.0)], ids=repr)
@pytest.mark.parametrize("codes", [CODES, CODES > 1], ids=["three classes", "two classes"])
def test_fisher_directions_solve_the_generalised_eigenproblem(kernel, codes):
    model = KernelFisherDiscriminant(kernel, 0.5, cv=None, **FEW).fit(X, codes)
    F = features(model, X)
    W = oracle.fisher(F, codes, 0.5)
    expected, found = (F - F.mean(0)) @ W, model.transform(X)
    signs = np.sign((expected * found).sum(0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-7)


@pytest.mark.parametrize("codes", [CODES, CODES > 1], ids=["three classes", "two classes"])
def test_classes_are_those_of_normal_distributions_in_the_features(codes):
    """With a penalty mu the covariance of the classes is (S_W + mu I) / N, and the priors are their frequencies."""
    model = KernelFisherDiscriminant(KERNEL, 2.0, cv=None, **FEW).fit(X, codes)
    F, labels = features(model, X), np.unique(codes)
    means = np.stack([F[codes == label].mean(0) for label in labels])
    shares = np.array([(codes == label).mean() for label in labels])
    covariance = sum((F[codes == c] - m).T @ (F[codes == c] - m) for c, m in zip(labels, means, strict=True))
    inverse = np.linalg.inv((covariance + 2.0 * np.eye(F.shape[1])) / len(F))
    odds = F @ inverse @ means.T - np.einsum("cj,jk,ck->c", means, inverse, means) / 2 + np.log(shares)
    expected = np.exp(odds - odds.max(1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(X), expected / expected.sum(1, keepdims=True), atol=1e-7)
    np.testing.assert_array_equal(model.predict(X), labels[odds.argmax(1)])


def test_a_linear_kernel_is_linear_discriminant_analysis():
    model = KernelFisherDiscriminant(Linear(), 1e-9, None, cv=None).fit(X, CODES)
    theirs = LinearDiscriminantAnalysis().fit(X, CODES)
    assert (model.predict(NEW) == theirs.predict(NEW)).mean() > 0.97


def test_fisher_learns_classes_and_calibrates_their_probabilities():
    points, labels = make_moons(400, noise=0.25, random_state=0)
    names = np.array(["moon", "sun"])[labels]
    model = KernelFisherDiscriminant(RBF(0.7), n_landmarks=[20, 60], random_state=0).fit(points[:300], names[:300])
    assert model.score(points[300:], names[300:]) > 0.9 and model.held_out_["log_loss"] < 0.25
    p = model.predict_proba(points[300:])
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(model.classes_[p.argmax(1)], model.predict(points[300:]))
    np.testing.assert_array_equal(model.decision_function(points[300:]) > 0, model.predict(points[300:]) == "sun")


def test_ten_classes():
    digits, labels = load_digits(return_X_y=True)
    model = KernelFisherDiscriminant(RBF(30.0), n_landmarks=300, random_state=0, scoring="accuracy")
    assert model.fit(digits[:1200], labels[:1200]).score(digits[1200:], labels[1200:]) > 0.93


# ------------------------------------------------------------------------------------------------------- what all share
METHODS = [
    KernelRidge(KERNEL, [0.1, 1.0], [20, 30], cv=3, random_state=0),
    KernelPCA(KERNEL, 3, [20, 30], cv=3, random_state=0),
    KernelFisherDiscriminant(KERNEL, [0.1, 1.0], [20, 30], cv=3, random_state=0),
]


def labels_of(model):
    return CODES if isinstance(model, KernelFisherDiscriminant) else Y


def answers(model, rows):
    found = model.transform(rows) if hasattr(model, "transform") else model.predict(rows, return_std=True)
    return np.column_stack([np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))])


@pytest.fixture(params=METHODS, ids=lambda model: type(model).__name__)
def method(request):
    return type(request.param)(**request.param.get_params(deep=False))


@pytest.mark.parametrize("form", [lambda rows: da.from_array(rows, (37, 3)), sp.csr_matrix], ids=["dask", "sparse"])
def test_other_inputs_give_the_same_model(method, form):
    whole = answers(method.fit(X, labels_of(method)), NEW)
    other = method.fit(form(X), labels_of(method))
    np.testing.assert_allclose(answers(other, NEW), whole, atol=1e-9 * np.abs(whole).max())
    np.testing.assert_allclose(answers(other, form(NEW)), whole, atol=1e-9 * np.abs(whole).max())
    lazy = other.transform(form(NEW)) if hasattr(other, "transform") else other.predict(form(NEW))
    assert isinstance(lazy, np.ndarray if sp.issparse(form(NEW)) else da.Array)


def test_a_store_gives_the_model_back(method, tmp_path):
    method.fit(X, labels_of(method)).save(tmp_path / "m.zarr", note="kept")
    again = load(tmp_path / "m.zarr")
    np.testing.assert_array_equal(answers(again, NEW), answers(method, NEW))
    assert again.held_out_ == method.held_out_ and again.get_params()["n_landmarks"] == [20, 30]
    for name, values in method.cv_results_.items():
        np.testing.assert_array_equal(again.cv_results_[name], values)
    missing = {name for name in vars(method) if name not in vars(again)}
    assert missing <= {"steps_", "_chosen"}, missing


def test_a_checkpoint_of_another_method_is_refused(tmp_path):
    path = tmp_path / "kept.zarr"
    Checkpoint(path, "of another").offer(lambda: {"a": np.ones(1)}, last=True, done=0, step="moments", unit="shards")
    with pytest.raises(CheckpointError):
        KernelRidge(KERNEL, checkpoint=path, **FEW).fit(da.from_array(X, (50, 3)), Y)


def test_an_interrupted_fit_goes_on(method, tmp_path, monkeypatch):
    rows = zarr.create_array(tmp_path / "x", shape=X.shape, chunks=(20, 3), dtype=X.dtype, compressors=store.QUICK)
    rows[:] = X
    monkeypatch.setattr(blocks, "most_rows", lambda X: 20)
    monkeypatch.setattr(checkpoint, "SECONDS", 0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    calls, of_shards = [], gathering._of_shards

    def counted(*given):
        calls.append(given[-1])
        if len(calls) == 5:
            raise KeyboardInterrupt
        return of_shards(*given)

    monkeypatch.setattr(gathering, "_of_shards", counted)
    method.set_params(checkpoint=tmp_path / "kept.zarr")
    with pytest.raises(KeyboardInterrupt), dask.config.set(scheduler="synchronous"):
        method.fit(rows, labels_of(method))
    again = answers(method.fit(rows, labels_of(method)), NEW)
    assert sorted(set(calls)) == list(range(0, 200, 20)) and len(calls) == 11  # the fifth twice
    whole = answers(method.set_params(checkpoint=None).fit(rows, labels_of(method)), NEW)
    np.testing.assert_array_equal(again, whole)


def test_a_plan_that_does_not_fit_is_refused(method):
    with pytest.raises(BudgetError, match="n_landmarks"):
        method.set_params(memory="100kB").fit(X, labels_of(method))


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (KernelRidge(alpha=0.0), "alpha=0.0 must be a finite number above 0"),
        (KernelRidge(alpha=[]), "alpha is an empty list"),
        (KernelRidge(cv="lou"), "cv='lou' must be one of gcv, loo"),
        (KernelRidge(scoring="mae"), "scoring='mae' must be one of r2, rmse"),
        (KernelRidge(cv=None), "needs cv"),
        (KernelRidge(kernel="rbf"), "is not a Kernel"),
        (KernelPCA(n_components=0), "n_components=0 must be a whole number"),
        (KernelPCA(SNE(1.0)), "is not a symmetric function of two points"),
        (KernelPCA(Symmetrised(SNE(1.0))), "is not a symmetric function of two points"),
        (KernelFisherDiscriminant(mu=-1.0), "mu=-1.0 must be a finite number above 0"),
        (KernelFisherDiscriminant(scoring="r2"), "scoring='r2' must be one of auroc"),
        (KernelFisherDiscriminant(class_weight="heavy"), "class_weight"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(model, says):
    with pytest.raises(InputError, match=says):
        model.fit(X, labels_of(model))


def test_weights_of_cells_add_up_to_a_training_set():
    at, rows = KERNEL.at(*2 * [X[:8]], 200), moments.Rows(Y, np.asarray, np.arange(200) % 3)
    found = moments.of_rows(X, rows, at, 3, diagonal=KERNEL.diagonal)
    half = found.combine(np.array([1.0, 0.0, 0.5]))
    weights = np.choose(np.arange(200) % 3, [1.0, 0.0, 0.5])
    whole = moments.of_rows(
        X, moments.Rows(Y, np.asarray, np.zeros(200, int), weights), at, 1, diagonal=KERNEL.diagonal
    )
    for one, two in zip(half.arrays(0), whole.arrays(0), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10)
    assert found.kk.tolist() == [67, 67, 66]
    some = np.array([1, 4, 6])
    picked = moments.of_rows(X, rows, KERNEL.at(*2 * [X[some]], 200), 3)
    np.testing.assert_allclose(found.pick(some).sides[0].gram, picked.sides[0].gram, rtol=1e-9, atol=1e-9)


def test_moments_in_other_frames_are_not_added():
    rows = moments.Rows(Y, np.asarray, np.zeros(200, int))
    one, two = (kernel.at(*2 * [X[:8]], 200) for kernel in (KERNEL, RBF(3.0)))
    first, second = (moments.of_rows(X, rows, at, 1, moments.frames_of(at, X[:50])) for at in (one, two))
    with pytest.raises(ValueError, match="different frames"):
        first + second


def test_a_method_says_what_it_needs():
    assert solve.Components((2,)).wants.diagonal and not solve.Ridge((1.0,)).wants.diagonal
    assert solve.AsKLSSolve((1.0,)).wants.target and not solve.Fisher((1.0,)).wants.target
    with pytest.raises(NotImplementedError, match="needs the rows themselves"):
        solve.Fisher((1.0,)).held_out(None, None)

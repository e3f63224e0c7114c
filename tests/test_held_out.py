"""Held-out scores are those of new rows: own terms, folds in normalisers, landmarks, resonances that are not chosen."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from ask_dask import AsKLSClassifier, AsKLSRegressor
from ask_dask.errors import InputError, ResonanceWarning
from ask_dask.fit.folds import shuffled
from ask_dask.fit.selection import sampled_rows
from ask_dask.kernels import RBF, SNE, ConditionalProbability, LocalRBF, StudentT, Symmetrised

RNG = np.random.default_rng(0)
NOISE, NEW_NOISE = RNG.normal(size=(150, 13)), RNG.normal(size=(400, 13))
VALUES, NEW_VALUES = RNG.normal(size=150), RNG.normal(size=400)
X = RNG.normal(size=(120, 2))
y = np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=120)
WAYS = {
    "dense": {"n_landmarks": None, "solver": "direct"},
    "minres": {"n_landmarks": None, "solver": "minres", "max_iter": 5000},
    "every row a landmark": {"n_landmarks": "auto", "solver": "direct"},
    "most rows landmarks": {"n_landmarks": 110, "solver": "direct"},
    "by passes": {"n_landmarks": "auto", "solver": "minres", "max_iter": 5000},
}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("way", ["dense", "every row a landmark"])
@pytest.mark.parametrize("merge", ["stack", "mean"])
def test_scores_of_a_narrow_normalised_kernel_are_those_of_new_rows(way, merge):
    """The own term of a row that is a target outweighs all others in its normaliser; a new row has none."""
    model = AsKLSRegressor(SNE(0.9), 1e5, merge=merge, random_state=0, **WAYS[way]).fit(NOISE, VALUES)
    assert abs(model.held_out_["r2"] - model.score(NEW_NOISE, NEW_VALUES)) < 0.5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "kernel", [SNE(0.5), SNE(0.5, "exact"), StudentT(), LocalRBF(8), Symmetrised(SNE(0.5))], ids=repr
)
def test_a_folds_scores_are_those_of_a_fit_that_never_saw_its_rows(way, kernel):
    n, seed = len(X), 0
    params = {"kernel": kernel, "gamma": 0.7, "merge": "mean", "random_state": seed, "damping": 0.01} | WAYS[way]
    model = AsKLSRegressor(**params, cv=4).fit(X, y)
    folds, landmarks = shuffled(n, 4, seed), model.row_landmarks_
    for fold in range(4):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        # a normaliser that stands for all N targets, estimated from the training rows, has N / n times their sum
        scale = len(train) / n if kernel.relative and not isinstance(kernel, LocalRBF) else 1.0
        given = params | {"gamma": 0.7 * scale, "damping": 0.01 / scale**2}
        if params["n_landmarks"] is not None:
            inside = np.searchsorted(train, landmarks[np.isin(landmarks, train)])
            given |= {"landmarks": inside, "n_landmarks": "auto"}
        alone = AsKLSRegressor(**given, cv=None).fit(X[train], y[train])
        error = np.sqrt(np.mean((alone.predict(X[test]) - y[test]) ** 2))
        assert model.cv_results_[f"split{fold}_test_rmse"][0] == pytest.approx(error, rel=1e-5)


def test_landmarks_are_not_scored_where_enough_other_rows_are():
    model = AsKLSRegressor(RBF(0.5), 1.0, 40, random_state=0).fit(X, y)
    assert model.held_out_["n"] == 80
    exact = AsKLSRegressor(RBF(0.5), 1.0, None, random_state=0).fit(X, y)
    assert exact.held_out_["n"] == 120  # no normaliser: a row without its label is like a new one
    pair = AsKLSRegressor(RBF(0.5), 1.0, landmarks=(np.arange(20), np.arange(10, 30)), random_state=0).fit(X, y)
    assert pair.held_out_["n"] == 90


def test_folds_have_landmarks_of_their_own_where_most_of_a_class_or_of_the_weight_are_landmarks():
    rare, params = (np.arange(120) < 8).astype(int), {"gamma": 1.0, "landmarks": np.arange(10), "random_state": 0}
    of_class = AsKLSClassifier(SNE(0.5), **params).fit(X, rare)
    assert of_class.held_out_["n"] == 120 and of_class.held_out_["auroc"] is not None
    weighted = AsKLSRegressor(SNE(0.5), **params).fit(X, y, (np.arange(120) < 10).astype(float))
    assert weighted.held_out_["n"] == 10


def test_rows_are_sampled_without_some():
    without = np.arange(0, 100, 3)
    for n_rows, n_sampled in ((100, 20), (100, 1000), (100_000, 50)):
        rows = sampled_rows(n_rows, n_sampled, 0, without)
        assert len(rows) == min(n_sampled, n_rows - len(without)) and (np.diff(rows) > 0).all()
        assert not np.isin(rows, without).any() and rows[-1] < n_rows


def test_a_fold_that_holds_every_landmark_is_refused():
    with pytest.raises(
        InputError, match=r"n_landmarks=1: all of these landmarks are in fold \d, .* use more landmarks"
    ):
        AsKLSRegressor(SNE(0.5), 1.0, [1, 100], random_state=0).fit(X, y)


def test_sparse_rows_and_counts_are_left_out_alike():
    counts = RNG.poisson(1.0, size=(90, 12)).astype(float)
    labels = (counts[:, 0] > counts[:, 1]).astype(int)
    params = {"kernel": ConditionalProbability(), "gamma": 1.0, "damping": 0.1, "random_state": 0}
    for n in (None, "auto"):
        dense, sparse = (AsKLSClassifier(**params, n_landmarks=n).fit(convert(counts), labels)
                         for convert in (np.asarray, sp.csr_matrix))  # fmt: skip
        assert dense.held_out_["auroc"] == pytest.approx(sparse.held_out_["auroc"], abs=1e-9)


def near_resonance(gamma, **change):
    random = np.random.default_rng(0)
    points = random.normal(size=(1500, 5))
    labels = np.sin(points[:, 0]) + points[:, 1] * points[:, 2] / 2 + 0.3 * random.normal(size=1500)
    params = {"n_landmarks": 250, "merge": "mean", "random_state": 0} | change
    return AsKLSRegressor(SNE(3.0), gamma, **params).fit(points, labels)


def test_what_a_resonance_ruins_is_told_though_the_gap_is_not_tiny():
    with pytest.warns(ResonanceWarning, match="fitted values .* times as large as y, and predictions of new rows"):
        model = near_resonance(100.0)
    assert model.resonance_.gap > 1e-3 and model.resonance_.amplification > 5
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResonanceWarning)
        assert near_resonance(90.0).resonance_.amplification < 2


def test_a_pair_that_a_resonance_ruins_is_not_chosen_though_its_scores_are_best():
    model = near_resonance([90.0, 100.0])
    assert model.cv_results_["mean_test_r2"].argmax() == 1 and model.cv_results_["sound"].tolist() == [True, False]
    assert model.gamma_ == 90.0
    only = near_resonance([100.0, 100.0])
    assert only.gamma_ == 100.0 and not only.cv_results_["sound"].any()


@pytest.mark.parametrize("way", ["dense", "every row a landmark", "minres", "by passes"])
def test_amplification_is_that_of_the_fitted_values(way):
    model = AsKLSRegressor(SNE(0.5), 3.0, cv=None, merge="mean", random_state=0, **WAYS[way]).fit(X, y)
    f = model.discriminants(X)
    assert model.resonance_.amplification == pytest.approx(f.std(0).max() / y.std(), rel=1e-5)


@pytest.mark.parametrize("way", ["dense", "every row a landmark", "minres", "by passes"])
def test_a_symmetric_kernel_has_no_resonance_and_one_discriminant(way):
    params = {"cv": None, "merge": "mean", "random_state": 0} | WAYS[way]
    sigma = AsKLSRegressor(RBF(0.7), 1.0, **params).fit(X, y).singular_values_
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResonanceWarning)
        model = AsKLSRegressor(RBF(0.7), 1 / sigma[3], **params).fit(X, y)
    f = model.discriminants(X)
    np.testing.assert_allclose(f[:, 0], f[:, 1], atol=1e-13)
    assert model.resonance_.gap == 1 and model.resonance_.warning is None
    n = len(X)
    K = RBF(0.7)(X, X)
    system = np.block([[np.zeros((1, 1)), np.ones((1, n))], [np.ones((n, 1)), K + np.eye(n) * sigma[3]]])
    found = np.linalg.solve(system, np.append(0, y))
    np.testing.assert_allclose(f[:, 0], K @ found[1:] + found[0], atol=1e-5)

"""Resonances, where the system is singular: one answer from every solver; symmetric kernels: the LS-SVM."""

import warnings

import numpy as np
import oracle
import pytest
import scipy.io
from sklearn.model_selection import KFold

from ask_dask import AsKLSClassifier, AsKLSRegressor, compute
from ask_dask.errors import InputError, ResonanceWarning
from ask_dask.kernels import DirectedGraph, Precomputed
from ask_dask.solve import Resonance, resonance

rng = np.random.default_rng(11)
K = rng.normal(size=(70, 70)) @ np.diag(0.7 ** np.arange(70)) @ rng.normal(size=(70, 70)) / 40
Y = rng.normal(size=(70, 3))
NUMBERS = np.arange(70)
ALL_ROWS = {"n_landmarks": None, "cv": None, "merge": "mean"}


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Set once for a whole test, and not by each of many small steps."""
    with compute.one_blas_thread():
        yield


def cora(data, fraction, seed=0):
    found = scipy.io.loadmat(data / "cora" / "askls_authors_cora.mat")
    rows = np.sort(np.random.default_rng(seed).permutation(len(found["G"]))[: int(fraction * len(found["G"]))])
    return found["G"][np.ix_(rows, rows)], found["label"].ravel()[rows]


def isolated_nodes():
    """A graph in which ten nodes have only their self loops: a singular value of exactly 1."""
    edges = np.random.default_rng(4).integers(10, 50, size=(90, 2))
    return DirectedGraph(edges).matrix.toarray(), np.random.default_rng(5).integers(0, 3, int(edges.max()) + 1)


def all_solvers(K, labels, **change):
    params = {"kernel": Precomputed(K), "gamma": 1.0, "cv": None, "merge": "mean", "random_state": 0} | change
    for how in ({"n_landmarks": None}, {"n_landmarks": len(K)}, {"n_landmarks": None, "solver": "minres"},
                {"n_landmarks": None, "solver": "minres", "preconditioner": 0}):  # fmt: skip
        yield AsKLSClassifier(**params | how), np.arange(len(K)), labels


def check_resonance(K, labels, tol, **change):
    answers, sigma = [], np.linalg.svd(centre(K))[1]
    for model, numbers, classes in all_solvers(K, labels, **change):
        with pytest.warns(ResonanceWarning, match="use gamma=") as told:
            model.fit(numbers, classes)
        found = model.resonance_
        assert f"{found.safe_gamma:.4g}" in " ".join(str(each.message) for each in told)  # others may be told as well
        assert (found.treatment, found.condition_number) == ("pseudo-inverse", np.inf)
        assert found.gap < 1e-9 and found.nearest[0] == found.sigma == pytest.approx(1.0, abs=1e-9)
        if model.solver == "direct":  # else only some singular values are known
            gaps = [abs(1 - found.safe_gamma * values).min() for values in (sigma, model.singular_values_)]
            assert gaps[0] == pytest.approx(gaps[1], abs=1e-9) and gaps[0] > 1e-3
        answers.append(model.discriminants(numbers))
    for answer in answers:
        assert np.isfinite(answer).all()
        np.testing.assert_allclose(answer, answers[0], atol=tol)


def centre(K):
    return K - K.mean(0) - K.mean(1)[:, None] + K.mean()


def test_an_exactly_singular_system_has_one_answer_from_every_solver():
    check_resonance(*isolated_nodes(), tol=1e-6)


def test_the_authors_cora_kernel_is_singular_at_gamma_1(data):
    check_resonance(*cora(data, 0.11), tol=1e-5)


@pytest.mark.slow
def test_the_authors_cora_kernel_with_60_per_cent_training_rows(data):
    check_resonance(*cora(data, 0.6), tol=1e-3, max_iter=8000)


@pytest.mark.parametrize("cure", [{"damping": 0.1}, {"ridge": 1.5}])
def test_damping_and_ridge_cure_a_resonance(cure):
    answers = []
    for model, numbers, classes in all_solvers(*isolated_nodes(), **cure):
        if model.solver == "minres" and "ridge" in cure:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(numbers, classes)
        assert model.resonance_.treatment == f"{next(iter(cure))} {next(iter(cure.values())):g}"
        assert np.isfinite(model.resonance_.condition_number)
        answers.append(model.discriminants(numbers))
        np.testing.assert_allclose(answers[-1], answers[0], atol=1e-4)


# --------------------------------------------------------------------------------------------------- symmetric kernels
def ls_svm(K, Y, gamma):
    n = len(K)
    M = np.block([[np.zeros((1, 1)), np.ones((1, n))], [np.ones((n, 1)), K + np.eye(n) / gamma]])
    found = np.linalg.solve(M, np.vstack([np.zeros((1, Y.shape[1])), Y]))
    return K @ found[1:] + found[0]


@pytest.mark.parametrize("how", [None, "mean", "K'K", "KK'"])
@pytest.mark.parametrize("change", [{}, {"n_landmarks": 70}, {"solver": "minres"}])
def test_symmetric_kernels_give_the_ls_svm(how, change):
    """Proposition 2 of He et al.: f_s = f_t."""
    symmetric = {None: K + K.T, "mean": (K + K.T) / 2, "K'K": K.T @ K, "KK'": K @ K.T}[how]
    model = AsKLSRegressor(Precomputed(K if how else K + K.T), 0.4, symmetrise=how, **ALL_ROWS | change)
    if how in ("K'K", "KK'") and "solver" in change:
        with pytest.raises(InputError, match="use 'mean'"):
            model.fit(NUMBERS, Y)
        return
    model.fit(NUMBERS, Y)
    assert model.asymmetry_ < 1e-12
    np.testing.assert_allclose(model.decision_source(NUMBERS), ls_svm(symmetric, Y, 0.4), atol=1e-6)
    np.testing.assert_allclose(model.decision_target(NUMBERS), model.decision_source(NUMBERS), atol=1e-6)


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("gamma", [0.05, 0.9, 20.0])
@pytest.mark.parametrize("change", [{}, {"n_landmarks": 70}])
def test_the_condition_number_is_that_of_the_system(change, gamma, damping):
    """Damping puts its root times the identity below the matrix whose squared error is least."""
    model = AsKLSRegressor(Precomputed(K), gamma, damping=damping, **ALL_ROWS | change).fit(NUMBERS, Y)
    system = oracle.saddle(oracle.centred(K), gamma)
    expected = np.linalg.cond(np.vstack([system, np.sqrt(damping) * np.eye(len(system))]))
    assert model.resonance_.condition_number == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("change", [{}, {"n_landmarks": 70}])
def test_the_gap_of_folds_is_that_of_the_worst_of_their_models(change):
    """The condition numbers of the folds' models are far apart, and the largest one counts."""
    splits = list(KFold(3).split(NUMBERS))
    conditions = [np.linalg.cond(oracle.saddle(oracle.centred(K[np.ix_(train, train)]), 0.9)) for train, _ in splits]
    assert max(conditions) > 1.5 * min(conditions)
    params = ALL_ROWS | {"cv": splits, "merge": "stack"} | change
    found = AsKLSRegressor(Precomputed(K), 0.9, **params).fit(NUMBERS, Y).resonance_
    largest = np.linalg.svd(oracle.centred(K))[1].max()
    assert found.fold_gap == pytest.approx((1 + 0.9 * largest) / max(conditions), rel=1e-6)


def test_a_resonance_of_a_folds_model_is_told_where_stacking_uses_it():
    """The folds' models may be at a resonance where the model of all rows is not."""
    sigma = np.array([0.5, 0.1])
    assert resonance(sigma, 1.0, 0.0, 3.0, fold_condition=10.0).warning is None
    found = resonance(sigma, 1.0, 0.0, 3.0, fold_condition=1e6)
    assert "of a fold's model" in found.warning and found.fold_gap == pytest.approx(1.5e-6)
    assert resonance(sigma, 1.0, 0.1, 3.0, fold_condition=1e6).warning is None
    assert Resonance.from_dict(found.to_dict()) == found

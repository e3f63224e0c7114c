"""Moments, feature maps and solves against the dense oracle."""

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ask_dask import moments, nystrom
from ask_dask.kernels import RBF, SNE, Precomputed, StudentT, Symmetrised
from ask_dask.solve import LandmarkSystem, resonance

rng = np.random.default_rng(5)
X = rng.normal(size=(60, 4))
SNE_KERNEL = SNE(1.5)
Y = np.where(X[:, :1] * X[:, 1:2] + 0.3 * rng.normal(size=(60, 1)) > 0, 1.0, -1.0)


def rows_of(Y, folds=None, weights=None):
    return moments.Rows(Y, np.asarray, np.zeros(len(Y), int) if folds is None else folds, weights)


def system(X, Y, rows, columns, kernel=SNE_KERNEL, rcond=1e-12):
    shared = rows is columns
    rows, columns = X[rows], X[columns]
    at = kernel.at(rows, rows if shared else columns, len(X), X)
    found = moments.of_rows(X, rows_of(Y), at, 1)
    return at, LandmarkSystem(moments.Centred.of(found, nystrom.feature_map(at.source(rows), rcond)))


def decisions(at, solution, X):
    C, R = at.both(X)
    return C @ solution.source + solution.intercepts[0], R @ solution.target + solution.intercepts[1]


@pytest.mark.parametrize("gamma", [0.5, 30.0])
def test_all_points_as_landmarks_are_the_dual_at_new_points(gamma):
    everything, new = np.arange(60), np.random.default_rng(6).normal(size=(9, 4))
    at, solver = system(X, Y, everything, everything)
    expected = oracle.askls_dual(oracle.sne(X, X, 1.5, X), Y, gamma)
    f_source, f_target = decisions(at, solver.solve(gamma), new)
    np.testing.assert_allclose(f_source, expected.source(oracle.sne(new, X, 1.5, X)), atol=1e-8)
    np.testing.assert_allclose(f_target, expected.target(oracle.sne(X, new, 1.5, X)), atol=1e-8)


def test_separate_row_and_column_landmarks_are_the_dual_of_their_kernel():
    rows, columns = (np.random.default_rng(seed).permutation(60)[:n] for seed, n in ((7, 25), (8, 30)))
    at, solver = system(X, Y, rows, columns, SNE(1.5, "exact"))
    K = oracle.sne(X, X, 1.5, X)
    source, target = oracle.landmark_features(K[:, columns], K[np.ix_(rows, columns)], K[rows])
    sigma, [expected] = oracle.askls_path(source @ target.T, Y, [4.0])
    f_source, f_target = decisions(at, solver.solve(4.0), X)
    np.testing.assert_allclose(f_source, expected.source(source @ target.T), atol=1e-8)
    np.testing.assert_allclose(f_target, expected.target(source @ target.T), atol=1e-8)
    np.testing.assert_allclose(solver.singular_values, sigma[:25], atol=1e-8)


@pytest.mark.parametrize("kernel", [SNE(1.5), StudentT(), RBF(1.5)], ids=repr)
@pytest.mark.parametrize("treatment", [{}, {"damping": 0.5}, {"ridge": 1.5}])
def test_solution_equals_the_oracle(kernel, treatment):
    landmarks = rng.permutation(60)[:25]
    several = np.hstack([Y, rng.normal(size=(60, 2))])
    at, solver = system(X, several, landmarks, landmarks, kernel)
    C, R = at.both(X)
    source, target = oracle.landmark_features(C, at.source(X[landmarks]), R.T)
    if "ridge" in treatment:
        w, v, intercepts = oracle.askls_primal(source, target, several, 4.0, **treatment)
        expected = source @ w + intercepts[0], target @ v + intercepts[1]
    else:
        _, [solution] = oracle.askls_path(source @ target.T, several, [4.0], **treatment)
        expected = solution.source(source @ target.T), solution.target(source @ target.T)
    for found, wanted in zip(decisions(at, solver.solve(4.0, **treatment), X), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-8)


def test_symmetric_kernel_gives_one_discriminant():
    """Proposition 2 of He et al.: the LS-SVM."""
    everything = np.arange(60)
    at, solver = system(X, Y, everything, everything, RBF(1.5))
    f_source, f_target = decisions(at, solver.solve(2.0), X)
    np.testing.assert_allclose(f_source, f_target, atol=1e-8)


INDEFINITE = np.random.default_rng(9).normal(size=(20, 20))
INDEFINITE = (INDEFINITE + INDEFINITE.T) / 20


def test_features_of_an_indefinite_core_give_it_back():
    """A negative eigenvalue has its sign in one of the roles."""
    maps = nystrom.feature_map(INDEFINITE, 1e-12)
    found = (INDEFINITE @ maps.source) @ (INDEFINITE.T @ maps.target).T
    np.testing.assert_allclose(found, INDEFINITE, atol=1e-12)
    positive = nystrom.feature_map(INDEFINITE @ INDEFINITE, 1e-12)
    assert positive.target is positive.source


def test_an_indefinite_symmetric_kernel_on_all_landmarks_is_the_dual():
    numbers, y = np.arange(20)[:, None], np.random.default_rng(10).normal(size=(20, 2))
    at = Precomputed(INDEFINITE).at(numbers, numbers, 20)
    found = moments.of_rows(numbers, rows_of(y), at, 1)
    solver = LandmarkSystem(moments.Centred.of(found, nystrom.feature_map(INDEFINITE, 1e-12)))
    expected = oracle.askls_dual(INDEFINITE, y, 0.7)
    f_source, f_target = decisions(at, solver.solve(0.7), numbers)
    np.testing.assert_allclose(f_source, expected.source(INDEFINITE), atol=1e-9)
    np.testing.assert_allclose(f_target, expected.target(INDEFINITE), atol=1e-9)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("treatment", [{}, {"ridge": 1.0}, {"ridge": 3.0}, {"damping": 0.2}], ids=str)
def test_an_indefinite_symmetric_kernel_treated_is_the_primal_or_the_dual(treatment, symmetric):
    """A kernel that is known to be symmetric, and one that is not, have the same solution."""
    numbers, y = np.arange(20)[:, None], np.random.default_rng(10).normal(size=(20, 2))
    kernel = Symmetrised(Precomputed(INDEFINITE), "mean") if symmetric else Precomputed(INDEFINITE)
    at, maps = kernel.at(numbers, numbers, 20), nystrom.feature_map(INDEFINITE, 1e-12, symmetric)
    assert len(moments.of_rows(numbers, rows_of(y), at, 1).sides) == 2 - symmetric
    solution = LandmarkSystem(moments.Centred.of(moments.of_rows(numbers, rows_of(y), at, 1), maps)).solve(
        0.7, **treatment
    )
    if "ridge" in treatment:
        source, target = INDEFINITE @ maps.source, INDEFINITE.T @ maps.target
        w, v, intercepts = oracle.askls_primal(source, target, y, 0.7, **treatment)
        expected = source @ w + intercepts[0], target @ v + intercepts[1]
    else:
        _, [dual] = oracle.askls_path(INDEFINITE, y, [0.7], **treatment)
        expected = dual.source(INDEFINITE), dual.target(INDEFINITE)
    for found, wanted in zip(decisions(at, solution, numbers), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-8)
    if treatment.get("ridge", 0) > 1:  # convex, so that no gamma is near a resonance
        assert solution.condition_number < 1e3


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 59))
def test_moments_do_not_depend_on_where_rows_are_cut(seed, n_folds, cut):
    random = np.random.default_rng(seed)
    folds, at = random.integers(0, n_folds, 60), SNE(1.5).at(*2 * [X[:10]], 60)
    whole = moments.of_rows(X, rows_of(Y, folds), at, n_folds)
    parts = [moments.of_rows(X[s], rows_of(Y, folds)[s], at, n_folds) for s in (slice(0, cut), slice(cut, 60))]
    for one, two in zip(flat(whole), flat(parts[0] + parts[1]), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)
    others = moments.of_rows(X[folds != 0], rows_of(Y[folds != 0]), at, 1)
    for one, two in zip(flat(whole.total() - whole.fold(0)), flat(others), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)
    nested = moments.of_rows(X, rows_of(Y, folds), at.prefix(4), n_folds)
    for one, two in zip(flat(whole.prefix(4)), flat(nested), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def flat(found):
    return [found.count, found.sum_y, *(a for side in found.sides for a in (side.sums, side.gram, side.cross))]


def test_duplicated_rows_give_a_finite_answer():
    twice = np.vstack([X[:20], X[:20], X[:20]])
    everything = np.arange(60)
    at, solver = system(twice, Y, everything, everything, rcond=1e-10)
    f_source, f_target = decisions(at, solver.solve(4.0), X)
    assert np.isfinite(f_source).all() and np.isfinite(f_target).all()


def test_resonance_is_measured_and_cured():
    landmarks = np.arange(0, 60, 2)
    at, solver = system(X, Y, landmarks, landmarks)
    gamma = 1 / solver.singular_values[3]
    at_it = solver.solve(gamma)
    assert at_it.condition_number > 1e12
    found = resonance(solver.singular_values, gamma, 0.0, at_it.condition_number)
    assert found.gap < 1e-12 and found.sigma == pytest.approx(solver.singular_values[3])
    assert f"{found.safe_gamma:.4g}" in found.warning
    safe = resonance(solver.singular_values, found.safe_gamma, 0.0, 1.0)
    assert safe.gap > 0.05 and safe.warning is None
    for treatment in ({"damping": 0.1}, {"ridge": 1.5}):
        assert solver.solve(gamma, **treatment).condition_number < 1e6
        assert resonance(solver.singular_values, gamma, condition=1.0, **{"damping": 0.0} | treatment).warning is None
    f_source, _ = decisions(at, at_it, X)
    assert np.isfinite(f_source).all()

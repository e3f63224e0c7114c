"""The dense definitions that the other tests trust: each one by a second route."""

import numpy as np
import oracle
import pytest
from scipy.optimize import approx_fprime

rng = np.random.default_rng(7)
X, Z = rng.normal(size=(40, 3)), rng.normal(size=(9, 3)) + 0.5
Y = np.column_stack([np.sign(X[:, 0] * X[:, 1]), rng.normal(size=40)])
K = oracle.sne(X, X, 1.5, X)
GAMMAS = (0.5, 4.0, 30.0)


def low_rank(n_rows=12, n_columns=15):
    """Features of two sides from landmarks, whose products are a kernel of low rank."""
    rows, columns = np.arange(n_rows), np.arange(20, 20 + n_columns)
    return oracle.landmark_features(K[:, columns], K[np.ix_(rows, columns)], K[rows])


# ------------------------------------------------------------------------------------------------------------ kernels
def test_kernels_are_their_formulas_one_pair_at_a_time():
    def near(x, z):
        return np.exp(-(np.linalg.norm(x - z) ** 2) / 1.3**2)

    def heavy(x, z):
        return 1 / (1 + np.linalg.norm(x - z) ** 2)

    for found, similarity, normalised in (
        (oracle.rbf(X, Z, 1.3), near, False),
        (oracle.sne(X, Z, 1.3, X), near, True),
        (oracle.student_t(X, Z, X), heavy, True),
    ):
        for x, row in zip(X, found, strict=True):
            total = sum(similarity(x, target) for target in X) if normalised else 1
            np.testing.assert_allclose(row, [similarity(x, z) / total for z in Z], rtol=1e-12)


def test_normalised_rows_over_their_targets_sum_to_one_even_far_away():
    far = X + 1e3
    for kernel in (oracle.sne(X, X, 1.3, X), oracle.sne(far, X, 1.3, X), oracle.student_t(far, X, X)):
        np.testing.assert_allclose(kernel.sum(1), 1, rtol=1e-12)


def test_a_node_without_edges_is_similar_to_itself_alone():
    found = oracle.directed_graph([[0, 1, 1], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(found, [[1 / 3, 1 / 3, 1 / 3], [0, 1, 0], [1 / 2, 0, 1 / 2]])


# ------------------------------------------------------------------------------------------------------------- AsK-LS
@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_dual_solution_fulfils_each_equation_of_the_paper(gamma):
    a, c, (b_source, b_target) = oracle.askls_dual(K, Y, gamma)
    np.testing.assert_allclose(a / gamma + K @ c + b_source, Y, atol=1e-10)
    np.testing.assert_allclose(K.T @ a + c / gamma + b_target, Y, atol=1e-10)
    np.testing.assert_allclose([a.sum(0), c.sum(0)], 0, atol=1e-10)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_primal_with_every_point_a_landmark_is_the_dual(gamma):
    source, target = oracle.landmark_features(K, K, K)
    w, v, intercepts = oracle.askls_primal(source, target, Y, gamma)
    dual = oracle.askls_dual(K, Y, gamma)
    np.testing.assert_allclose(source @ w + intercepts[0], dual.source(K), atol=1e-7)
    np.testing.assert_allclose(target @ v + intercepts[1], dual.target(K), atol=1e-7)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_primal_on_landmarks_is_the_dual_of_their_kernel(gamma):
    source, target = low_rank()
    w, v, intercepts = oracle.askls_primal(source, target, Y, gamma)
    dual = oracle.askls_dual(source @ target.T, Y, gamma)
    np.testing.assert_allclose(source @ w + intercepts[0], dual.source(source @ target.T), atol=1e-9)
    np.testing.assert_allclose(target @ v + intercepts[1], dual.target(source @ target.T), atol=1e-9)


@pytest.mark.parametrize("kernel", [K, low_rank()[0] @ low_rank()[1].T], ids=["full rank", "low rank"])
def test_the_path_is_the_dual_at_each_gamma(kernel):
    sigma, solutions = oracle.askls_path(kernel, Y, GAMMAS)
    ones = np.ones((40, 40)) / 40
    by_means = kernel - ones @ kernel - kernel @ ones + ones @ kernel @ ones
    np.testing.assert_allclose(sigma**2, np.linalg.eigvalsh(by_means @ by_means.T)[::-1], atol=1e-12)
    for gamma, solution in zip(GAMMAS, solutions, strict=True):
        for found, expected in zip(solution, oracle.askls_dual(kernel, Y, gamma), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-9)


def test_damping_solves_the_normal_equations_of_the_centred_system():
    """Tikhonov: |M s - y|^2 + damping |s|^2 is least."""
    _, [solution] = oracle.askls_path(K, Y, [4.0], damping=0.3)
    M = oracle.saddle(oracle.centred(K), 4.0)
    right = np.concatenate([Y - Y.mean(0)] * 2)
    expected = np.linalg.solve(M.T @ M + 0.3 * np.eye(80), M.T @ right)
    np.testing.assert_allclose(np.concatenate([solution.a, solution.c]), expected, atol=1e-10)


@pytest.mark.parametrize("ridge", [0.0, 1.5])
def test_the_gradient_of_the_primal_objective_is_zero_at_its_solution(ridge):
    source, target = low_rank(4, 5)
    y = Y[:, 0]
    w, v, intercepts = oracle.askls_primal(source, target, y, 3.0, ridge)

    def objective(at):
        w, v, (b_source, b_target) = np.split(at, [4, 8])
        errors = np.r_[y - source @ w - b_source, y - target @ v - b_target]
        return w @ v + ridge / 2 * (w @ w + v @ v) + 3.0 / 2 * errors @ errors

    at = np.concatenate([w, v, intercepts])[:, 0]
    away = approx_fprime(at + 0.1, objective)
    assert np.abs(approx_fprime(at, objective)).max() < 1e-3 * np.abs(away).max()


def test_a_symmetric_kernel_has_one_discriminant():
    """Proposition 2 of He et al."""
    a, c, intercepts = oracle.askls_dual(oracle.rbf(X, X, 1.5), Y, 2.0)
    np.testing.assert_allclose(a, c, atol=1e-10)
    np.testing.assert_allclose(*intercepts, atol=1e-10)


def test_the_system_is_singular_where_gamma_times_a_singular_value_is_one():
    sigma, _ = oracle.askls_path(K, Y, [1.0])
    at, beside = (np.linalg.cond(oracle.saddle(oracle.centred(K), scale / sigma[3])) for scale in (1, 1.1))
    assert at > 1e12 and beside < 1e4


def test_products_of_landmark_features_are_the_kernel_through_the_pseudo_inverse():
    rows, columns = np.arange(12), np.arange(20, 35)
    source, target = low_rank()
    through = K[:, columns] @ np.linalg.pinv(K[np.ix_(rows, columns)], 1e-12) @ K[rows]
    np.testing.assert_allclose(source @ target.T, through, atol=1e-10)
    np.testing.assert_allclose(through[np.ix_(rows, columns)], K[np.ix_(rows, columns)], atol=1e-10)


# ----------------------------------------------------------------------------------------------------- singular vectors
def test_with_every_point_a_landmark_nystrom_vectors_are_the_decomposition():
    U, s, Vt = np.linalg.svd(K)
    found = oracle.nystrom_singular_vectors(K, K, K, 5)
    np.testing.assert_allclose(found[1], s[:5], rtol=1e-12)
    assert oracle.eta(U[:, :5], s[:5], Vt[:5].T, found[0], found[2]) < 1e-9
    assert oracle.subspace_error(U[:, :5], found[0]) < 1e-7


def test_nystrom_singular_values_grow_with_the_share_of_points_left_out():
    """A kernel of ones, whose singular value is the root of rows times columns."""
    C, W, R = np.ones((40, 3)), np.ones((5, 3)), np.ones((5, 30))
    _, s, _ = oracle.nystrom_singular_vectors(C, W, R, 1)
    np.testing.assert_allclose(s, np.sqrt(40 * 30))


def test_errors_of_vectors_follow_their_angle():
    """One vector of each side is turned by an angle: eta weighs 1 - cos, the subspaces differ by sin."""
    identity, s = np.eye(6)[:, :2], np.array([3.0, 1.0])
    turned = identity.copy()
    turned[:, 1] = -5 * (np.cos(0.4) * np.eye(6)[1] + np.sin(0.4) * np.eye(6)[4])
    assert oracle.eta(identity, s, identity, turned, identity) == pytest.approx((1 - np.cos(0.4)) / 2)
    assert oracle.eta(identity, s, identity, turned, turned) == pytest.approx(1 - np.cos(0.4))
    assert oracle.subspace_error(identity, turned) == pytest.approx(np.sin(0.4))

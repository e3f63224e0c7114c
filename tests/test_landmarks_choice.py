"""Ways to choose landmarks: what every way promises, exactness on low rank, and errors below a uniform sample's."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from ask_dask import blocks, landmarks
from ask_dask.errors import InputError
from ask_dask.kernels import (
    RBF,
    SNE,
    ConditionalProbability,
    DirectedGraph,
    LocalRBF,
    Precomputed,
    StudentT,
    Symmetrised,
)
from ask_dask.landmarks.entries import Entries

BY_KERNEL = ("leverage", "cross", "greedy")
OF_POINTS = tuple(how for how in landmarks.HOWS if how != "coverage")
X = np.random.default_rng(0).normal(size=(150, 3))
Z = np.random.default_rng(1).normal(size=(120, 3))


def clustered(seed, n=900, n_clusters=24):
    """Points in clusters of which each has three quarters of the points of the one before."""
    rng = np.random.default_rng(seed)
    centres = 6 * rng.normal(size=(n_clusters, 3))
    share = 0.75 ** np.arange(n_clusters)
    return centres[rng.choice(n_clusters, n, p=share / share.sum())] + 0.4 * rng.normal(size=(n, 3))


def outside(K, J):
    """The share of K outside the span of its columns J."""
    U, S, _ = np.linalg.svd(K[:, J], full_matrices=False)
    Q = U[:, S > 1e-12 * S[0]]
    return np.linalg.norm(K - Q @ (Q.T @ K)) / np.linalg.norm(K)


def product(K):
    """A function k(X, Z) of points that are one-hot rows: entries of K."""
    return lambda X, Z: X @ K @ Z.T


def low_rank(n, m, rank, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m))


@settings(max_examples=15, deadline=None)
@given(
    how=st.sampled_from(OF_POINTS),
    n=st.integers(1, 40),
    m=st.integers(1, 40),
    seed=st.integers(0, 2**31),
    n_candidates=st.integers(40, 200),
)
def test_landmarks_are_distinct_in_range_and_seeded(how, n, m, seed, n_candidates):
    first = landmarks.choose(how, X, Z, SNE(1.0), (n, m), seed, n_candidates=n_candidates)
    again = landmarks.choose(how, X, Z, SNE(1.0), (n, m), seed, n_candidates=n_candidates)
    for side, repeated, points, count in zip(first, again, (X, Z), (n, m), strict=True):
        assert side.dtype == np.int64 and side.shape == (count,) == np.unique(side).shape
        assert side.min() >= 0 and side.max() < len(points)
        np.testing.assert_array_equal(side, repeated)


@pytest.mark.parametrize("how", OF_POINTS)
def test_the_seed_matters(how):
    chosen = [set(landmarks.choose(how, X, Z, SNE(1.0), 20, seed, n_candidates=60)[0]) for seed in (0, 1)]
    assert chosen[0] != chosen[1]


@pytest.mark.parametrize("how", OF_POINTS)
def test_every_kind_of_input_gives_the_same(how):
    def picked(X, Z, take=blocks.take_rows):
        return landmarks.choose(how, X, Z, SNE(1.0), (12, 9), 3, n_candidates=80, take=take)

    def stored(A):
        return zarr.create_array({}, data=A, chunks=(32, 3))

    expected = picked(X, Z, landmarks.choose.__kwdefaults__["take"])
    lazy = [picked(da.from_array(X, chunks=(rows, 2)), da.from_array(Z, chunks=(rows, 3))) for rows in (17, 150)]
    for found in (picked(sp.csr_matrix(X), sp.csr_matrix(Z)), picked(stored(X), stored(Z)), *lazy):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


def test_other_sparse_formats_do_without_a_take():
    found = landmarks.choose("cross", sp.coo_matrix(X), sp.coo_array(Z), SNE(1.0), 5, 0)
    np.testing.assert_array_equal(found, landmarks.choose("cross", X, Z, SNE(1.0), 5, 0))


def test_wide_sparse_points_keep_their_groups_under_k_means():
    rng = np.random.default_rng(0)
    group = np.arange(60) % 3
    points = 0.01 * sp.random(60, 5000, 0.01, "csr", rng=rng) + sp.random(3, 5000, 0.1, "csr", rng=rng)[group]
    for form in (points, points.toarray()):
        assert set(group[landmarks.kmeans(form, 3, 0)]) == {0, 1, 2}


@pytest.mark.parametrize("how", ["uniform", "kmeans"])
def test_rows_and_columns_are_one_only_where_asked(how):
    rows, columns = landmarks.choose(how, X, X, None, 20, 0)
    assert not np.array_equal(rows, columns)
    rows, columns = landmarks.choose(how, X, X, None, 20, 0, same=True)
    assert rows is columns


def test_uniform_rows_are_those_of_uniform():
    np.testing.assert_array_equal(landmarks.choose("uniform", X, Z, None, 7, 5)[0], landmarks.uniform(150, 7, 5))


@pytest.mark.parametrize(
    "kernel", [RBF(1.0), SNE(0.7), SNE(0.7, "exact"), StudentT(), LocalRBF(neighbours=3), SNE(0.5) + RBF(2.0)]
)
@pytest.mark.parametrize("paired", [True, False])
def test_rows_columns_and_diagonal_are_of_one_matrix(kernel, paired):
    targets = X if paired else Z
    entries, K = Entries(kernel, X, targets), kernel(X, targets)
    np.testing.assert_allclose(entries.rows(np.arange(150)), K, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(entries.columns(np.array([3, 1])), K[:, [3, 1]], rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(entries.diagonal(), np.diagonal(K), rtol=1e-9, atol=1e-13)


@settings(max_examples=15, deadline=None)
@given(n=st.integers(12, 60), m=st.integers(12, 60), rank=st.integers(1, 10), seed=st.integers(0, 10**6))
def test_as_many_pivots_as_the_rank_give_the_matrix(n, m, rank, seed):
    K = low_rank(n, m, rank, seed)
    I, J = landmarks.cross_approximation(product(K), np.eye(n), np.eye(m), (rank, rank), seed)  # noqa: E741
    rebuilt = K[:, J] @ np.linalg.solve(K[np.ix_(I, J)], K[I])
    assert np.linalg.norm(K - rebuilt) <= 1e-10 * np.linalg.norm(K)
    longer = landmarks.cross_approximation(product(K), np.eye(n), np.eye(m), (12, 11), seed)
    assert np.linalg.matrix_rank(K[longer[0][:rank]]) == rank == np.linalg.matrix_rank(K[:, longer[1][:rank]])


def test_cross_approximation_evaluates_few_entries():
    K, seen = low_rank(2000, 1500, 30, 0), []

    def kernel(X, Z):
        seen.append(X.shape[0] * Z.shape[0])
        return K[np.ix_(X[:, 0], Z[:, 0])]

    points = [np.arange(n)[:, None] for n in K.shape]
    landmarks.cross_approximation(kernel, *points, (20, 20), 0)
    assert sum(seen) <= 220 * 2000 + 4 * 20 * sum(K.shape) < K.size / 4


@pytest.mark.parametrize("repeats", [1, 3])
def test_it_is_incomplete_cholesky_for_a_positive_kernel(repeats):
    points = np.repeat(X, repeats, axis=0)
    rows, columns = landmarks.cross_approximation(RBF(1.0), points, points, (60, 60), 0)
    np.testing.assert_array_equal(rows, columns)
    assert np.linalg.matrix_rank(RBF(1.0)(points[rows], points[rows])) == 60


@pytest.mark.parametrize("how", BY_KERNEL)
def test_the_few_entries_of_a_sparse_matrix_are_found(how):
    K = np.zeros((100, 100))
    K[np.arange(0, 100, 10), np.arange(5, 100, 10)] = np.arange(1.0, 11)
    numbers = np.arange(100)[:, None]
    rows, columns = landmarks.choose(how, numbers, numbers, Precomputed(K), 30, 0)
    assert set(range(0, 100, 10)) <= set(rows) and set(range(5, 100, 10)) <= set(columns)


@pytest.mark.parametrize("how", ("kmeans", *BY_KERNEL))
def test_duplicate_rows_are_chosen_once_while_others_are_left(how):
    points = np.repeat(np.random.default_rng(0).normal(size=(15, 2)), 20, axis=0)
    rows, columns = landmarks.choose(how, points, points, SNE(0.5), (40, 60), 0)
    assert len(np.unique(rows)) == 40 and len(np.unique(columns)) == 60
    if how != "leverage":  # which draws, and may draw a point again
        assert len(np.unique(points[rows[:15]], axis=0)) == len(np.unique(points[columns[:15]], axis=0)) == 15


@pytest.mark.parametrize(("how", "share"), [("kmeans", 0.5), ("leverage", 0.9), ("cross", 0.75), ("greedy", 0.7)])
@pytest.mark.parametrize("kernel", [SNE(1.5), StudentT()], ids=["SNE", "StudentT"])
def test_errors_are_below_those_of_a_uniform_sample(how, share, kernel):
    ratios = []
    for seed in range(3):
        points = clustered(seed)
        K = kernel(points, points)
        errors = []
        for way in (how, "uniform"):
            rows, columns = landmarks.choose(way, points, points, kernel, 40, seed)
            errors.append(outside(K, columns) + outside(K.T, rows))
        ratios.append(errors[0] / errors[1])
    assert np.median(ratios) < share, ratios


def test_cross_approximation_alone_keeps_the_core_matrix_well_behaved():
    points = clustered(0)
    K = SNE(1.5)(points, points)
    I, J = landmarks.choose("cross", points, points, SNE(1.5), 40, 0)  # noqa: E741
    rebuilt = K[:, J] @ np.linalg.solve(K[np.ix_(I, J)], K[I])
    assert np.linalg.norm(K - rebuilt) < 2 * outside(K, J) * np.linalg.norm(K)


def test_a_prefix_of_the_greedy_choice_is_the_choice_for_fewer():
    many, few = (landmarks.greedy(SNE(1.0), X, Z, (n, n), 0) for n in (30, 10))
    np.testing.assert_array_equal([side[:10] for side in many], few)


def test_leverage_scores_are_those_of_the_formula():
    A = low_rank(40, 12, 6, 0)
    ridge = (np.linalg.svd(A)[1][3:] ** 2).sum() / 3
    expected = np.diagonal(A @ np.linalg.solve(A.T @ A + ridge * np.eye(12), A.T))
    np.testing.assert_allclose(landmarks.ridge_leverage_scores(A, 3), expected, rtol=1e-9)
    np.testing.assert_allclose(landmarks.ridge_leverage_scores(A, 6).sum(), 6, rtol=1e-3)  # of exact rank


@pytest.mark.parametrize("how", BY_KERNEL)
def test_float32_values_end_where_their_rounding_begins(how):
    points = np.repeat(X[:6].astype(np.float32), 20, axis=0)
    rows, columns = landmarks.choose(how, points, points, RBF(1.0), (30, 40), 0)
    assert len(np.unique(points[rows], axis=0)) == len(np.unique(points[columns], axis=0)) == 6


@pytest.mark.parametrize("how", BY_KERNEL)
def test_a_directed_graph_has_landmarks(how):
    rng = np.random.default_rng(0)
    graph, nodes = DirectedGraph(sp.random(80, 80, 0.05, "csr", rng=rng)), np.arange(80)[:, None]
    rows, columns = landmarks.choose(how, nodes, nodes, graph, 20, 0)
    assert len(set(rows)) == len(set(columns)) == 20


def test_kernels_of_counts_and_symmetrised_ones_work():
    counts = np.random.default_rng(0).poisson(1.0, size=(60, 8)).astype(float)
    for how in BY_KERNEL:
        rows, _ = landmarks.choose(how, counts, counts, ConditionalProbability(), 8, 0)
        assert len(rows) == 8
        assert len(landmarks.choose(how, X, X, Symmetrised(SNE(1.0), "mean"), 8, 0)[0]) == 8


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"how": "best"}, "no way 'best'.*use one of uniform, kmeans, leverage, cross, greedy"),
        ({"n_landmarks": (151, 3)}, "n_landmarks=151 is more than the 150 rows of X: use 150"),
        ({"n_landmarks": (3, 121)}, "n_landmarks=121 is more than the 120 rows of Z: use 120"),
        ({"n_candidates": 9}, "n_candidates=9 is fewer than the 10 landmarks: use 10 or more"),
        ({"n_landmarks": 2.5}, "whole number, or a pair"),
        ({"n_landmarks": (1, 2, 3)}, "whole number, or a pair"),
        ({"n_landmarks": 0}, "must be 1 or more"),
        ({"kernel": None}, "give a kernel"),
        ({"how": "kmeans", "kernel": Precomputed(np.eye(2))}, "points with coordinates"),
        ({"kernel": lambda X, Z: np.zeros((len(X), len(Z)))}, "zero at every pair"),
        ({"kernel": lambda X, Z: np.full((len(X), len(Z)), np.nan)}, "NaN or infinite"),
        ({"same": True}, "same=True is for"),
        ({"X": da.from_array(X)}, "take=ask_dask.blocks.take_rows"),
        ({"how": "kmeans", "X": np.where(X > 2, np.nan, X)}, "NaN or infinity"),
    ],
)
@pytest.mark.parametrize("how", BY_KERNEL)
def test_bad_input_is_one_clear_sentence(how, change, said):
    arguments = {"how": how, "X": X, "Z": Z, "kernel": SNE(1.0), "n_landmarks": 10, "random_state": 0} | change
    with pytest.raises(InputError, match=said):
        landmarks.choose(**arguments)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 30), density=st.floats(0.02, 0.3), count=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_coverage_is_near_the_best_and_nested(n, density, count, seed):
    A = sp.random(n, n, density, "csr", rng=np.random.default_rng(seed))
    kernel, nodes, count = DirectedGraph(A, self_loops=False), np.arange(n)[:, None], min(count, n)
    order = landmarks.choose("coverage", nodes, nodes, kernel, count, 0)[0]
    np.testing.assert_array_equal(landmarks.choose("coverage", nodes, nodes, kernel, n, 1)[1][:count], order)
    linked = (A + A.T).toarray() > 0

    def worth(chosen):
        return ((1 - landmarks.DISCOUNT ** linked[:, chosen].sum(1)) / (1 - landmarks.DISCOUNT)).sum()

    others = [np.random.default_rng(k).choice(n, count, replace=False) for k in range(20)]
    others.append(np.argsort(-linked.sum(0))[:count])
    assert worth(order) >= (1 - 1 / np.e) * max(map(worth, others)) - 1e-9


def test_coverage_counts_points_that_are_no_candidates():
    """Node 4 has few neighbours among the candidates 3, 4 and 5, most among the others."""
    kernel = DirectedGraph(np.array([[4, 0], [4, 1], [2, 4], [3, 5]]))
    nodes = np.array([[3], [4], [5]])
    rows, columns = landmarks.choose("coverage", nodes, nodes, kernel, 1, 0)
    assert rows.tolist() == columns.tolist() == [1]


def test_coverage_of_two_sets_covers_columns_by_rows_and_rows_by_columns():
    K = sp.csr_matrix(np.array([[1.0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 1, 0]]))
    rows, columns = landmarks.choose(
        "coverage", np.arange(3)[:, None], np.arange(4)[:, None], Precomputed(K), (2, 1), 0
    )
    assert rows.tolist() == [0, 1] and columns.tolist() == [2]


@pytest.mark.parametrize("kernel", [SNE(1.0), Precomputed(np.eye(150))])
def test_coverage_of_a_dense_kernel_is_refused(kernel):
    with pytest.raises(InputError, match="sparse kernel matrix over numbered points, such as a graph: use another"):
        landmarks.choose("coverage", np.arange(150)[:, None], np.arange(150)[:, None], kernel, 3, 0)

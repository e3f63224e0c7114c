"""A graph rebuilt from an embedding: known graphs, both orders against all pairs, the norms, bad input."""

import numpy as np
import pytest
import scipy.sparse as sp

from ask_dask import KSVD
from ask_dask.errors import InputError
from ask_dask.kernels import Precomputed
from ask_dask.score import norms, reconstructed

RNG = np.random.default_rng(0)


def rings(count, size):
    """Rings of nodes that each point to the next two of their own ring; rings are far from each other."""
    n = count * size
    A = np.zeros((n, n))
    for i in range(n):
        ring, at = divmod(i, size)
        A[i, [ring * size + (at + step) % size for step in (1, 2)]] = 1
    return A


def test_a_directed_graph_comes_back_from_its_singular_vectors():
    A = rings(5, 7)
    model = KSVD(Precomputed(A), 35).fit(np.arange(35)[:, None])
    U, s, V = (np.asarray(v) for v in (model.left_singular_vectors_, model.singular_values_,
                                       model.right_singular_vectors_))  # fmt: skip
    degrees = A.sum(1).astype(int)
    assert norms(sp.csr_matrix(A), reconstructed(U * s, V, degrees, "dot")) == (0.0, 0.0)
    # sources alone do not know which way an edge points
    assert norms(sp.csr_matrix(A), reconstructed(U * s, U * s, degrees))[0] > 0


@pytest.mark.parametrize("order", ["euclidean", "dot"])
def test_the_nearest_are_those_of_all_pairs(order):
    left, right, degrees = RNG.normal(size=(30, 4)), RNG.normal(size=(30, 4)), RNG.integers(0, 29, 30)
    far = -left @ right.T if order == "dot" else ((left[:, None] - right) ** 2).sum(2)
    np.fill_diagonal(far, np.inf)
    B = reconstructed(left, right, degrees, order).toarray()
    np.testing.assert_array_equal(B.sum(1), degrees)
    for i in range(30):
        assert set(np.flatnonzero(B[i])) == set(np.argsort(far[i])[: degrees[i]])


def test_a_node_never_points_to_itself_also_where_all_are_alike():
    same = np.zeros((6, 2))
    B = reconstructed(same, same, np.array([5, 3, 1, 1, 0, 0])).toarray()
    assert not B.diagonal().any()
    assert B.sum(1).tolist() == [5, 3, 1, 1, 0, 0]


def test_no_edges_at_all():
    B = reconstructed(np.eye(3), np.eye(3), np.zeros(3, int))
    assert B.shape == (3, 3) and B.nnz == 0


def test_norms_are_the_induced_ones_in_whichever_format():
    A, B = ((RNG.random((20, 20)) < 0.2).astype(float) for _ in range(2))
    expected = np.linalg.norm(A - B, 1), np.linalg.norm(A - B, 2)
    assert norms(sp.csr_matrix(A), sp.csc_matrix(B)) == pytest.approx(expected, rel=1e-10)
    assert norms(sp.csr_matrix(A), sp.csr_matrix(A)) == (0.0, 0.0)


I = np.eye(3)  # noqa: E741


@pytest.mark.parametrize(
    "given, said",
    [
        ((I, I[:2], [1, 1, 1]), r"left \(3, 3\), right \(2, 3\)"),
        ((I, I, [1, 1]), r"degrees \(2,\)"),
        ((I, I, [1, 1, 3]), "from 0 to 2"),
        ((I, I, [1, 1, -1]), "from 0 to 2"),
        ((I, I, [1, 1, 0.5]), "whole numbers"),
        ((I, I * np.nan, [1, 1, 1]), "NaN or infinity"),
        ((I, I, [1, 1, 1], "cosine"), "euclidean, dot"),
    ],
)
def test_bad_input_is_named(given, said):
    left, right, degrees, *order = given
    with pytest.raises(InputError, match=said):
        reconstructed(left, right, np.array(degrees), *order)


def test_graphs_over_different_nodes_are_refused():
    with pytest.raises(InputError, match=r"\(2, 2\) and \(3, 3\)"):
        norms(sp.csr_matrix((2, 2)), sp.csr_matrix((3, 3)))

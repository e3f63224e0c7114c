"""Coherence of clusters of terms: planted topics, the bounds, bad input."""

import numpy as np
import pytest
import scipy.sparse as sp

from ask_dask.errors import InputError
from ask_dask.score import association, coherence, contrast

RNG = np.random.default_rng(0)
TOPIC, TERM = np.repeat([0, 1, 2], 100), np.repeat([0, 1, 2], 20)
PLANTED = (RNG.random((300, 60)) < np.where(TOPIC[:, None] == TERM, 0.4, 0.05)).astype(float)


def test_planted_topics_are_coherent_and_shuffled_ones_are_not():
    planted, shuffled = coherence(PLANTED, TERM), coherence(PLANTED, RNG.permutation(TERM))
    assert planted > 0.2 and shuffled < planted / 2


def test_weights_and_format_and_names_of_clusters_do_not_matter():
    weighted = sp.csr_matrix(PLANTED * RNG.random(PLANTED.shape))
    assert coherence(weighted, np.array(["c", "a", "b"])[TERM]) == pytest.approx(coherence(PLANTED, TERM))


def test_independent_terms_have_none():
    independent = (RNG.random((20000, 8)) < 0.3).astype(float)
    assert abs(coherence(independent, np.zeros(8, int))) < 0.01


def test_terms_in_every_document_and_terms_in_none():
    documents = np.c_[np.ones((5, 2)), np.zeros((5, 2))]
    assert coherence(documents, np.array([0, 0, 1, 1])) == 1.0
    assert coherence(documents, np.arange(4)) == 0.0


@pytest.mark.parametrize("clusters, top, said", [(TERM[1:], 10, r"\(59,\)"), (TERM, 1, "top=1")])
def test_bad_input_is_named(clusters, top, said):
    with pytest.raises(InputError, match=said):
        coherence(PLANTED, clusters, top)


def test_contrast_is_the_mean_over_terms_of_association_inside_less_that_with_others():
    A, clusters = RNG.integers(0, 3, size=(30, 9)) * (RNG.random((30, 9)) < 0.4), np.array([0, 0, 1, 2, 2, 2, 1, 0, 2])
    A[:, 8], A[0, 8] = 0, 1  # a term that meets few others
    shares = [[float(A[:, i] @ A[:, j]) for j in range(9)] for i in range(9)]
    total = sum(map(sum, shares))
    found, expected = np.zeros((9, 9)), 0.0
    for i in range(9):
        for j in range(9):
            if shares[i][j]:
                found[i, j] = np.log(shares[i][j] * total / (sum(shares[i]) * sum(shares[j])))
    np.testing.assert_allclose(association(A), found, atol=1e-12)
    np.testing.assert_allclose(association(sp.csc_matrix(A)), found, atol=1e-12)
    for i in range(9):
        inside = np.mean([found[i, j] for j in range(9) if clusters[j] == clusters[i]])
        expected += (inside - np.mean([found[i, j] for j in range(9) if clusters[j] != clusters[i]])) / 9
    assert contrast(found, clusters) == pytest.approx(expected)
    assert contrast(association(PLANTED), TERM) > 0.5 > contrast(association(PLANTED), RNG.permutation(TERM))


@pytest.mark.parametrize("clusters, said", [(TERM[1:], r"\(59,\)"), (np.zeros(60), "in one cluster")])
def test_contrast_names_bad_input(clusters, said):
    with pytest.raises(InputError, match=said):
        contrast(association(PLANTED), clusters)

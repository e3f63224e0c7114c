"""Coherence of clusters of terms: planted topics, the bounds, bad input."""

import numpy as np
import pytest
import scipy.sparse as sp

from ask_dask.errors import InputError
from ask_dask.score import coherence

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

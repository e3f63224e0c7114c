"""Folds and scored rows: scikit-learn's own, within a few bytes a row."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, StratifiedKFold

from ask_dask import AsKLSClassifier
from ask_dask.estimators.inputs import check_labels
from ask_dask.fit import selection
from ask_dask.fit.folds import check_folds, shuffled, stratified
from ask_dask.fit.selection import sampled_rows
from ask_dask.kernels import SNE


def of_splitter(splitter, codes):
    """The fold of each row by scikit-learn."""
    folds = np.empty(len(codes), int)
    for fold, (_, test) in enumerate(splitter.split(codes, codes)):
        folds[test] = fold
    return folds


@given(
    counts=st.lists(st.integers(6, 30), min_size=2, max_size=5),
    n_folds=st.integers(2, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_folds_are_those_of_scikit_learn(counts, n_folds, seed):
    codes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts)).astype(np.int8)
    options = {"shuffle": True, "random_state": seed}
    np.testing.assert_array_equal(
        stratified(codes, n_folds, seed), of_splitter(StratifiedKFold(n_folds, **options), codes)
    )
    np.testing.assert_array_equal(shuffled(len(codes), n_folds, seed), of_splitter(KFold(n_folds, **options), codes))


def test_many_classes_keep_their_numbers():
    labels = np.random.default_rng(0).permutation(np.repeat([f"c{i}" for i in range(200)], 3))
    classes, codes = check_labels(labels, len(labels))
    assert codes.dtype == np.int32
    np.testing.assert_array_equal(classes[codes], labels)


def test_an_order_of_rows_hides_no_class_from_a_merger(monkeypatch):
    """Labels that alternate: every second row of a fold would be of one class."""
    monkeypatch.setattr(selection, "MOST_ROWS", 250)
    y = np.arange(1000) % 2
    X = np.random.default_rng(0).normal(size=(1000, 2)) + y[:, None]
    model = AsKLSClassifier(SNE(2.0), 1.0, n_landmarks=20, cv=KFold(2), random_state=0).fit(X, y)
    assert model.held_out_["auroc"] > 0.8


@pytest.mark.parametrize("most", [100, 450, 2000])
def test_no_merger_has_seen_what_it_scores(monkeypatch, most):
    """Of many rows two halves of the folds share one each, of few every fold has its own; no row is without weight."""
    monkeypatch.setattr(selection, "MOST_ROWS", most)
    random = np.random.default_rng(0)
    folds, weights = random.integers(5, size=1000), selection.Weights(random.integers(3, size=1000).astype(float))
    found = selection.Candidates(None, None, weights, folds, 5, "stack", 0).groups
    assert [list(group) for group, _ in found] == ([[0, 1, 2], [3, 4]] if most == 100 else [[0], [1], [2], [3], [4]])
    for group, others in found:
        allowed = np.flatnonzero(~np.isin(folds, group) & (weights.fit > 0))
        assert np.isin(others, allowed).all() and len(np.unique(others)) == min(len(allowed), most)


@pytest.mark.parametrize("classes", [True, False], ids=["classes", "values"])
def test_a_row_costs_few_bytes(classes):
    """Labels, folds and the choice of scored rows: nothing of eight bytes for each row is made."""
    n = 4_000_000
    y = (np.arange(n) % 3 == 0).astype(np.int8)
    tracemalloc.start()
    codes = check_labels(y, n)[1] if classes else None
    folds, n_folds = check_folds(5, n, codes, 0)
    rows = sampled_rows(n, 10_000, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_folds == 5 and folds.dtype == np.int16 and len(np.unique(rows)) == len(rows) == 10_000
    assert peak < (5 if classes else 7) * n + 60 * (1 << 20)

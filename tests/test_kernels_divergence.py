"""KL divergence, local widths and conditional probability: against their formulas, at landmarks, and on bad input."""

from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import rel_entr
from scipy.stats import norm

from ask_dask import asymmetry
from ask_dask.errors import InputError
from ask_dask.estimators import AsKLSClassifier
from ask_dask.kernels.base import kernel_from_dict
from ask_dask.kernels.conditional import ConditionalProbability
from ask_dask.kernels.divergence import KLDivergence, discrete_divergence, gaussian_divergence
from ask_dask.kernels.local import LocalRBF, neighbour_distances
from ask_dask.kernels.normalised import SNE
from ask_dask.kernels.pointwise import RBF

rng = np.random.default_rng(5)
COUNTS = rng.poisson(1.0, size=(40, 6)).astype(float) + np.eye(40, 6)[rng.permutation(40) % 6]
POINTS = rng.normal(size=(40, 6))
GAUSSIANS = np.hstack([rng.normal(size=(40, 3)), rng.gamma(2.0, size=(40, 3))])
CASES = {
    "discrete": (KLDivergence(0.5), COUNTS),
    "gaussian": (KLDivergence(0.1, "gaussian"), GAUSSIANS),
    "neighbours": (LocalRBF(3, 1.5), POINTS),
    "given": (LocalRBF(anchors=POINTS[:5], bandwidths=[1.0, 2.0, 0.5, 3.0, 1.5]), POINTS),
    "anchors": (LocalRBF(2, anchors=POINTS[:7]), POINTS),
    "conditional": (ConditionalProbability(), COUNTS),
    "conditional, exact": (ConditionalProbability("exact"), COUNTS),
}
EACH = pytest.mark.parametrize("name", CASES)
FORMATS = [np.asarray, sp.csr_matrix, sp.csr_array]


@st.composite
def weights(draw):
    """Two blocks of weights of one width, with zeros, no row of which is all zero."""
    n, m, d = draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(st.integers(1, 8))
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    blocks = [random.gamma(0.3, size=(k, d)) * (random.random((k, d)) < 0.6) for k in (n, m)]
    for block in blocks:
        block[block.sum(1) == 0, 0] = 1.0
    return blocks


def smoothed(rows, smoothing):
    return (rows / rows.sum(1, keepdims=True) + smoothing) / (1 + smoothing * rows.shape[1])


@settings(deadline=None, max_examples=50)
@given(weights(), st.sampled_from([1e-10, 1e-3, 1.0]), st.sampled_from(FORMATS))
def test_discrete_divergence_is_the_sum_of_relative_entropies(blocks, smoothing, convert):
    X, Z = blocks
    found = discrete_divergence(convert(X), convert(Z), smoothing)
    p, q = smoothed(X, smoothing), smoothed(Z, smoothing)
    np.testing.assert_allclose(found, rel_entr(p[:, None], q).sum(2), rtol=1e-9, atol=1e-12)
    assert (found >= 0).all()
    assert np.diag(discrete_divergence(convert(X), convert(X), smoothing)).max() < 1e-12


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 5), st.integers(0, 2**31), st.sampled_from([0.0, 1e6]))
def test_gaussian_divergence_is_its_formula_also_far_from_the_origin(d, seed, shift):
    random = np.random.default_rng(seed)
    mean, variance = random.normal(size=(7, d)) + shift, random.gamma(2.0, size=(7, d)) + 0.1
    X = np.hstack([mean, variance])
    m, u, v, w = mean[:, None], mean, variance[:, None], variance
    expected = 0.5 * (np.log(w / v) + (v + (m - u) ** 2) / w - 1).sum(2)
    found = gaussian_divergence(X, X)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 if shift else 1e-11)
    assert (found >= 0).all()


def test_gaussian_divergence_is_the_integral():
    p, q = norm(0.5, 1.2), norm(-0.3, 0.7)
    expected = quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -15, 15)[0]
    found = gaussian_divergence(np.array([[0.5, 1.2**2]]), np.array([[-0.3, 0.7**2]]))
    np.testing.assert_allclose(found, [[expected]], rtol=1e-8)


@settings(deadline=None, max_examples=20)
@given(weights(), st.floats(0.01, 10))
def test_scale_multiplies_the_divergence(blocks, scale):
    np.testing.assert_allclose(KLDivergence(scale)(*blocks), np.exp(-scale * discrete_divergence(*blocks)), rtol=1e-12)


def test_distances_to_neighbours_equal_a_sort():
    points = rng.normal(size=(30, 3))
    distance = np.sort(np.linalg.norm(points[:, None] - points, axis=2), axis=1)
    for convert in FORMATS:
        np.testing.assert_allclose(neighbour_distances(convert(points), 4), distance[:, 4], rtol=1e-7)
        doubled = sp.vstack if convert is not np.asarray else np.vstack
        twice = doubled([convert(points)] * 2)
        np.testing.assert_allclose(neighbour_distances(twice, 4), np.tile(distance[:, 4], 2), rtol=1e-7)


def test_widths_are_above_zero_whatever_the_points():
    assert neighbour_distances(np.ones((5, 2)), 3).tolist() == [1.0] * 5
    near = np.full((40, 20), 1e8) + np.r_[0, 1e-7][[0, *[1] * 39]][:, None] * rng.random((40, 20))
    assert (neighbour_distances(near, 3) > 0).all()
    tiny = LocalRBF(1)(np.array([[0.0], [1e-200]]), np.array([[0.0], [1e-200]]))
    assert np.isfinite(tiny).all() and np.diag(tiny).tolist() == [1.0, 1.0]


def test_each_target_has_the_width_of_its_nearest_anchor():
    anchors, widths = np.array([[0.0], [10.0]]), np.array([1.0, 4.0])
    kernel = LocalRBF(scale=2.0, anchors=anchors, bandwidths=widths)
    X, Z = np.array([[0.0], [3.0]]), np.array([[1.0], [9.0], [4.0]])
    expected = np.exp(-((X - Z.T) ** 2) / (2 * np.array([1.0, 4.0, 1.0])) ** 2)
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.at(X, Z, 3).target(Z), kernel(X, Z).T, rtol=1e-12)


def test_equal_widths_give_the_rbf():
    kernel = LocalRBF(anchors=POINTS, bandwidths=np.full(40, 1.7))
    np.testing.assert_allclose(kernel(POINTS, POINTS), RBF(1.7)(POINTS, POINTS), rtol=1e-9)


@pytest.mark.parametrize("convert", FORMATS)
def test_conditional_probability_counts_what_is_shared(convert):
    shared = COUNTS @ COUNTS[:9].T
    found = ConditionalProbability()(convert(COUNTS), convert(COUNTS[:9]))
    np.testing.assert_allclose(found, shared / shared.sum(1, keepdims=True), rtol=1e-12, atol=1e-20)


@pytest.mark.parametrize("normaliser", ["landmarks", "exact"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_source_that_meets_no_target_is_uniform(normaliser, dtype):
    rows = np.eye(4, 5, dtype=dtype)
    rows[3] = 0
    at = ConditionalProbability(normaliser).at(rows, rows, 4, rows)
    C, R = at.both(rows)
    assert C.dtype == dtype
    np.testing.assert_allclose(C, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0.25] * 4], rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(R, C.T, rtol=1e-4, atol=1e-12)


@EACH
def test_at_all_points_as_landmarks_it_is_the_kernel(name):
    kernel, X = CASES[name]
    C, R = kernel.at(X, X, len(X), X).both(X)
    np.testing.assert_allclose(C, kernel(X, X), rtol=1e-9)
    np.testing.assert_allclose(R, kernel(X, X).T, rtol=1e-9)


@EACH
@pytest.mark.parametrize("shared", [True, False])
def test_roles_tiles_and_prefixes_agree(name, shared):
    kernel, X = CASES[name]
    rows = X[:12]
    columns = rows if shared else X[5:20]
    at = kernel.at(rows, columns, len(X), X)
    C, R = at.both(X)
    np.testing.assert_allclose(C, at.source(X), rtol=1e-12)
    np.testing.assert_allclose(R, at.target(X), rtol=1e-12)
    W = at.source(rows)
    np.testing.assert_allclose(W, at.target(columns).T, rtol=1e-9)
    np.testing.assert_allclose(at.tile(slice(2, 9), slice(1, 8)), W[2:9, 1:8], rtol=1e-9)
    first = at.prefix(7)
    for found, whole in zip((*first.both(X), first.source(X), first.target(X)), (C, R, C, R), strict=True):
        np.testing.assert_allclose(found, whole[:, :7], rtol=1e-12)


@EACH
def test_blocks_of_any_kind_and_dtype_give_the_same(name):
    kernel, X = CASES[name]
    at = kernel.at(X[:9], X[:9], len(X), X)
    for convert in FORMATS:
        sparse = kernel.at(*2 * [convert(X[:9])], len(X), convert(X))
        for found, expected in zip(sparse.both(convert(X)), at.both(X), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    halves = [at.both(X[part]) for part in (slice(0, 13), slice(13, 40))]
    np.testing.assert_allclose(np.vstack([C for C, _ in halves]), at.source(X), rtol=1e-12)
    single = kernel.at(*2 * [X[:9].astype(np.float32)], len(X), X.astype(np.float32))
    for found, expected in zip(single.both(X.astype(np.float32)), at.both(X), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@EACH
def test_estimators_take_it_on_every_kind_of_input(name):
    kernel, X = CASES[name]
    y = X[:, 0] > np.median(X[:, 0])
    stored = zarr.create_array({}, shape=X.shape, chunks=(11, X.shape[1]), dtype=X.dtype)
    stored[:] = X
    kinds = [X, sp.csr_matrix(X), da.from_array(X, chunks=(7, 4)), stored]
    models = [AsKLSClassifier(kernel, gamma=[1.3], n_landmarks=[8, 15], cv=2, random_state=0) for _ in kinds]
    first, *others = [np.asarray(m.fit(kind, y).decision_function(X)) for m, kind in zip(models, kinds, strict=True)]
    assert np.isfinite(first).all()
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-5, atol=1e-6)


@EACH
def test_dictionary_round_trip(name):
    kernel, X = CASES[name]
    again = kernel_from_dict(kernel.to_dict())
    np.testing.assert_array_equal(again(X, X), kernel(X, X))


def test_composed_with_others_at_landmarks():
    kernel = 2 * LocalRBF(3) + RBF(2.0) * KLDivergence()
    X = np.abs(POINTS)
    np.testing.assert_allclose(kernel.at(X, X, 40).both(X)[1], kernel(X, X).T, rtol=1e-9)


def test_asymmetry_is_zero_for_symmetric_kernels_and_the_ratio_of_norms_for_others():
    assert asymmetry(RBF(2.0), POINTS) < 1e-15
    for kernel, X in [*CASES.values(), (SNE(1.0), POINTS)]:
        K = kernel(X, X)
        expected = np.sqrt(((K - K.T) ** 2).sum() / (K**2).sum())
        assert asymmetry(kernel, X) == pytest.approx(expected) and expected > 0.01


def broken(rows, row, column, value):
    rows = rows.copy()
    rows[row, column] = value
    return rows


BAD = {
    "negative": (KLDivergence(), broken(COUNTS, 3, 1, -1.0), "Row 3 .* weight -1"),
    "nan": (KLDivergence(), broken(COUNTS, 3, 1, np.nan), "Row 3 .* weight nan"),
    "zeros": (KLDivergence(), broken(COUNTS, 4, slice(None), 0.0), "row 4 .* sum to 0"),
    "odd": (KLDivergence(family="gaussian"), GAUSSIANS[:, :5], "5 columns, an odd number"),
    "variance": (KLDivergence(family="gaussian"), broken(GAUSSIANS, 2, 4, 0.0), "Row 2 .* variance 0"),
    "infinite": (KLDivergence(family="gaussian"), broken(GAUSSIANS, 2, 0, np.inf), "Row 2 .* holds inf"),
    "count": (ConditionalProbability(), broken(COUNTS, 6, 1, -2.0), "Row 6 .* weight -2"),
}


@pytest.mark.parametrize("convert", FORMATS[:2])
@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_named_in_both_roles(name, convert):
    kernel, X, message = BAD[name]
    good = np.abs(X[7:9]) if np.isfinite(X[7:9]).all() else X[7:9]
    for blocks in [(X, X)] if name == "odd" else [(X, good), (good, X)]:
        with pytest.raises(InputError, match=message):
            kernel(*map(convert, blocks))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KLDivergence(0.0), "scale is 0.0"),
        (lambda: KLDivergence(smoothing=0.0), "smoothing is 0.0"),
        (lambda: KLDivergence(family="poisson"), "'discrete' or 'gaussian'"),
        (lambda: LocalRBF(0), "neighbours is 0"),
        (lambda: LocalRBF(1.5), "whole number"),
        (lambda: LocalRBF(bandwidths=[1.0]), "without anchors"),
        (lambda: LocalRBF(anchors=POINTS, bandwidths=[1.0]), "one for each of 40"),
        (lambda: LocalRBF(anchors=POINTS[:2], bandwidths=[1.0, 0.0]), "bandwidth 1 is 0.0"),
        (lambda: LocalRBF(anchors=[1.0, 2.0]), "one a row"),
        (lambda: LocalRBF(anchors=[[np.nan]]), "NaN"),
        (lambda: ConditionalProbability("all"), "'landmarks' or 'exact'"),
        (lambda: replace(KLDivergence(), scale=float("nan")), "scale is nan"),
    ],
)
def test_bad_parameters_are_one_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()

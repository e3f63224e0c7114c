"""Kernels against the dense oracle, alone and at landmarks."""

import numpy as np
import oracle
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ask_dask.errors import InputError
from ask_dask.kernels import RBF, SNE, Laplacian, Linear, Polynomial, StudentT, kernel_from_dict

rng = np.random.default_rng(3)
X, Z = rng.normal(size=(30, 4)), rng.normal(size=(20, 4)) + 3

FORMULAS = {
    RBF(bandwidth=1.5): lambda x, z: np.exp(-np.sum((x - z) ** 2) / 1.5**2),
    Laplacian(bandwidth=1.5): lambda x, z: np.exp(-np.abs(x - z).sum() / 1.5),
    Linear(): lambda x, z: x @ z,
    Polynomial(degree=3, scale=0.5, offset=2.0): lambda x, z: (0.5 * x @ z + 2) ** 3,
}
ALL = [*FORMULAS, SNE(bandwidth=1.5), StudentT(), SNE(1.5, "exact"), StudentT("exact")]
COMPOSED = [0.5 * RBF(2.0) + Linear(), RBF(2.0) * SNE(1.5), 2 * StudentT() + SNE(1.0, "exact") * Linear()]


@pytest.mark.parametrize("kernel", FORMULAS, ids=repr)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix, sp.csr_array])
def test_formula(kernel, convert):
    expected = [[FORMULAS[kernel](x, z) for z in Z] for x in X]
    np.testing.assert_allclose(kernel(convert(X), convert(Z)), expected, rtol=1e-10)


def test_normalised_kernels_equal_the_oracle():
    np.testing.assert_allclose(SNE(1.5)(X, Z), oracle.sne(X, Z, 1.5, Z), rtol=1e-10)
    np.testing.assert_allclose(StudentT()(X, Z), oracle.student_t(X, Z, Z), rtol=1e-10)


@pytest.mark.parametrize("kernel", ALL + COMPOSED, ids=repr)
def test_at_all_points_as_landmarks_it_is_the_kernel(kernel):
    at = kernel.at(X, X, len(X), X)
    C, R = at.both(X)
    np.testing.assert_allclose(C, kernel(X, X), rtol=1e-9)
    np.testing.assert_allclose(R, kernel(X, X).T, rtol=1e-9)


@pytest.mark.parametrize("kernel", ALL + COMPOSED, ids=repr)
@pytest.mark.parametrize("shared", [True, False])
def test_roles_agree_and_prefixes_are_prefixes(kernel, shared):
    rows = Z[:12]
    columns = rows if shared else Z[5:]
    at = kernel.at(rows, columns, len(Z), Z)
    C, R = at.both(X)
    np.testing.assert_allclose(C, at.source(X), rtol=1e-12)
    np.testing.assert_allclose(R, at.target(X), rtol=1e-12)
    np.testing.assert_allclose(at.source(rows), at.target(columns).T, rtol=1e-9)  # W both ways
    first = at.prefix(7)
    np.testing.assert_allclose(first.both(X)[0], C[:, :7], rtol=1e-12)
    np.testing.assert_allclose(first.both(X)[1], R[:, :7], rtol=1e-12)
    np.testing.assert_allclose(first.source(X), C[:, :7], rtol=1e-12)
    np.testing.assert_allclose(first.target(X), R[:, :7], rtol=1e-12)
    np.testing.assert_allclose(first.prefix(9).target(X), R[:, :9], rtol=1e-12) if kernel in ALL[4:] else None


@pytest.mark.parametrize("kernel", [SNE(1.5), StudentT()], ids=repr)
def test_estimated_normaliser_weighs_the_landmarks(kernel):
    at = kernel.at(Z[:10], Z[:10], 40)
    exact = kernel.at(Z[:10], Z[:10], 10)
    np.testing.assert_allclose(at.source(X), exact.source(X) / 4, rtol=1e-12)
    np.testing.assert_allclose(at.target(X), exact.target(X) / 4, rtol=1e-12)


@pytest.mark.parametrize("kernel", ALL + COMPOSED, ids=repr)
def test_symmetric_kernels_share_one_block(kernel):
    C, R = kernel.at(Z, Z, len(Z), Z).both(X)
    assert (C is R) == kernel.symmetric


@pytest.mark.parametrize("kernel", ALL + COMPOSED, ids=repr)
def test_dictionary_round_trip(kernel):
    assert kernel_from_dict(kernel.to_dict()) == kernel


@pytest.mark.parametrize("kernel", [RBF(1.5), SNE(1.5), SNE(1.5, "exact"), StudentT()], ids=repr)
def test_float32_far_from_the_origin(kernel):
    shift = 1000.0
    at = kernel.at(*2 * [(Z + shift).astype(np.float32)], len(Z), (Z + shift).astype(np.float32))
    reference = kernel.at(Z, Z, len(Z), Z)
    for role in ("source", "target"):
        found = getattr(at, role)((X + shift).astype(np.float32))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, getattr(reference, role)(X), atol=2e-3)


def test_far_points_give_no_nan():
    far = np.full((1, 4), 1e8)
    for kernel in ALL[4:]:
        C, R = kernel.at(Z, Z, len(Z), Z).both(far)
        assert np.isfinite(C).all() and np.isfinite(R).all()


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [SNE(1.0), SNE(1.0, "exact"), StudentT()], ids=repr)
def test_two_sets_that_lie_far_apart(kernel, dtype, convert):
    """Each source has less at every target than a float holds, and so has the sum that divides it."""
    X, Z = rng.normal(size=(6, 2)).astype(dtype), rng.normal(60, 1, size=(7, 2)).astype(dtype)
    expected = kernel(X.astype(np.float64), Z.astype(np.float64))
    X, Z = convert(X), convert(Z)
    at = kernel.at(X, Z, 7, Z)
    for found in (at.source(X), at.target(Z).T, at.products(Z, np.eye(7), np.eye(6))[1].T, at.prefix(4).target(Z).T):
        np.testing.assert_allclose(found, expected[: len(found)], atol=1e-9 if dtype == np.float64 else 0.02)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.integers(1, 5), st.floats(0.1, 10), st.integers(0, 2**31))
def test_sne_rows_sum_to_one(n, d, bandwidth, seed):
    points = np.random.default_rng(seed).normal(size=(n, d)) * 10
    np.testing.assert_allclose(SNE(bandwidth)(points, points).sum(1), 1, rtol=1e-9)


@pytest.mark.parametrize("make", [lambda: RBF(0), lambda: SNE(-1.0), lambda: RBF(float("nan")), lambda: SNE(1.0, "x")])
def test_bad_parameters_are_one_sentence(make):
    with pytest.raises(InputError, match="must be"):
        make()


def test_unknown_kernel_and_parameter():
    with pytest.raises(InputError, match="no kernel named 'Foo'"):
        kernel_from_dict({"name": "Foo"})
    with pytest.raises(InputError, match="bandwidth"):
        kernel_from_dict({"name": "RBF", "width": 3})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBF(0.0), r"^RBF: bandwidth is 0\.0 and must be a number above 0"),
        (lambda: Laplacian(-1.0), r"^Laplacian: bandwidth is -1\.0 and must be a number above 0"),
        (lambda: Polynomial(degree=0), "^Polynomial: degree is 0 and must be a number above 0"),
        (lambda: Polynomial(scale=-2.0), r"^Polynomial: scale is -2\.0 and must be a number above 0"),
    ],
)
def test_a_parameter_that_cannot_be_is_named_with_its_kernel(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("kernel", FORMULAS, ids=repr)
def test_a_kernel_of_float32_points_is_float32(kernel):
    found = kernel(X.astype(np.float32), Z.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, kernel(X, Z), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("kernel", [RBF(1.5), SNE(1.5), StudentT()], ids=repr)
def test_sparse_and_dense_points_meet(kernel):
    for x, z in ((sp.csr_matrix(X), Z), (X, sp.csr_matrix(Z))):
        np.testing.assert_allclose(kernel(x, z), kernel(X, Z), rtol=1e-9)


@pytest.mark.parametrize(("types", "rtol"), [((np.float32, np.float64), 1e-12), ((np.float64, np.float32), 1e-4)])
def test_points_of_two_precisions_meet_in_the_wider_one(types, rtol):
    """The points x are used to the precision that is asked, and the points z are centred in their own."""
    x, z = X.astype(types[0]), Z.astype(types[1])
    found = RBF(1.5)(x, z)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, RBF(1.5)(x.astype(np.float64), z.astype(np.float64)), rtol=rtol)

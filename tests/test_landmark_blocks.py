"""Public blocks of a kernel matrix: lazy, kept in zarr, and what dask makes of them."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr

import ask_dask
from ask_dask import LandmarkBlocks, moments
from ask_dask.errors import InputError, StoreError
from ask_dask.kernels import RBF, SNE, Precomputed

rng = np.random.default_rng(0)
X, Z = rng.normal(size=(5000, 3)), rng.normal(size=(3000, 3))
I, J = np.array([5, 3, 400]), np.array([7, 0, 299, 12])  # noqa: E741


@pytest.mark.parametrize("kernel", [RBF(1.5), SNE(1.5)], ids=repr)
def test_blocks_are_rows_and_columns_of_the_kernel_matrix(kernel):
    found = LandmarkBlocks(kernel, X, Z, landmarks=(I, J))
    at = kernel.at(X[I], Z[J], len(Z), Z if kernel.needs_targets else None)
    assert isinstance(found.C, da.Array) and isinstance(found.R, da.Array) and isinstance(found.W, np.ndarray)
    assert found.C.numblocks[0] > 1 and found.R.numblocks[1] > 1
    np.testing.assert_allclose(found.C, at.source(X), rtol=1e-12)
    np.testing.assert_allclose(found.R, at.target(Z).T, rtol=1e-12)
    np.testing.assert_allclose(found.W, np.asarray(found.C)[I], rtol=1e-12)
    np.testing.assert_allclose(found.W, np.asarray(found.R)[:, J], rtol=1e-12)
    np.testing.assert_allclose(found.C.T @ found.C, at.source(X).T @ at.source(X), rtol=1e-10)


def test_landmarks_by_number_serve_both_roles():
    found = LandmarkBlocks(SNE(1.0), X, landmarks=40, random_state=3)
    np.testing.assert_array_equal(found.row_landmarks, found.column_landmarks)
    assert found.C.shape == (5000, 40) and found.R.shape == (40, 5000) and found.W.shape == (40, 40)
    assert not np.array_equal(found.row_landmarks, LandmarkBlocks(SNE(1.0), X, landmarks=40).row_landmarks)
    apart = LandmarkBlocks(SNE(1.0), X, Z, landmarks=(40, 20))
    assert apart.W.shape == (40, 20) and apart.column_landmarks.max() < 3000
    assert LandmarkBlocks(SNE(1.0), X[:30], landmarks=1000).C.shape == (30, 30)


def test_the_approximation_with_all_rows_is_the_matrix():
    K = rng.normal(size=(30, 30))
    found = LandmarkBlocks(Precomputed(K), np.arange(30)[:, None], landmarks=30)
    np.testing.assert_allclose(found.C @ np.linalg.pinv(found.W) @ found.R, K, atol=1e-9)


INPUTS = {
    "numpy": lambda X: X,
    "pandas": pd.DataFrame,
    "sparse": sp.csr_matrix,
    "dask": lambda X: da.from_array(X, chunks=(770, -1)),
    "zarr": lambda X: zarr.create_array({}, data=X, chunks=(640, 3)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_lazy_and_stored_blocks_have_the_same_bits(tmp_path, make, dtype):
    found = LandmarkBlocks(SNE(1.5), make(X.astype(dtype)), landmarks=30)
    kept = found.to_zarr(tmp_path / "b.zarr")
    again = LandmarkBlocks.from_zarr(tmp_path / "b.zarr")
    for name in ("C", "R", "W", "row_landmarks", "column_landmarks"):
        one, two, three = (np.asarray(getattr(each, name)) for each in (found, kept, again))
        assert one.dtype == two.dtype == (dtype if name in "CR" else one.dtype)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(found.C, kept.C)
    np.testing.assert_array_equal(kept.to_zarr(tmp_path / "copy.zarr").R, found.R)


def test_blocks_are_those_that_a_pass_sums():
    """Without pivots the fused pass sums C'C itself."""
    found = LandmarkBlocks(SNE(1.5), X, landmarks=30)
    at = SNE(1.5).at(X[found.row_landmarks], X[found.column_landmarks], len(X))
    rows = moments.Rows(np.zeros((len(X), 1)), np.asarray, np.zeros(len(X), int))
    source, target = moments.gather(X, rows, 1, at, X[:0], pivots=0).sides
    np.testing.assert_allclose(source.gram[0], found.C.T @ found.C, rtol=1e-12)
    np.testing.assert_allclose(target.gram[0], found.R @ found.R.T, rtol=1e-12)


@pytest.mark.parametrize("given", [0, -3, 2.7, True, "many", (3,), (3, 4, 5), [5000], [-1], [0.5], [[1]], []], ids=str)
def test_landmarks_that_are_no_rows_are_refused(given):
    with pytest.raises(InputError, match="landmarks"):
        LandmarkBlocks(RBF(1.0), X, landmarks=given)


@pytest.mark.parametrize(("rows", "targets"), [(X, X[:, :1]), (X[:0], None), (X, X[:0])])
def test_rows_and_targets_that_do_not_fit_are_refused(rows, targets):
    with pytest.raises(InputError, match="of equal width"):
        LandmarkBlocks(RBF(1.0), rows, targets, landmarks=2)


def test_rows_that_are_not_finite_are_refused():
    bad = X.copy()
    bad[321, 1] = np.nan
    with pytest.raises(InputError, match="NaN, first in row 321, column 1"):
        LandmarkBlocks(RBF(1.0), bad, landmarks=[0, 1]).C.compute()


def test_a_place_that_is_taken_is_refused(tmp_path):
    found = LandmarkBlocks(RBF(1.0), X, landmarks=5)
    found.to_zarr(tmp_path / "b.zarr")
    with pytest.raises(StoreError, match=r"b.zarr exists already"):
        found.to_zarr(tmp_path / "b.zarr")
    found.to_zarr(tmp_path / "b.zarr", overwrite=True)
    with pytest.raises(StoreError, match="is a blocks store, where a model or an embedding is needed"):
        ask_dask.load(tmp_path / "b.zarr")

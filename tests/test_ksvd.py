"""KSVD and the asymmetric Nystrom method: the identities of the papers, every kind of input, bad input."""

import math

import dask
import dask.array as da
import numpy as np
import oracle
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA, KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ask_dask import KSVD, AsymmetricNystroem, blocks, budget, landmarks, load, store
from ask_dask.errors import BudgetError, InputError, StoreError
from ask_dask.estimators import compat, two_sets
from ask_dask.estimators.sketch import Sketch
from ask_dask.estimators.two_sets import Pairs
from ask_dask.kernels import RBF, SNE, DirectedGraph, Linear, Polynomial, Precomputed
from ask_dask.nystrom import resolution
from ask_dask.score import eta, subspace_error
from ask_dask.solve.vectors import Gram, scaled

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(160, 3)), RNG.normal(size=(130, 3)) + 0.3
KERNEL = SNE(3.0, normaliser="exact")
K = KERNEL(X, Z)
A = RNG.normal(size=(40, 2)) @ RNG.normal(size=(2, 25)) + 0.1 * RNG.normal(size=(40, 25))


def centred(M, center=True):
    return M - M.mean(0) - M.mean(1)[:, None] + M.mean() if center else M


def parts(model):
    left, right = (np.asarray(v) for v in (model.left_singular_vectors_, model.right_singular_vectors_))
    return left, model.singular_values_, right


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("solver", ["dense", "arpack", "iterated"])
def test_every_exact_solver_gives_the_decomposition(solver, center):
    model = KSVD(KERNEL, 4, center=center, solver=solver, tol=1e-11, random_state=0).fit(X, Z=Z)
    U, s, V = parts(model)
    exact = np.linalg.svd(centred(K, center))[1][:4]
    np.testing.assert_allclose(s, exact, rtol=1e-8)
    np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(U.T @ centred(K, center) @ V, np.diag(s), atol=1e-8)
    np.testing.assert_allclose(model.transform(X), U * s, atol=1e-12)
    np.testing.assert_allclose(model.transform_target(Z), V * s, atol=1e-12)
    # new points: k(x, Z) V and k(X, z)'U, centred as in training
    new = RNG.normal(size=(7, 3))
    block = KERNEL.at(X, Z, len(Z), Z).source(new)
    np.testing.assert_allclose(model.transform(new), (block - (K.mean(0) if center else 0)) @ V, atol=1e-8)
    block = KERNEL.at(X, Z, len(Z), Z).target(new)
    np.testing.assert_allclose(model.transform_target(new), (block - (K.mean(1) if center else 0)) @ U, atol=1e-8)


@pytest.mark.parametrize("center", [False, True])
def test_scores_of_new_points_on_landmarks_are_nearly_those_of_the_whole_kernel(center):
    new, at = np.random.default_rng(1).normal(size=(7, 3)), KERNEL.at(X, Z, len(Z), Z)
    model = KSVD(KERNEL, 4, n_landmarks=(60, 50), center=center, random_state=0).fit(X, Z=Z)
    U, _, V = parts(model)
    for found, block, mean, vectors in ((model.transform(new), at.source(new), K.mean(0), V),
                                        (model.transform_target(new), at.target(new), K.mean(1), U)):  # fmt: skip
        expected = (block - mean if center else block) @ vectors
        assert np.linalg.norm(found - expected) < 0.01 * np.linalg.norm(expected)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("change", [{}, {"n_landmarks": (60, 50)}, {"n_landmarks": (60, 50), "method": "scaled"}])
def test_the_largest_entry_of_a_left_vector_is_positive_and_the_right_one_goes_along(change, center):
    model = KSVD(KERNEL, 4, center=center, random_state=0, **change).fit(X, Z=Z)
    U, _, V = parts(model)
    of_landmarks = U[model.row_landmarks_]  # all rows, of an exact fit
    assert (of_landmarks[np.abs(of_landmarks).argmax(0), np.arange(4)] > 0).all()
    assert (np.diag(U.T @ centred(K, center) @ V) > 0).all()


@pytest.mark.parametrize("center", [False, True])
def test_the_scaled_vectors_are_those_of_the_paper(center):
    """Centred: the core by its own means, the vectors by those of all rows and columns."""
    I, J = np.arange(50), np.arange(20, 60)  # noqa: E741
    given_ = {"n_landmarks": 1, "landmarks": (I, J), "n_probes": 0}
    model = KSVD(KERNEL, 5, method="scaled", center=center, **given_).fit(X, Z=Z)
    U, s, V = oracle.nystrom_singular_vectors(K[:, J], centred(K[np.ix_(I, J)], center), K[I], 5)
    if center:
        U, V = (side / np.linalg.norm(side, axis=0) for side in (U - U.mean(0), V - V.mean(0)))
    mine = parts(model)
    np.testing.assert_allclose(mine[1], s, rtol=1e-9)
    np.testing.assert_allclose(np.abs((mine[0] * U).sum(0)), 1, atol=1e-9)
    np.testing.assert_allclose(np.abs((mine[2] * V).sum(0)), 1, atol=1e-9)
    exact = np.linalg.svd(centred(K, center))
    found = [fn(exact[0][:, :5], exact[1][:5], exact[2][:5].T, *pair)
             for fn, pair in ((oracle.eta, (U, V)), (eta, (mine[0], mine[2])))]  # fmt: skip
    assert found[0] == pytest.approx(found[1], abs=1e-9)
    assert subspace_error(exact[0][:, :5], mine[0]) == pytest.approx(
        oracle.subspace_error(exact[0][:, :5], U), abs=1e-9
    )


@pytest.mark.filterwarnings("ignore:Found:sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(3, 40), m=st.integers(3, 40), rank=st.integers(1, 6), center=st.booleans(),
    oversampling=st.integers(0, 8), seed=st.integers(0, 99),
)  # fmt: skip
def test_orthonormal_vectors_are_the_exact_decomposition_of_the_approximation(n, m, rank, center, oversampling, seed):
    change = {"center": center, "oversampling": oversampling, "n_probes": 0, "random_state": seed}
    model = KSVD(KERNEL, rank, n_landmarks=(n, m), **change)
    U, s, V = parts(model.fit(X, Z=Z))
    I, J = model.row_landmarks_, model.column_landmarks_  # noqa: E741
    np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-7)
    np.testing.assert_allclose(V.T @ V, np.eye(len(s)), atol=1e-7)
    np.testing.assert_allclose(model.transform(X), U * s, atol=1e-12)
    np.testing.assert_allclose(model.transform_target(Z), V * s, atol=1e-12)
    if center:
        np.testing.assert_allclose(U.mean(0), 0, atol=1e-9)
        np.testing.assert_allclose(V.mean(0), 0, atol=1e-9)
    if oversampling == 0:
        approximate = K[:, J] @ np.linalg.pinv(K[np.ix_(I, J)], np.sqrt(resolution(K.dtype))) @ K[I]
        exact = np.linalg.svd(centred(approximate, center))[1][: len(s)]
        np.testing.assert_allclose(s, exact, atol=1e-6 * exact[0])
        coarse = 3e-4 * exact[0]  # features are resolved to the root of what their Grams are
        full, values, right = parts(KSVD(KERNEL, 40, n_landmarks=(n, m), **change).fit(X, Z=Z))
        np.testing.assert_allclose(full * values @ right.T, centred(approximate, center), atol=coarse)
        if not center and n <= m:  # C W^+ R is K at the rows I
            np.testing.assert_allclose(K[I] @ V, U[I] * s, atol=coarse)
        if not center and m <= n:
            np.testing.assert_allclose(K[:, J].T @ U, V[J] * s, atol=coarse)


def test_all_points_as_landmarks_are_exact():
    model = KSVD(KERNEL, 4, n_landmarks=(160, 130), center=True).fit(X, Z=Z)  # no point is left to be a probe
    exact = KSVD(KERNEL, 4, center=True).fit(X, Z=Z)
    for mine, theirs in zip(parts(model), parts(exact), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-5)  # values below 1e-7 are cut
    assert model.error_ is None


@pytest.mark.parametrize("center", [False, True])
def test_the_estimated_error_is_that_of_the_vectors(center):
    ratios = []
    for seed in range(8):
        model = KSVD(KERNEL, 4, n_landmarks=(12, 14), n_probes=60, center=center, random_state=seed).fit(X, Z=Z)
        U, s, V = parts(model)
        M, found, scale = centred(K, center), model.error_, np.linalg.norm(s)
        ratios.append([found.left * scale / np.linalg.norm(M @ V - U * s),
                       found.right * scale / np.linalg.norm(M.T @ U - V * s)])  # fmt: skip
        assert found.left_deviation > 0 and found.right_deviation > 0
    ratios = np.array(ratios)
    assert (ratios > 1 / 3).all() and (ratios < 3).all()
    assert 0.7 < np.sqrt((ratios**2).mean()) < 1.4


def test_two_standard_errors_hold_the_error_although_few_rows_bear_most_of_it():
    """Their squares are skewed: by the spread of the sample alone it were some 82 %."""
    off = []
    for seed in range(120):
        random = np.random.default_rng(seed)
        x, z = random.normal(size=(160, 2)), random.normal(size=(130, 2)) + 0.3
        kernel, center = (SNE(3.0, normaliser="exact"), RBF(3.0), Polynomial(3))[seed % 3], seed % 2 == 1
        model = KSVD(kernel, 4, n_landmarks=(12, 14), n_probes=40, center=center, random_state=seed).fit(x, Z=z)
        U, s, V = parts(model)
        M, found = centred(kernel(x, z), center), model.error_
        true = np.array([np.linalg.norm(M @ V - U * s), np.linalg.norm(M.T @ U - V * s)]) / np.linalg.norm(s)
        off.append(np.abs([found.left, found.right] - true) / [found.left_deviation, found.right_deviation])
    assert np.mean(np.array(off) < 2) > 0.93
    assert np.mean(np.array(off) < 0.5) < 0.85  # nor are they too wide


def test_landmarks_are_added_until_the_tolerance_is_met():
    few = KSVD(KERNEL, 4, n_landmarks=5, random_state=0, n_probes=30).fit(X, Z=Z)
    model = KSVD(KERNEL, 4, n_landmarks=5, tol=1e-2, random_state=0, n_probes=30).fit(X, Z=Z)
    assert few.error_.largest > 1e-2 >= model.error_.largest
    assert 5 < len(model.row_landmarks_) < 130
    with pytest.warns(ConvergenceWarning, match="tol=1e-09 was asked for. More landmarks do not fit: "):
        KSVD(KERNEL, 4, n_landmarks=5, tol=1e-9, n_probes=30, memory="3.5MiB", random_state=0).fit(X, Z=Z)


def warned(model, **points):
    """The fitted model, and the one sentence that it warned with."""
    with pytest.warns(ConvergenceWarning) as told:
        model.fit(**points)
    return model, str(told.pop().message)


def test_components_that_the_probes_leave_out_are_not_reached():
    """The error is relative to what was found: of one component that stands for ten it says nothing."""
    random, change = np.random.default_rng(0), {"n_landmarks": 20, "n_probes": 40, "random_state": 0}
    x, z = random.normal(size=(400, 3)), random.normal(size=(400, 3))
    few, says = warned(KSVD(SNE(0.5, normaliser="exact"), 10, **change), X=x, Z=z)
    assert few.n_components_ == 1 and few.error_.largest < 0.3
    assert says.startswith("Found 1 of 10 components") and says.endswith("Give more landmarks.")
    model = KSVD(SNE(0.5, normaliser="exact"), 10, tol=0.3, **change).fit(x, Z=z)
    assert model.n_components_ == 10 and model.error_.largest <= 0.3 and len(model.row_landmarks_) < 400
    assert "all that 4 and 6 landmarks" in warned(KSVD(KERNEL, 8, n_landmarks=(4, 6), random_state=0), X=X, Z=Z)[1]
    assert KSVD(KERNEL, 8, n_landmarks=4, tol=0.9, random_state=0).fit(X, Z=Z).n_components_ == 8


def test_given_landmarks_above_the_tolerance_are_told():
    given_ = {"n_landmarks": 1, "landmarks": (np.arange(9), np.arange(9)), "random_state": 0}
    model, says = warned(KSVD(KERNEL, 4, tol=1e-4, **given_), X=X, Z=Z)
    assert says.startswith(f"The error of 9 and 9 landmarks is estimated as {model.error_.largest:.2g}, and tol=0.0001")
    given_ = given_ | {"landmarks": (np.arange(159), np.arange(9))}
    assert "landmarks cannot be estimated" in warned(KSVD(KERNEL, 4, tol=1e-4, **given_), X=X, Z=Z)[1]


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("n_landmarks", [(50, 10), (10, 10)])
def test_the_tolerance_holds_where_one_side_has_few_points(n_landmarks, center):
    """Where all of its points are landmarks the error of that side is exact, and the other side goes on."""
    x, z, kernel = RNG.normal(size=(50, 3)), RNG.normal(size=(900, 3)), RBF(0.5)
    model = KSVD(kernel, 8, n_landmarks=n_landmarks, tol=1e-3, center=center, random_state=0).fit(x, Z=z)
    U, s, V = parts(model)
    M = centred(kernel(x, z), center)
    assert len(model.column_landmarks_) < 900 and model.error_.largest <= 1e-3
    assert max(np.linalg.norm(M @ V - U * s), np.linalg.norm(M.T @ U - V * s)) < 2e-3 * np.linalg.norm(s)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_the_error_of_a_side_whose_points_all_are_landmarks_is_exact(turned, center):
    x, z = (Z, X[:20]) if turned else (X[:20], Z)
    model = KSVD(KERNEL, 4, n_landmarks=(12, 20) if turned else (20, 12), center=center, random_state=0).fit(x, Z=z)
    U, s, V = parts(model)
    M, found = centred(KERNEL(x, z), center), model.error_
    assert (found.right_deviation if turned else found.left_deviation) == 0
    exact = np.linalg.norm(M.T @ U - V * s) if turned else np.linalg.norm(M @ V - U * s)
    assert (found.right if turned else found.left) * np.linalg.norm(s) == pytest.approx(exact, rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("how", [how for how in landmarks.HOWS if how != "coverage"])
@pytest.mark.parametrize("same", [False, True])
def test_every_choice_of_landmarks(how, same, tmp_path):
    exact = np.linalg.svd(KERNEL(X, X if same else Z))[1][:3]
    for points in (X, stored(tmp_path / "x", X, (50, 3))):
        model = KSVD(KERNEL, 3, n_landmarks=40, landmarks=how, random_state=0).fit(points, Z=points if same else Z)
        np.testing.assert_allclose(model.singular_values_, exact, rtol=0.05)
        assert len(set(model.row_landmarks_)) == len(set(model.column_landmarks_)) == 40


def test_landmarks_of_a_graph_by_coverage():
    """Ten stars of fifteen leaves: their centres are all there is to cover."""
    leaves = np.arange(10, 160)
    graph, nodes = DirectedGraph(np.c_[leaves, leaves % 10], normalise=None), np.arange(160)[:, None]
    model = KSVD(graph, 5, n_landmarks=10, landmarks="coverage", random_state=0).fit(nodes)
    assert set(model.row_landmarks_) == set(model.column_landmarks_) == set(range(10))


def test_a_matrix_without_low_rank_is_not_amplified():
    """W^+ of unpaired landmarks has huge entries, and where K has no low rank C W^+ R is then nowhere near it."""
    sharp = SNE(0.7, normaliser="exact")
    exact = np.linalg.norm(sharp(X, Z))
    found = []
    for change in ({"n_probes": 0, "oversampling": 0}, {}):
        model = AsymmetricNystroem(sharp, 40, random_state=0, **change).fit(X, Z=Z)
        found.append(np.linalg.norm(model.transform(X) @ model.transform_target(Z).T - sharp(X, Z)) / exact)
    assert found[0] > 10 and found[1] < 1


def test_oversampling_the_core_helps_where_the_landmarks_are_few():
    exact = np.linalg.svd(K)[0][:, :4]
    errors = [
        np.mean([
            subspace_error(exact, parts(KSVD(KERNEL, 4, n_landmarks=8, oversampling=more, random_state=seed)
                                        .fit(X, Z=Z))[0]) for seed in range(5)
        ]) for more in (0, 60)
    ]  # fmt: skip
    assert errors[1] < 0.8 * errors[0]


def stored(path, values, chunks):
    array = zarr.create_array(path, shape=values.shape, chunks=chunks, dtype=values.dtype)
    array[:] = values
    return array


def inputs(folder):
    folder.mkdir()
    yield "numpy", X, Z
    yield "sparse", sp.csr_matrix(X), sp.csr_matrix(Z)
    yield "dask", da.from_array(X, chunks=(37, 3)), da.from_array(Z, chunks=(130, 3))
    yield "zarr", *(stored(folder / name, points, (50, 3)) for name, points in (("x", X), ("z", Z)))


@pytest.mark.parametrize("n_landmarks", [None, (30, 40), (160, 130)])
def test_kind_and_chunks_of_the_input_do_not_matter(n_landmarks, tmp_path):
    expected = KSVD(KERNEL, 3, n_landmarks=n_landmarks, random_state=0, center=True).fit(X, Z=Z)
    for name, x, z in inputs(tmp_path / "in"):
        model = KSVD(KERNEL, 3, n_landmarks=n_landmarks, random_state=0, center=True).fit(x, Z=z)
        for mine, theirs in zip(parts(model), parts(expected), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9, err_msg=name)
        scores = model.transform(x)
        assert isinstance(scores, da.Array) == (name in ("dask", "zarr"))
        np.testing.assert_allclose(np.asarray(scores), expected.transform(X), atol=1e-9)


@pytest.mark.parametrize(
    ("n", "change"),
    [
        (5000, {"n_landmarks": (60, 50), "center": True}),
        (5000, {"n_landmarks": (60, 50), "method": "scaled"}),
        (2100, {"solver": "iterated", "center": True, "tol": 0.1}),
    ],
    ids=["orthonormal", "scaled", "iterated"],
)
def test_shards_and_workers_do_not_matter(n, change, monkeypatch):
    x, z = RNG.normal(size=(n, 3)), RNG.normal(size=(2100, 3)) + 0.3

    def fitted(x, z):
        return parts(KSVD(RBF(4.0), 3, random_state=0, **change).fit(x, Z=z))

    expected = fitted(x, z)
    monkeypatch.setattr(budget, "CHUNK_BYTES", 1)
    monkeypatch.setattr(budget, "SHARD_BYTES", 1)
    assert (len(blocks.shards(x)), len(blocks.shards(z))) == (3 if n == 5000 else 2, 2)
    for workers, sets in ((1, (x, z)), (2, (da.from_array(x, chunks=(777, 3)), da.from_array(z, chunks=(900, 3))))):
        with dask.config.set(num_workers=workers):
            for mine, theirs in zip(fitted(*sets), expected, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-9 * np.abs(theirs).max())


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("method", ["orthonormal", "scaled"])
def test_float32_is_as_close_as_float32_can_be(method, center):
    random = np.random.default_rng(0)
    x, z = random.normal(size=(1500, 3)), random.normal(size=(1200, 3)) + 0.3
    change = {"n_components": 4 - center, "method": method, "center": center}  # then come values of nearly one size
    exact, single = (
        KSVD(SNE(3.0), n_landmarks=60, random_state=0, **change).fit(x.astype(dtype), Z=z.astype(dtype))
        for dtype in (np.float64, np.float32)
    )
    np.testing.assert_allclose(single.singular_values_, exact.singular_values_, rtol=3e-2)
    for mine, theirs in zip(parts(single)[::2], parts(exact)[::2], strict=True):
        assert subspace_error(np.linalg.qr(theirs)[0], mine) < (4e-2 if method == "orthonormal" else 1e-3)
    assert single.transform(x.astype(np.float32)).dtype == np.float32
    assert single.transform_target(z.astype(np.float32)).dtype == np.float32


def test_scaled_vectors_that_rounding_hides_are_left_out():
    """Grams that were summed in float32 hold squares below their rounding, which then may be negative."""
    points = np.random.default_rng(3).normal(size=(20_000, 3)).astype(np.float32)
    C = RBF(30.0)(points, points[:300])
    gram = Gram(20_000, C.sum(0, dtype=np.float64), (C.T @ C).astype(np.float64))
    found = scaled(C[:300], gram, gram, 60, False, resolution(np.float32))
    assert 3 < len(found.values) < 9 and np.isfinite(found.source).all() and np.isfinite(found.target).all()


def test_a_matrix_of_low_rank_gives_no_more_components_than_it_has():
    low = A - 0.0
    low = np.outer(np.arange(1.0, 41), np.arange(1.0, 26)) + np.outer(np.ones(40), np.arange(25.0)[::-1])
    for how in (None, (20, 15)):
        model = KSVD(Precomputed(low), 6, n_landmarks=how, random_state=0)
        model.fit(np.arange(40)[:, None], Z=np.arange(25)[:, None])
        assert model.n_components_ == 2
        U, s, V = parts(model)
        np.testing.assert_allclose(U * s @ V.T, low, atol=1e-8)


def test_a_data_matrix_has_rows_and_columns():
    square = A[:25]
    model = KSVD(RBF(4.0), 3).fit(square)
    np.testing.assert_allclose(model.singular_values_, np.linalg.svd(RBF(4.0)(square, square.T))[1][:3])
    with pytest.raises(InputError, match="40 x 25"):
        KSVD(RBF(4.0), 3).fit(A)


def test_the_pseudo_inverse_makes_the_linear_kernel_plain_svd():
    model = KSVD(Linear(), 3, compat="pinv").fit(A)
    np.testing.assert_allclose(model.singular_values_, np.linalg.svd(A)[1][:3])
    np.testing.assert_allclose(model.transform(A), parts(model)[0] * model.singular_values_)
    np.testing.assert_allclose(model.transform_target(A.T), parts(model)[2] * model.singular_values_)


@pytest.mark.parametrize(("compat", "dim"), [("pca", None), ("axes", None), ("random", None), ("random", 12)])
@pytest.mark.parametrize("matrix", [A, A.T], ids=["tall", "wide"])
def test_compatible_rows_and_columns(matrix, compat, dim):
    expected = KSVD(RBF(8.0), 3, compat=compat, compat_dim=dim, random_state=3).fit(matrix)
    for given_ in (matrix, sp.csr_matrix(matrix)):
        model = KSVD(RBF(8.0), 3, compat=compat, compat_dim=dim, random_state=3).fit(given_)
        U, s, V = parts(model)
        assert (U.shape, V.shape) == ((len(matrix), 3), (matrix.shape[1], 3))
        np.testing.assert_allclose(np.asarray(model.transform(given_)), U * s, atol=1e-9)
        np.testing.assert_allclose(np.asarray(model.transform_target(given_.T)), V * s, atol=1e-9)
        np.testing.assert_allclose(s, expected.singular_values_, rtol=1e-6)


def test_on_paired_axes_rows_and_columns_keep_their_distances_and_may_change_places():
    X, Z, _ = compat.compatible(A, "axes", None, 0)
    assert X.shape[1] == Z.shape[1] == min(A.shape)
    np.testing.assert_allclose(X @ X.T, A @ A.T, atol=1e-9)
    np.testing.assert_allclose(Z @ Z.T, A.T @ A, atol=1e-9)
    np.testing.assert_allclose(np.linalg.svd(X @ Z.T)[1][:5], np.linalg.svd(A)[1][:5] ** 2)
    Z_first, X_second, _ = compat.compatible(np.ascontiguousarray(A.T), "axes", None, 0)
    np.testing.assert_allclose(X_second @ Z_first.T, X @ Z.T, atol=1e-9)


def test_a_sketch_does_not_depend_on_how_the_matrix_is_cut(tmp_path):
    expected = KSVD(RBF(8.0), 3, compat="random", compat_dim=12, random_state=3).fit(A)
    for matrix in (da.from_array(A, chunks=(9, 11)), stored(tmp_path / "a", A, (7, 25))):
        found = KSVD(RBF(8.0), 3, compat="random", compat_dim=12, random_state=3).fit(matrix)
        for mine, theirs in zip(parts(found), parts(expected), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-9)
    sketch = Sketch(12, 3)
    np.testing.assert_array_equal(sketch.projection(0, 0, 50)[20:30], sketch.projection(0, 20, 10))


def test_rows_of_a_sketch_have_length_one_and_are_uncorrelated():
    """Moments of products of independent rows: e = 4 signs of size 1 / sqrt(e) at d places, drawn independently.

    A squared length is 1 plus twice the signed collisions within the row: mean 1, variance 2 (e - 1) / (e d). A product
    of two rows has mean 0 and variance 1 / d; its fourth moment counts the collisions of the signs of one row with
    those of the other: each four times, two of them, and rectangles of four.
    """
    d, e, n = 64, 4, 4000
    rows = Sketch(d, 0).projection(0, 0, 2 * n)
    products = (rows[:n] * rows[n:]).sum(1)
    fourth = (e**2 / d + 3 * e**2 * (e**2 - 1) / d**2 + 24 * math.comb(e, 2) ** 2 / d**3) / e**4
    for values, mean, variance in (
        ((rows**2).sum(1), 1, 2 * (e - 1) / (e * d)),
        (products, 0, 1 / d),
        (products**2, 1 / d, fourth - 1 / d**2),
    ):
        assert abs(values.mean() - mean) < 4 * np.sqrt(variance / len(values))


def test_sketches_of_sparse_rows_are_the_same_however_they_are_cut(monkeypatch):
    sketch, matrix = Sketch(12, 3), sp.csr_matrix(A.astype(np.float32))
    whole = compat.sketched(matrix, sketch)[:2]
    np.testing.assert_allclose(whole[0], A @ sketch.projection(0, 0, A.shape[1]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(whole[1], A.T @ sketch.projection(1, 0, A.shape[0]), rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(budget, "shard_rows", lambda row_bytes: 7)
    assert len(blocks.shards(matrix)) == 6
    for cut, expected in zip(compat.sketched(matrix, sketch)[:2], whole, strict=True):
        np.testing.assert_array_equal(cut, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(700, 500), (12, 500), (500, 20)])
def test_few_iterations_suffice_where_values_fall_slowly_and_where_a_side_is_small(shape, dtype):
    """Powers of the matrix alone take more than a hundred; float32 entries know the residual to 1e-7."""
    rng = np.random.default_rng(1)
    points, others = (rng.normal(size=(size, 20)).astype(dtype) for size in shape)
    model = KSVD(SNE(4.0), 5, center=True, solver="iterated", random_state=0).fit(points, Z=others)
    residual, relative = (1e-8, 1e-12) if dtype == np.float64 else (1e-6, 1e-5)
    assert len(model.residuals_) < 15 and model.residuals_[-1] <= residual
    exact = KSVD(SNE(4.0), 5, center=True, solver="dense").fit(points.astype(float), Z=others.astype(float))
    np.testing.assert_allclose(model.singular_values_, exact.singular_values_, rtol=relative)


def test_a_fit_forgets_the_one_before():
    model = KSVD(RBF(4.0), 3, compat="pca").fit(A)
    fresh = KSVD(RBF(4.0), 3, compat="pca").fit(X, Z=Z)
    np.testing.assert_allclose(model.fit(X, Z=Z).transform(X), fresh.transform(X))


def test_iterations_that_do_not_suffice_are_told():
    with pytest.warns(ConvergenceWarning, match="After 2 iterations the residual is"):
        KSVD(KERNEL, 3, solver="iterated", max_iter=2, random_state=0).fit(X, Z=Z)


def test_node_numbers_with_a_graph():
    graph = DirectedGraph(RNG.integers(0, 60, size=(300, 2)))
    numbers = np.arange(60)
    dense = graph.matrix.toarray()
    for solver in ("dense", "arpack"):
        model = KSVD(graph, 5, solver=solver, random_state=0).fit(numbers)
        np.testing.assert_allclose(model.singular_values_, np.linalg.svd(dense)[1][:5])
    some = KSVD(graph, 5, n_landmarks=40, random_state=0).fit(numbers)
    assert np.asarray(some.left_singular_vectors_).shape == (60, 5)


def test_scores_as_features_in_a_pipeline():
    y = X[:, 0] > 0
    model = make_pipeline(AsymmetricNystroem(SNE(3.0), 40, random_state=0), LogisticRegression(C=100.0)).fit(X, y)
    assert model.score(X, y) > 0.9
    assert clone(KSVD(SNE(2.0), 7)).n_components == 7


@pytest.mark.parametrize("center", [False, True])
def test_vectors_of_a_data_matrix_as_features_of_a_classifier_and_of_a_regressor(center):
    """Its columns are the targets: new rows meet them as the training rows do."""
    rng = np.random.default_rng(2)
    hidden = rng.normal(size=(90, 2))
    matrix = hidden @ rng.normal(size=(2, 25)) + 0.1 * rng.normal(size=(90, 25))
    embedding = KSVD(RBF(12.0), 5, compat="pinv", center=center)
    for last, y in ((LogisticRegression(C=100.0), hidden[:, 0] > 0), (RidgeCV(), hidden[:, 0])):
        model = make_pipeline(clone(embedding), StandardScaler(), last).fit(matrix[:60], y[:60])
        assert model.score(matrix[60:], y[60:]) > 0.85


@pytest.mark.parametrize("shape", [(40, 7), (7, 40)])
@pytest.mark.parametrize("rank", [7, 4])
def test_by_the_pseudo_inverse_rows_come_to_columns_or_columns_to_rows(shape, rank):
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    inverse = np.linalg.pinv(matrix)
    for how, rows, columns in (("pinv_rows", matrix @ inverse, matrix.T), ("pinv", matrix, matrix.T @ inverse.T)):
        model, direct = KSVD(RBF(3.0), 3, compat=how).fit(matrix), KSVD(RBF(3.0), 3).fit(rows, Z=columns)
        np.testing.assert_allclose(model.transform(matrix[:5]), direct.transform(rows[:5]), atol=1e-9)
        np.testing.assert_allclose(
            model.transform_target(matrix.T[:5]), direct.transform_target(columns[:5]), atol=1e-9
        )


def test_pca_svd_and_kernel_pca_are_the_same_call():
    points = X * [3.0, 2.0, 1.0] + 5
    pca, kpca = PCA(2).fit(points), KernelPCA(3, kernel="rbf", gamma=1 / 4).fit(X)
    P, s, Qt = np.linalg.svd(A, full_matrices=False)
    for model, values, vectors in (
        (KSVD(Linear(), 2, center=True).fit(points, Z=points), pca.singular_values_**2,
         pca.transform(points) / pca.singular_values_),
        (KSVD(RBF(2.0), 3, center=True).fit(X, Z=X), kpca.eigenvalues_, kpca.eigenvectors_),
        (KSVD(Linear(), 3, compat="pinv").fit(A), s[:3], P[:, :3]),
    ):  # fmt: skip
        U, found, V = parts(model)
        np.testing.assert_allclose(found, values, rtol=1e-9)
        np.testing.assert_allclose(np.abs((U * vectors).sum(0)), 1, atol=1e-9)
        other = Qt[:3].T if len(V) == A.shape[1] else vectors
        np.testing.assert_allclose(np.abs((V * other).sum(0)), 1, atol=1e-9)


def test_features_multiply_to_the_approximation():
    model = AsymmetricNystroem(KERNEL, (30, 40), oversampling=0, n_probes=0, random_state=1).fit(X, Z=Z)
    I, J = model.row_landmarks_, model.column_landmarks_  # noqa: E741
    approximate = K[:, J] @ np.linalg.pinv(K[np.ix_(I, J)], 7e-15) @ K[I]
    np.testing.assert_allclose(model.transform(X) @ model.transform_target(Z).T, approximate, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n_landmarks": 1000}, "1000 row landmarks are more than the 160 points"),
        ({"n_landmarks": (10, 0)}, "must be a whole number above 0, or two"),
        ({"n_landmarks": 2.5}, "must be a whole number above 0, or two"),
        ({"n_components": 0}, "n_components=0 must be a whole number, 1 or more"),
        ({"method": "exact"}, "method='exact' must be one of orthonormal, scaled"),
        ({"solver": "fast"}, "solver='fast' must be one of"),
        ({"tol": -1.0}, "tol=-1.0 must be a number between 0 and 1"),
        ({"n_landmarks": 10, "tol": 0.1, "n_probes": 0}, "set n_probes to 2 or more"),
        ({"n_landmarks": 10, "oversampling": -1}, "oversampling=-1 must be 'auto' or"),
        ({"n_landmarks": 10, "landmarks": "best"}, "no way 'best' to choose landmarks"),
        ({"n_landmarks": 10, "landmarks": ([1, 2], [500])}, "row numbers, here from 0 to 129"),
    ],
)
def test_wrong_parameters(change, says):
    with pytest.raises(InputError, match=says):
        KSVD(KERNEL, **change).fit(X, Z=Z)


def test_wrong_data():
    holed = X.copy()
    holed[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        KSVD(KERNEL).fit(holed, Z=Z)
    with pytest.raises(InputError, match="row 3, column 1"):
        KSVD(KERNEL).fit(X, Z=da.from_array(holed))
    with pytest.raises(ValueError, match="features"):
        KSVD(KERNEL).fit(X, Z=Z[:, :2])
    with pytest.raises(BudgetError, match="n_landmarks"):
        KSVD(KERNEL, n_landmarks=100, memory="1MiB").fit(X, Z=Z)
    with pytest.raises(BudgetError, match=r"solver='iterated'"):
        KSVD(KERNEL, solver="dense", memory="0.1MiB").fit(X, Z=Z)
    with pytest.raises(InputError, match="compat='random' and compat_dim"):
        KSVD(KERNEL, compat="pca").fit(da.from_array(A))
    with pytest.raises(InputError, match="compat_dim is of compat='random': leave it out with 'pca'"):
        KSVD(RBF(4.0), compat="pca", compat_dim=3).fit(A)
    with pytest.raises(InputError, match="40 numbers"):
        KSVD(RBF(4.0), 3, compat="pca").fit(A).transform_target(A)


@pytest.mark.parametrize("method", ["orthonormal", "scaled"])
@pytest.mark.parametrize("how", ["uniform", "greedy"])
def test_the_error_of_fewer_landmarks_is_that_of_a_fit_on_them(method, how):
    """What the Grams of all landmarks say of fewer is what a fit on those alone finds."""
    change = {"method": method, "center": True, "oversampling": 16, "n_probes": 40, "landmarks": how, "random_state": 1}
    model = KSVD(KERNEL, 3, n_landmarks=(64, 48), compare_fewer=True, **change).fit(X, Z=Z)
    found = model.landmark_error_
    assert found["row_landmarks"] == [8, 16, 32, 64] and found["column_landmarks"] == [6, 12, 24, 48]
    assert (found["left"][-1], found["right"][-1]) == (model.error_.left, model.error_.right)
    assert found["left"][0] > 1.5 * found["left"][-1]
    ends = KSVD(KERNEL, 3, n_landmarks=(64, 48), **change).fit(X, Z=Z).landmark_error_
    assert [values[-1:] for values in found.values()] == list(ends.values())


def test_fewer_landmarks_are_a_fit_of_their_own():
    """Without probes and further rows a prefix is a fit on those landmarks exactly."""
    pairs = Pairs(KERNEL, X, Z)
    sampled = [sample(pairs, n, m) for n, m in ((40, 24), (10, 6))]
    whole, alone = sampled[0].first(10, 6), sampled[1]
    np.testing.assert_array_equal(whole.chosen.rows, alone.chosen.rows)
    for method in ("orthonormal", "scaled"):
        mine, theirs = (found.vectors(method, 4, True, resolution(X.dtype)) for found in (whole, alone))
        np.testing.assert_allclose(mine.values, theirs.values, rtol=1e-10)
        np.testing.assert_allclose(np.abs(mine.source), np.abs(theirs.source), rtol=1e-6, atol=1e-9)


def sample(pairs, n, m):
    """The kernel at the first points, and nothing beside them."""
    chosen = two_sets.choose((np.arange(n), np.arange(m)), pairs, (n, m), 0, 0, 5)
    basis = pairs.basis(chosen.rows, chosen.columns)
    return two_sets.Sampled(chosen, basis.core(), *pairs.grams(basis, n, m))


@pytest.mark.parametrize("center", [False, True])
def test_the_error_against_the_exact_decomposition(center):
    model = KSVD(KERNEL, 4, n_landmarks=30, center=center, compare_exact=True, random_state=0).fit(X, Z=Z)
    U, s, Vt = np.linalg.svd(centred(K, center))
    exact, mine = (U[:, :4], s[:4], Vt[:4].T), parts(model)
    assert model.exact_error_["eta"] == pytest.approx(oracle.eta(*exact, mine[0], mine[2]), abs=1e-9)
    assert model.exact_error_["left_angle"] == pytest.approx(oracle.subspace_error(exact[0], mine[0]), abs=1e-9)
    assert model.exact_error_["right_angle"] == pytest.approx(oracle.subspace_error(exact[2], mine[2]), abs=1e-9)
    assert 0 < model.exact_error_["eta"] < model.exact_error_["left_angle"] < 0.5
    assert model.set_params(compare_exact=False).fit(X, Z=Z).exact_error_ is None
    with pytest.raises(BudgetError, match=r"solver='iterated'"):
        KSVD(KERNEL, 4, n_landmarks=30, compare_exact=True, solver="dense", memory="20MiB").fit(
            np.repeat(X, 9, 0), Z=np.repeat(Z, 9, 0)
        )


def test_the_tolerance_leaves_the_errors_of_all_counts():
    model = KSVD(KERNEL, 4, n_landmarks=20, tol=1e-2, n_probes=30, compare_fewer=True, random_state=0)
    found = model.fit(X, Z=Z).landmark_error_
    assert found["row_landmarks"][:3] == [5, 10, 20] and found["row_landmarks"][-1] == len(model.row_landmarks_)
    assert max(found["left"][-1], found["right"][-1]) <= 1e-2 < found["left"][0]
    assert model.fit(X, Z=Z).landmark_error_ == found  # and a fit forgets the one before


GRAPH = DirectedGraph(np.random.default_rng(1).integers(0, 60, size=(300, 2)))


@pytest.mark.parametrize(
    ("model", "x", "z"),
    [
        (KSVD(SNE(3.0), 3, n_landmarks=(30, 40), center=True, random_state=0), X, Z),
        (KSVD(SNE(3.0, normaliser="exact"), 3, n_landmarks=30, random_state=0), X, None),
        (KSVD(RBF(2.0) + SNE(1.0), 3, landmarks=(np.arange(9), np.arange(8)), n_landmarks=1, n_probes=0), X, Z),
        (KSVD(n_components=3), sp.csr_matrix(X), None),
        (KSVD(GRAPH, 4, n_landmarks=30, landmarks="coverage", random_state=0), np.arange(60)[:, None], None),
        (KSVD(RBF(8.0), 3, compat="pca"), A, "columns"),
        (KSVD(RBF(8.0), 3, compat="random", compat_dim=12, n_landmarks=20, random_state=3), A, "columns"),
        (KSVD(Precomputed(K), 3), np.arange(160)[:, None], np.arange(130)[:, None]),
    ],
    ids=["sampled", "exact normaliser", "sum", "sparse", "graph", "pca", "sketch", "precomputed"],
)
def test_what_is_kept_is_what_was_fitted(model, x, z, tmp_path):
    columns = isinstance(z, str)
    model.fit(x, Z=x if z is None else None if columns else z)
    model.save(tmp_path / "e.zarr", note="mine")
    again = load(tmp_path / "e.zarr")
    for name in ("error_", "shape_", "n_components_", "n_landmarks_", "landmark_error_", "n_features_in_", "seed_"):
        assert getattr(again, name) == getattr(model, name)
    for name in ("row_landmarks_", "column_landmarks_", "left_singular_vectors_", "right_singular_vectors_"):
        np.testing.assert_array_equal(np.asarray(getattr(again, name)), np.asarray(getattr(model, name)))
    assert isinstance(again.left_singular_vectors_, da.Array)
    for name in ("source", "target", "offsets"):
        np.testing.assert_array_equal(getattr(again.vectors_, name), getattr(model.vectors_, name))
    z = x.T if columns else x if z is None else z
    bound = rounding(model, x, "source")
    assert (np.abs(np.asarray(again.transform(x)) - np.asarray(model.transform(x))) <= bound).all()
    bound = rounding(model, z, "target")
    assert (np.abs(np.asarray(again.transform_target(z)) - np.asarray(model.transform_target(z))) <= bound).all()
    assert repr(again.kernel) == repr(model.kernel)
    again.save(tmp_path / "again.zarr")  # from the store alone
    twice = load(tmp_path / "again.zarr")
    np.testing.assert_array_equal(twice.transform(x), again.transform(x))  # both read arrays, which lie alike
    np.testing.assert_array_equal(twice.transform_target(z), again.transform_target(z))


def rounding(model, points, side):
    """Return how far scores may be apart where products of the same numbers are summed in two orders.

    A sum of n products is off by at most n eps / 2 times the sum of their sizes, so two orders differ by n eps of it;
    one more operation takes off the offsets, one multiplies with the values. Points x of M numbers that a matrix brings
    to d axes of length 1 are products themselves, off by M eps sqrt(d) |x|; so their squared distances, which are sums
    of d + 3 terms, are off by at most (2 M sqrt(d) + d + 3) eps (|x| + |z|)^2, and RBF(8) by that over 64, of its size.
    """
    eps, at = np.finfo(float).eps, model.basis_.at.prefix(*model.n_landmarks_)
    own, offsets = getattr(model.vectors_, side), model.vectors_.offsets[["source", "target"].index(side)]
    block = np.abs(getattr(at, side)(two_sets.checked(model, points, side)))
    terms = len(own) + 2
    if isinstance(getattr(model, "_compat", None), compat.Linear):
        landmarks = at.columns if side == "source" else at.rows
        M, d = points.shape[1], landmarks.shape[1]
        reach = np.linalg.norm(points, axis=1)[:, None] + np.linalg.norm(landmarks, axis=1)
        terms = terms + (2 * M * np.sqrt(d) + d + 3) * reach**2 / 64
    return eps * ((terms * block) @ np.abs(own) + 2 * np.abs(offsets)) * model.singular_values_


def test_what_cannot_be_kept_or_read(tmp_path):
    model = KSVD(Precomputed(da.from_array(K)), 3, n_landmarks=20, random_state=0)
    model.fit(np.arange(160)[:, None], Z=np.arange(130)[:, None])
    with pytest.raises(StoreError, match="dask array, which cannot be kept"):
        model.save(tmp_path / "e.zarr")
    assert not (tmp_path / "e.zarr").exists()
    with store.create(tmp_path / "p.zarr", "predictions"):
        pass
    with pytest.raises(StoreError, match="is a predictions store, where a model or an embedding is needed"):
        load(tmp_path / "p.zarr")
    with store.create(tmp_path / "old.zarr", "embedding"):
        pass
    with pytest.raises(StoreError, match="did not keep the model: make it again"):
        load(tmp_path / "old.zarr")

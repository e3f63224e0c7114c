"""Kernels over numbered points: every kind of matrix, graphs, asymmetry, symmetrised kernels, stores, bad input."""

import shutil
import tracemalloc
from dataclasses import dataclass
from itertools import product

import dask.array as da
import numpy as np
import oracle
import pytest
import scipy.io
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV

import ask_dask
from ask_dask import AsKLSClassifier, AsKLSRegressor, compute
from ask_dask.errors import InputError, StoreError
from ask_dask.kernels import RBF, DirectedGraph, ExpNegative, Kernel, Precomputed, Symmetrised, kernel_from_dict
from ask_dask.kernels.numbered import as_matrix, take

rng = np.random.default_rng(21)
K = np.where(rng.random((60, 60)) < 0.3, rng.uniform(0.2, 1.0, (60, 60)), 0) + np.eye(60)
LABELS = rng.integers(0, 3, 60)
VALUES = rng.normal(size=(60, 2))
NUMBERS = np.arange(60)
EXACT = {"gamma": 0.05, "n_landmarks": None, "cv": None, "merge": "mean"}
SEVERAL = {"gamma": [0.05, 0.1], "n_landmarks": [20, 40], "cv": 2, "merge": "stack"}
SOLVERS = [{}, {"n_landmarks": 60}, {"solver": "minres"}]


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Set once for a whole test, and not by each of many small steps."""
    with compute.one_blas_thread():
        yield


def edges_of(K):
    rows, columns = np.nonzero(K)
    return np.column_stack([rows, columns, K[rows, columns]])


MATRICES = {
    "csr": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": sp.coo_matrix,
    "dask": lambda K: da.from_array(K, chunks=(17, 23)),
    "zarr": lambda K: zarr.create_array({}, data=K, chunks=(16, 32)),
    "edges": edges_of,
    "Fortran": np.asfortranarray,
}


@pytest.mark.parametrize(("kind", "change"), [
    *((kind, {}) for kind in MATRICES), *((kind, SEVERAL) for kind in ("csr", "dask", "zarr"))])  # fmt: skip
def test_every_kind_of_matrix_gives_the_same_model(kind, change):
    params = EXACT | {"random_state": 0} | change
    expected = AsKLSClassifier(Precomputed(K), **params).fit(NUMBERS, LABELS)
    found = AsKLSClassifier(Precomputed(MATRICES[kind](K)), **params).fit(NUMBERS, LABELS)
    np.testing.assert_allclose(found.discriminants(NUMBERS), expected.discriminants(NUMBERS), atol=1e-9)
    assert found.gamma_ == expected.gamma_ and found.asymmetry_ == pytest.approx(expected.asymmetry_)


@pytest.mark.parametrize("kind", ["column", "list", "int32", "dask", "dask column", "uncounted", "zarr", "zarr column"])
def test_numbers_may_come_as_a_column_or_flat(kind):
    column = NUMBERS[:, None]
    inputs = {
        "column": column, "list": NUMBERS.tolist(), "int32": NUMBERS.astype(np.int32),
        "dask": da.from_array(NUMBERS, chunks=13), "dask column": da.from_array(column, chunks=(13, 1)),
        "uncounted": da.from_array(NUMBERS, chunks=13)[da.from_array(NUMBERS >= 0, chunks=13)],
        "zarr": zarr.create_array({}, data=NUMBERS, chunks=(16,)),
        "zarr column": zarr.create_array({}, data=column.astype(float), chunks=(16, 1)),
    }[kind]  # fmt: skip
    model = AsKLSClassifier(Precomputed(K), 0.05, 30, cv=2, random_state=0)
    expected = model.fit(NUMBERS, LABELS).predict_proba(NUMBERS)
    np.testing.assert_allclose(np.asarray(model.fit(inputs, LABELS).predict_proba(inputs)), expected, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_unseen_points_are_predicted_from_their_rows_and_columns(solver):
    train, new = np.random.default_rng(1).permutation(60)[:40], np.arange(0, 60, 7)
    solver = solver | ({"n_landmarks": 40} if "n_landmarks" in solver else {})
    model = AsKLSRegressor(Precomputed(sp.csr_matrix(K)), **EXACT | solver).fit(train, VALUES[train])
    expected = oracle.askls_dual(K[np.ix_(train, train)], VALUES[train], 0.05)
    np.testing.assert_allclose(model.decision_source(new), expected.source(K[np.ix_(new, train)]), atol=1e-6)
    np.testing.assert_allclose(model.decision_target(new), expected.target(K[np.ix_(train, new)]), atol=1e-6)


def test_searches_and_splits_see_numbers_like_any_other_rows():
    blocks = np.kron(np.eye(3), np.ones((20, 20))) * np.where(rng.random((60, 60)) < 0.3, 1.0, 0) + np.eye(60)
    labels = np.repeat([0, 1, 2], 20)
    model = AsKLSClassifier(Precomputed(blocks), 0.1, 20, cv=3, random_state=0)
    search = GridSearchCV(model, {"gamma": [0.01, 0.1]}, cv=3).fit(NUMBERS[:, None], labels)
    assert search.best_score_ > 0.8


# ------------------------------------------------------------------------------------------------------------- graphs
def test_the_graph_of_cora_is_the_authors_kernel(data):
    kernel = DirectedGraph(np.loadtxt(data / "cora" / "directed_edges.tsv", dtype=int))
    authors = scipy.io.loadmat(data / "cora" / "askls_authors_cora.mat")["G"]
    np.testing.assert_allclose(kernel.matrix.toarray(), authors, atol=1e-15)
    some = np.arange(0, 2708, 9)[:, None]
    np.testing.assert_allclose(kernel(some, some), authors[::9, ::9], atol=1e-15)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 12), st.booleans())
def test_degrees_normalise_rows_whatever_the_edges(seed, n, self_loops):
    random = np.random.default_rng(seed)
    A = random.uniform(0.1, 2, (n, n)) * (random.random((n, n)) < 0.3)
    looped = A + np.eye(n) * self_loops
    for normalise, W in (("out-degree", looped), ("in-degree", looped.T)):
        found = DirectedGraph(A, self_loops, normalise).matrix.toarray()
        degree = W.sum(1, keepdims=True)
        np.testing.assert_allclose(found, np.divide(W, degree, out=np.zeros_like(W), where=degree > 0), atol=1e-12)
        np.testing.assert_allclose(found.sum(1), degree[:, 0] > 0, atol=1e-12)
    np.testing.assert_array_equal(DirectedGraph(A, self_loops, None).matrix.toarray(), looped)


@pytest.mark.parametrize("kind", MATRICES)
def test_a_graph_of_every_kind_of_adjacency(kind):
    found = DirectedGraph(MATRICES[kind](K)).matrix
    assert sp.issparse(found)
    np.testing.assert_allclose(found.toarray(), DirectedGraph(K).matrix.toarray(), atol=1e-12)


def test_an_edge_listed_twice_counts_once_and_weights_add_up():
    np.testing.assert_array_equal(Precomputed(np.array([[0, 1], [0, 1], [1, 1]])).K.toarray(), [[0, 1], [0, 1]])
    np.testing.assert_array_equal(Precomputed(np.array([[0, 1, 2.0], [0, 1, 0.5]])).K.toarray(), [[0, 2.5], [0, 0]])


@pytest.mark.parametrize("kind", [*MATRICES, "dense"])
def test_a_block_is_that_of_the_dense_matrix_whether_numbers_follow_each_other_or_not(kind):
    matrix = MATRICES.get(kind, np.asarray)(K)
    for rows, columns in product([np.arange(3, 9), np.array([7, 2, 2]), np.arange(5)[::-1], np.arange(0)], repeat=2):
        found = take(as_matrix(matrix), rows, columns)
        np.testing.assert_array_equal(found, K[np.ix_(rows, columns)])


def test_a_large_sparse_matrix_is_never_made_dense():
    n, entries = 200_000, 1_000_000
    ends = rng.integers(0, n, (2, entries))
    large = sp.csr_matrix((np.ones(entries), ends), shape=(n, n)) + sp.eye_array(n, format="csr")
    labels = (np.arange(n) % 2).astype(int)
    model = AsKLSClassifier(DirectedGraph(large), 0.1, 50, cv=None, merge="mean", random_state=0)
    tracemalloc.start()
    model.fit(np.arange(n), labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20 < 8 * n**2 / 1000
    assert np.isfinite(model.decision_function(np.arange(0, n, 1000))).all()


# ---------------------------------------------------------------------------------------------------------- asymmetry
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("triangle", [np.triu, np.tril])
def test_both_triangles_count(solver, triangle):
    changed = K + 0.3 * triangle(rng.uniform(size=(60, 60)), 1 if triangle is np.triu else -1)
    answers = []
    for matrix in (K, changed):
        model = AsKLSRegressor(Precomputed(matrix), **EXACT | solver).fit(NUMBERS, VALUES)
        expected = oracle.askls_dual(matrix, VALUES, 0.05)
        np.testing.assert_allclose(model.decision_source(NUMBERS), expected.source(matrix), atol=1e-6)
        np.testing.assert_allclose(model.decision_target(NUMBERS), expected.target(matrix), atol=1e-6)
        answers.append(model.discriminants(NUMBERS))
    assert np.abs(answers[0] - answers[1]).max(0).min() > 1e-3
    assert model.asymmetry_ == pytest.approx(np.linalg.norm(changed - changed.T) / np.linalg.norm(changed))


class Downhill(Kernel):
    """A user's kernel, which says nothing of symmetry: it looks down one way only."""

    def __call__(self, X, Z):
        return RBF(1.0)(X, Z) * (1 + 0.8 * np.sign(X[:, :1] - Z[:, 0]))


@dataclass(frozen=True)
class Tilted(Kernel):
    """The same with a field, by which it can be kept."""

    tilt: float = 0.5

    def __call__(self, X, Z):
        return RBF(1.0)(X, Z) * (1 + self.tilt * np.sign(X[:, :1] - Z[:, 0]))


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_kernel_that_says_nothing_is_asymmetric(solver):
    points = rng.normal(size=(60, 2))
    whole = Downhill()(points, points)
    model = AsKLSRegressor(Downhill(), **EXACT | solver).fit(points, VALUES)
    expected = oracle.askls_dual(whole, VALUES, 0.05)
    np.testing.assert_allclose(model.decision_source(points), expected.source(whole), atol=1e-6)
    np.testing.assert_allclose(model.decision_target(points), expected.target(whole), atol=1e-6)
    assert model.asymmetry_ > 0.5


def test_a_users_kernel_is_kept_when_its_fields_are_known(tmp_path):
    points = rng.normal(size=(60, 2))
    model = AsKLSRegressor(Tilted(0.3), **EXACT).fit(points, VALUES)
    model.save(tmp_path / "m.zarr")
    np.testing.assert_array_equal(ask_dask.load(tmp_path / "m.zarr").predict(points), model.predict(points))
    with pytest.raises(InputError, match="Downhill cannot be kept: make it a dataclass"):
        AsKLSRegressor(Downhill(), **EXACT).fit(points, VALUES).save(tmp_path / "d.zarr")
    assert not (tmp_path / "d.zarr").exists()


@pytest.mark.parametrize("kernel", [Precomputed(K), Downhill(), RBF(1.0)], ids=lambda kernel: type(kernel).__name__)
def test_asymmetry_of_every_kind_of_input(kernel):
    points = NUMBERS[:, None].astype(float) if kernel.shape else rng.normal(size=(60, 1))
    whole = kernel(points, points)
    expected = np.linalg.norm(whole - whole.T) / np.linalg.norm(whole)
    for kind in (np.asarray, lambda X: da.from_array(X, chunks=(7, 1)), lambda X: zarr.create_array({}, data=X)):
        assert ask_dask.asymmetry(kernel, kind(points)) == pytest.approx(expected, abs=1e-12)
    if not isinstance(kernel, Downhill):  # which indexes plain arrays
        assert ask_dask.asymmetry(kernel, sp.csr_matrix(points)) == pytest.approx(expected, abs=1e-12)
    few = ask_dask.asymmetry(kernel, points, n_rows=30, random_state=1)
    assert few == pytest.approx(expected, rel=0.3)


# ------------------------------------------------------------------------------------------- functions of other kernels
@pytest.mark.parametrize("how", ["K'K", "KK'"])
def test_products_on_few_landmarks_stand_for_all_training_points(how):
    """The sum over the landmarks, times how many training points there are for each."""
    some, matrix = np.array([3, 10, 11, 42]), K if how == "K'K" else K.T
    landmarks = some[:, None]
    at = Symmetrised(Precomputed(K), how).at(landmarks, landmarks, 60)
    expected = 60 / 4 * matrix[some].T @ matrix[np.ix_(some, some)]
    for found in (at.source(NUMBERS[:, None]), at.target(NUMBERS[:, None])):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(at.tile(slice(1, 4), slice(0, 2)), expected[some][1:4, :2], atol=1e-10)


@pytest.mark.parametrize("how", ["mean", "K'K", "KK'"])
def test_symmetrised_is_the_dense_formula(how):
    expected = {"mean": (K + K.T) / 2, "K'K": K.T @ K, "KK'": K @ K.T}[how]
    points = NUMBERS[:, None]
    kernel = Symmetrised(Precomputed(K), how)
    at = kernel.at(points, points, 60)
    for found in (kernel(points, points), at.source(points), at.target(points), *at.both(points)):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(at.tile(slice(3, 9), slice(20, 50)), expected[3:9, 20:50], atol=1e-10)
    np.testing.assert_allclose(at.prefix(20).both(points)[1], expected[:, :20], atol=1e-10)
    assert kernel.symmetric and kernel.shape == (60, 60)


@pytest.mark.parametrize("how", ["mean", "K'K", "KK'"])
def test_symmetrised_on_landmarks_is_finite_and_one_discriminant(how):
    model = AsKLSClassifier(Precomputed(K), [0.01, 0.1], [10, 30], cv=3, symmetrise=how, random_state=0)
    model.fit(NUMBERS, LABELS)
    assert np.isfinite(model.decision_function(NUMBERS)).all() and model.asymmetry_ == 0
    np.testing.assert_allclose(model.decision_source(NUMBERS), model.decision_target(NUMBERS), atol=1e-8)
    assert isinstance(model.kernel_, Symmetrised)


@settings(deadline=None, max_examples=20)
@given(st.floats(0.01, 5), st.integers(1, 59))
def test_exp_negative_is_the_exponential_in_both_roles(scale, n):
    kernel, points = ExpNegative(Precomputed(K), scale), NUMBERS[:, None]
    at = kernel.at(points[:n], points, 60)
    np.testing.assert_allclose(kernel(points, points), np.exp(-scale * K), rtol=1e-12)
    np.testing.assert_allclose(at.source(points), np.exp(-scale * K), rtol=1e-12)
    np.testing.assert_allclose(at.target(points), np.exp(-scale * K[:n]).T, rtol=1e-12)


# ------------------------------------------------------------------------------------------------------------- stores
def stored(path):
    return zarr.create_array(path, data=K, chunks=(16, 32))


@pytest.mark.parametrize("kernel", [
    lambda path: Precomputed(K), lambda path: Precomputed(sp.csr_matrix(K)), lambda path: Precomputed(stored(path)),
    lambda path: DirectedGraph(K, False, "out-degree"), lambda path: ExpNegative(Precomputed(stored(path)), 0.5),
    lambda path: 2.0 * Precomputed(K) + DirectedGraph(sp.csr_matrix(K)) * Precomputed(K.T)],
    ids=["dense", "sparse", "zarr", "graph", "exponential", "composed"])  # fmt: skip
def test_saved_and_loaded_it_predicts_the_same(tmp_path, request, kernel):
    symmetrise = "mean" if request.node.callspec.id in ("dense", "exponential") else None
    model = AsKLSClassifier(kernel(tmp_path / "k.zarr"), 0.05, 20, cv=2, symmetrise=symmetrise, random_state=0)
    model.fit(NUMBERS, LABELS).save(tmp_path / "m.zarr")
    loaded = ask_dask.load(tmp_path / "m.zarr")
    np.testing.assert_array_equal(loaded.predict_proba(NUMBERS), model.predict_proba(NUMBERS))
    again = type(model)(**loaded.get_params(deep=False)).fit(NUMBERS, LABELS)
    np.testing.assert_allclose(again.predict_proba(NUMBERS), model.predict_proba(NUMBERS), atol=1e-9)


def test_a_matrix_that_cannot_be_kept_or_found_is_told(tmp_path, monkeypatch):
    params = {"gamma": 0.05, "n_landmarks": 20, "cv": 3, "random_state": 0}
    model = AsKLSClassifier(Precomputed(da.from_array(K, chunks=20)), **params).fit(NUMBERS, LABELS)
    with pytest.raises(StoreError, match="dask array, which cannot be kept: write it to zarr"):
        model.save(tmp_path / "d.zarr")
    model = AsKLSClassifier(Precomputed(zarr.create_array({}, data=K)), **params).fit(NUMBERS, LABELS)
    with pytest.raises(StoreError, match="in memory"):
        model.save(tmp_path / "d.zarr")
    monkeypatch.chdir(tmp_path)
    AsKLSClassifier(Precomputed(stored("k.zarr")), **params).fit(NUMBERS, LABELS).save(tmp_path / "m.zarr")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ask_dask.load(tmp_path / "m.zarr")
    shutil.move(tmp_path / "k.zarr", tmp_path / "moved.zarr")
    with pytest.raises(StoreError, match=r"kernel matrix of the model is not at .*k\.zarr any more: put it back"):
        ask_dask.load(tmp_path / "m.zarr")
    zarr.create_array(tmp_path / "k.zarr", data=K[:30])
    with pytest.raises(StoreError, match="no longer the kernel matrix of the model"):
        ask_dask.load(tmp_path / "m.zarr")


def test_dictionary_round_trip():
    for kernel in (Precomputed(K), DirectedGraph(K, False, None), Symmetrised(ExpNegative(Precomputed(K)), "K'K")):
        again = kernel_from_dict(kernel.to_dict())
        points = NUMBERS[:, None]
        np.testing.assert_array_equal(again(points, points), kernel(points, points))


# ---------------------------------------------------------------------------------------------------------- bad input
def spoilt(value):
    bad = K.copy()
    bad[7, 9] = value
    return bad


@pytest.mark.parametrize(("make", "numbers", "message"), [
    (lambda: Precomputed(K), np.append(NUMBERS[1:], 60), r"X names the point 60 \(row \d+ of those given\).* 0 to 59"),
    (lambda: Precomputed(K), np.append(NUMBERS[1:], -1), "X names the point -1"),
    (lambda: Precomputed(K), NUMBERS + 0.5, r"X names the point \d+\.5"),
    (lambda: Precomputed(K), np.column_stack([NUMBERS, NUMBERS]), r"takes the numbers of its points, shape \(n, 1\)"),
    (lambda: Precomputed(K[:, :50]), NUMBERS[:50], "60 x 50 and must be square"),
    (lambda: Precomputed(spoilt(np.nan)), NUMBERS, r"K\[7, 9\] is nan: every entry of a kernel must be finite"),
    (lambda: Precomputed(sp.csr_matrix(spoilt(np.inf))), NUMBERS, r"K\[7, 9\] is inf"),
    (lambda: DirectedGraph(K[:, :50]), NUMBERS, "60 x 50 and must be square"),
    (lambda: DirectedGraph(spoilt(-1.0)), NUMBERS, "the weight of the edge 7 -> 9 is -1.0"),
    (lambda: DirectedGraph(spoilt(np.nan)), NUMBERS, "the weight of the edge 7 -> 9 is nan"),
    (lambda: DirectedGraph(K, normalise="degree"), NUMBERS, "normalise='degree' must be"),
    (lambda: Precomputed(np.ones((5, 1))), NUMBERS, "An edge list needs two columns"),
    (lambda: Precomputed(np.array([[0, 1], [1, -2], [0, 2]])), NUMBERS, "Row 1 of the edge list"),
    (lambda: Precomputed(np.array([[0, 1], [1, 1], [0.5, 1]])), NUMBERS, "Row 2 of the edge list"),
    (lambda: Precomputed(np.array([["a", "b"]])), NUMBERS, "needs a matrix of numbers or an edge list"),
    (lambda: Precomputed(da.ones(5)), NUMBERS, "has two dimensions and this one has 1"),
    (lambda: Precomputed(np.zeros((0, 2))), NUMBERS, "needs a matrix of numbers or an edge list"),
    (lambda: ExpNegative(Precomputed(K), scale=0), NUMBERS, "scale is 0 and must be"),
    (lambda: Symmetrised(Precomputed(K), "sum"), NUMBERS, "how='sum' must be one of"),
])  # fmt: skip
@pytest.mark.parametrize("solver", [{"n_landmarks": 50, "random_state": 0}, {}, {"solver": "minres"}])
def test_bad_input_is_one_sentence(make, numbers, message, solver):
    with pytest.raises(InputError, match=message) as caught:
        AsKLSClassifier(make(), **EXACT | solver).fit(numbers, LABELS[: len(numbers)])
    assert "\n" not in str(caught.value)


def test_unknown_points_at_prediction_are_named():
    model = AsKLSClassifier(Precomputed(K), **EXACT).fit(NUMBERS[:40], LABELS[:40])
    with pytest.raises(InputError, match=r"the point 1234567 \(row 2 of"):
        model.predict(np.array([3, 50, 1234567]))
    with pytest.raises(InputError, match="contains NaN, first in row 1"):
        model.predict(da.from_array(np.array([3, np.nan]))).compute()

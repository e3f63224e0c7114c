"""An input is read as what it is, in memory and lazily alike, or refused in one sentence."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sparse_rows import stored

import ask_dask
from ask_dask import KSVD, AsKLSClassifier, AsKLSRegressor, AsymmetricNystroem, kernels
from ask_dask.errors import InputError
from ask_dask.kernels import RBF, SNE, ConditionalProbability, Laplacian, Linear, Polynomial, StudentT
from ask_dask.kernels.points import as_floats

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)) * [1, 5, 0.2]
y = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame(X, columns=list("abc"))
OTHER = FRAME[["c", "a", "b"]]
COUNTS = RNG.integers(0, 127, (40, 4))


def classifier(**change):
    return AsKLSClassifier(
        **{"kernel": SNE(2.0), "gamma": 7.0, "n_landmarks": 30, "random_state": 0, "cv": 2, "damping": 1e-4} | change
    )


def lazy(frame):
    return dd.from_pandas(frame, npartitions=3)


# ------------------------------------------------------------------------------------------------- dtypes and types
FRAMES = {
    "bool beside float": FRAME.assign(b=FRAME.b > 0),
    "dummies": pd.get_dummies(FRAME.assign(k=pd.Categorical(np.where(y, "p", "q")))),
    "nullable": FRAME.convert_dtypes().assign(n=pd.array(np.arange(120), "Int64")),
    "pyarrow": FRAME.astype("double[pyarrow]"),
    "numeric categories": FRAME.assign(k=pd.Categorical(np.arange(120) % 3)),
    "numbers as objects": FRAME.astype(object),
    "float32": FRAME.astype(np.float32),
}


@pytest.mark.parametrize("name", FRAMES)
def test_lazy_frames_are_read_as_those_in_memory(name):
    frame = FRAMES[name]
    expected = classifier().fit(frame, y)
    found = classifier().fit(lazy(frame), lazy(pd.Series(y)))
    np.testing.assert_allclose(
        found.decision_function(lazy(frame)).compute(), expected.decision_function(frame), rtol=1e-5, atol=1e-6
    )
    assert list(found.feature_names_in_) == list(expected.feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize("dtype", ["f2", ">f4", ">f8", "i1", "u2", "bool", "longdouble"])
@pytest.mark.parametrize("kind", ["dask", "zarr", "numpy"])
def test_any_numeric_dtype_is_read(dtype, kind):
    values = (X * 3).astype(dtype)
    if kind == "zarr" and dtype == "longdouble":
        pytest.skip("zarr has no such dtype")
    given = {
        "numpy": lambda: values,
        "dask": lambda: da.from_array(values, chunks=(50, 2)),
        "zarr": lambda: zarr.create_array({}, data=values, chunks=(50, 3)),
    }[kind]()
    plain = as_floats(values)
    expected = classifier().fit(plain, y).decision_function(plain)
    np.testing.assert_allclose(np.asarray(classifier().fit(given, y).decision_function(given)), expected, rtol=1e-4)


KERNELS = (Linear(), Polynomial(2), RBF(300.0), SNE(300.0), StudentT(), Laplacian(300.0), ConditionalProbability(),
           2 * RBF(300.0) + Linear())  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("dtype", ["u1", "i1", "bool", "u8", "f2", ">f8", "O"])
def test_kernels_take_whole_numbers(kernel, dtype):
    values = COUNTS.astype(dtype)
    plain = values.astype(float)
    expected = kernel(plain, plain)
    np.testing.assert_allclose(kernel(values, values), expected, rtol=1e-6)
    np.testing.assert_allclose(kernel(values, plain), expected, rtol=1e-6)
    if dtype not in ("f2", ">f8", "O"):
        np.testing.assert_allclose(kernel(sp.csc_array(values), sp.coo_matrix(values)), expected, rtol=1e-6)
    found = ask_dask.asymmetry(kernel, values), ask_dask.asymmetry(kernel, da.from_array(values, chunks=(7, 4)))
    assert found == pytest.approx((ask_dask.asymmetry(kernel, plain),) * 2, abs=1e-9)


def test_dask_chunks_of_other_arrays_are_read():
    class Coo:  # as pydata's sparse arrays offer themselves
        def __init__(self, matrix):
            self.matrix, self.shape, self.dtype, self.ndim = matrix, matrix.shape, matrix.dtype, 2

        def to_scipy_sparse(self):
            return self.matrix

    matrix = sp.random(120, 3, 0.5, "coo", random_state=0)
    np.testing.assert_array_equal(as_floats(Coo(matrix)).toarray(), matrix.toarray())
    rows, expected = da.from_array(matrix.toarray(), chunks=(50, 3)), classifier().fit(matrix, y)
    for made in (sp.csr_matrix, sp.csc_array, lambda block: np.ma.masked_equal(block, 99.0)):
        given = rows.map_blocks(made, dtype=float, meta=made(np.zeros((0, 3))))
        found = classifier().fit(given, y).decision_function(given)
        np.testing.assert_allclose(np.asarray(found), expected.decision_function(matrix), rtol=1e-6)


BIG = 2**53 + np.arange(360).reshape(120, 3)
BEYOND = {
    "numpy": BIG,
    "unsigned": BIG.astype(np.uint64),
    "sparse": sp.csr_matrix(BIG),
    "pandas": FRAME.assign(b=BIG[:, 0]),
    "nullable": FRAME.assign(b=pd.array(BIG[:, 0], "Int64")),
    "objects": BIG.astype(object),
    "dask": da.from_array(BIG, chunks=(50, 3)),
    "zarr": zarr.create_array({}, data=BIG, chunks=(50, 3)),
    "dask frame": lazy(FRAME.assign(b=BIG[:, 0])),
}


@pytest.mark.parametrize("kind", BEYOND)
def test_features_that_float64_cannot_hold_are_refused(kind):
    with pytest.raises(InputError, match=r"whole number 9007199254\d+ in .*which float64 cannot hold"):
        classifier().fit(BEYOND[kind], y)


def test_large_labels_are_kept_exactly(tmp_path):
    labels = 1234567890123456789 + y
    for given in (labels, labels.astype(np.uint64), da.from_array(labels, chunks=50), pd.Series(labels).astype(object)):
        model = classifier().fit(X, given)
        assert model.classes_.tolist() == [1234567890123456789, 1234567890123456790]
        model.save(tmp_path / "m.zarr", overwrite=True)
        np.testing.assert_array_equal(ask_dask.load(tmp_path / "m.zarr").predict(X), model.predict(X))


MASKED = np.ma.masked_array(X, np.eye(120, 3, dtype=bool))


@pytest.mark.parametrize("given", [MASKED, da.from_array(MASKED, chunks=(50, 3)), lazy(FRAME.where(FRAME.a > -2)),
                                   FRAME.where(FRAME.a > -2).convert_dtypes()], ids=range(4))  # fmt: skip
def test_missing_features_are_refused(given):
    with pytest.raises(ValueError, match="contains NaN"):
        classifier().fit(given, y)


@pytest.mark.parametrize("mark", [None, np.nan, pd.NA, pd.NaT])
@pytest.mark.parametrize("of", ["y", "sample_weight", "groups"])
def test_missing_marks_are_named_by_row(mark, of):
    values = np.ones(120, object) if of != "y" else y.astype(object)
    values[7] = mark
    given = {"y": y, "cv": GroupKFold(2)} | {of: values}
    model = classifier(cv=given.pop("cv")) if of == "groups" else classifier()
    given.pop("cv", None)
    with pytest.raises(InputError, match=f"Input {of} contains NaN or another mark of a missing value, first in row 7"):
        model.fit(X, **given)
    if of == "y":
        with pytest.raises(InputError, match="first in row 7"):
            AsKLSRegressor(random_state=0).fit(X, values)


def test_masks_are_not_numbers_of_points():
    D = RNG.random((40, 40))
    for given in (np.arange(40) < 20, da.arange(40, chunks=20) < 20, (np.arange(40) < 20)[:, None]):
        with pytest.raises(InputError, match=r"a mask of True and False, .* use np.flatnonzero"):
            KSVD(kernels.Precomputed(D), n_components=2).fit(given)


# --------------------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize("first", [FRAME, lazy(FRAME)], ids=["pandas", "dask"])
@pytest.mark.parametrize("then", [OTHER, lazy(OTHER)], ids=["pandas", "dask"])
def test_columns_in_another_order_are_refused(tmp_path, first, then):
    model = classifier().fit(first, y)
    model.save(tmp_path / "m.zarr")
    embedding = KSVD(RBF(1.0), n_components=2, random_state=0).fit(first, Z=first)
    embedding.save(tmp_path / "e.zarr")
    loaded = ask_dask.load(tmp_path / "m.zarr")
    for call in (model.predict, loaded.predict, loaded.decision_function, embedding.transform_target,
                 ask_dask.load(tmp_path / "e.zarr").transform, lambda Z: KSVD(RBF(1.0)).fit(first, Z=Z),
                 AsymmetricNystroem(RBF(1.0), n_landmarks=9).fit(first).transform):  # fmt: skip
        with pytest.raises(ValueError, match="feature names should match"):
            call(then)
    np.testing.assert_allclose(np.asarray(loaded.predict(FRAME)), np.asarray(model.predict(first)))


@pytest.mark.parametrize("array", [X, da.from_array(X, chunks=(50, 3)), sp.csr_matrix(X)], ids=["numpy", "dask", "csr"])
def test_names_go_when_an_array_is_fitted(array):
    assert not hasattr(classifier().fit(FRAME, y).fit(array, y), "feature_names_in_")


# -------------------------------------------------------------------------------------- sparse rows far from zero
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [RBF(5.0), SNE(5.0), StudentT(), kernels.LocalRBF()], ids=lambda k: type(k).__name__)
def test_sparse_rows_keep_their_distances_far_from_zero(kernel, dtype):
    some = np.c_[RNG.normal(size=(90, 2)), 1.7e9 + 128 * (np.arange(90) % 3), np.full(90, -3e6), RNG.random(90) < 0.1]
    rows = some.astype(dtype)
    expected = kernel(*[rows.astype(np.float64) - np.array([0, 0, 1.7e9, -3e6, 0])] * 2)
    for X_, Z_ in ((sp.csr_matrix(rows), sp.csr_matrix(rows)), (sp.csr_matrix(rows), rows), (rows, sp.csc_array(rows))):
        np.testing.assert_allclose(kernel(X_, Z_), expected, atol=1e-3 if dtype == np.float32 else 1e-7)
    given = stored(rows)
    model = classifier(kernel=kernel, cv=None, merge="mean").fit(given, some[:, 0] > 0)
    assert np.isfinite(np.asarray(model.decision_function(given))).all()


# ------------------------------------------------------------------------------------------------------ scikit-learn
@pytest.mark.parametrize("model", [AsymmetricNystroem(RBF(1.0), n_landmarks=20, n_probes=0, random_state=0)])
def test_transformers_name_what_they_give(model):
    found = make_pipeline(StandardScaler(), model).set_output(transform="pandas").fit_transform(FRAME)
    assert list(found.columns) == list(model.get_feature_names_out()) and found.columns[0] == "asymmetricnystroem0"
    svd = KSVD(RBF(1.0), n_components=2, random_state=0).fit(FRAME, Z=FRAME)
    assert svd.get_feature_names_out().tolist() == ["ksvd0", "ksvd1"]


def test_a_search_varies_the_kernel_inside():
    found = GridSearchCV(classifier(), {"kernel__bandwidth": [1.0, 2.0], "gamma": [1.0]}, cv=2).fit(X, y)
    assert found.best_params_["kernel__bandwidth"] in (1.0, 2.0)
    kernel = 2 * RBF(3.0) + Linear()
    model = classifier(kernel=kernel).set_params(kernel__left__kernel__bandwidth=1.0, gamma=3.0)
    assert model.kernel.left == 2 * RBF(1.0) and model.gamma == 3.0 and kernel.left == 2 * RBF(3.0)
    for wrong, said in (({"kernel__width": 1.0}, "SNE has no parameter width: it has bandwidth, normaliser"),
                        ({"kernel__bandwidth": -1.0}, "bandwidth is -1.0")):  # fmt: skip
        with pytest.raises(InputError, match=said):
            classifier().set_params(**wrong)
    with pytest.raises(InputError, match="kernel=None has no bandwidth"):
        AsKLSClassifier().set_params(kernel__bandwidth=1.0)


def test_groups_stay_in_one_fold():
    groups = np.arange(120) % 6
    model = classifier(cv=GroupKFold(3), gamma=[1.0, 10.0]).fit(X, y, groups=pd.Series(groups))
    assert len([name for name in model.cv_results_ if name.endswith("test_auroc") and name.startswith("split")]) == 3
    with pytest.raises(InputError, match="groups has 5 entries and X has 120 rows"):
        classifier(cv=GroupKFold(3)).fit(X, y, groups=groups[:5])
    with pytest.raises(InputError, match="cv=2 does not use groups"):
        classifier().fit(X, y, groups=groups)


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e38), (np.float32, 1e200), (np.float64, 1e200)])
def test_values_that_cannot_be_summed_are_refused(dtype, size):
    points = np.random.default_rng(0).normal(size=(60, 2)).astype(dtype)
    model = AsKLSRegressor(gamma=100.0, n_landmarks=20, cv=2, random_state=0)
    with pytest.raises(
        InputError, match=rf"y holds .*, and with {np.dtype(dtype)} rows at most .* divide y by a number"
    ):
        model.fit(points, size * points[:, 0].astype(float))
    less = {"float32": 1e30, "float64": 1e140}[np.dtype(dtype).name]
    assert np.isfinite(model.fit(points, less * points[:, 0].astype(float)).predict(points)).all()

"""The parts of dask-ml that work beside ask_dask, each tried on small data, with the dask and scikit-learn installed.

CI runs this file with the newest versions and with those of constraints-dask-ml.txt, the last set on which all of
dask-ml works. dask-ml classes that are not here fail on the newest set: leave them alone.
"""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.decomposition
import sklearn.feature_extraction.text
import sklearn.metrics.pairwise
import sklearn.preprocessing
from dask_ml import cluster, decomposition, model_selection, preprocessing
from dask_ml.feature_extraction import text
from dask_ml.metrics import accuracy_score, pairwise
from dask_ml.wrappers import ParallelPostFit
from sklearn.datasets import make_moons

from ask_dask import AsKLSClassifier
from ask_dask.kernels import RBF, SNE, Linear

X, y = make_moons(400, noise=0.25, random_state=0)
LAZY_X, LAZY_y = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
WORDS = ["red red blue", "blue green", "red", "green blue blue"]
SMALL = {"gamma": [1.0, 10.0], "n_landmarks": 30, "cv": 3, "random_state": 0}


def fitted():
    return AsKLSClassifier(SNE(0.7), **SMALL).fit(X, y)


@pytest.mark.parametrize(
    ("name", "atol"),
    [("StandardScaler", 1e-9), ("MinMaxScaler", 1e-9), ("RobustScaler", 0.3), ("QuantileTransformer", 0.1)],
)
def test_scalers_are_those_of_scikit_learn(name, atol):
    """RobustScaler and QuantileTransformer merge the quantiles of each chunk, which is rough on chunks this small."""
    options = {"n_quantiles": 100} if name == "QuantileTransformer" else {}
    found = getattr(preprocessing, name)(**options).fit(LAZY_X).transform(LAZY_X)
    expected = getattr(sklearn.preprocessing, name)(**options).fit_transform(X)
    assert isinstance(found, da.Array)
    np.testing.assert_allclose(found.compute(), expected, atol=atol)


def test_polynomial_features():
    found = preprocessing.PolynomialFeatures(2).fit(LAZY_X).transform(LAZY_X)
    np.testing.assert_allclose(found.compute(), sklearn.preprocessing.PolynomialFeatures(2).fit_transform(X))


def test_encoders_of_arrays():
    colours = np.array(["red", "blue", "green", "blue"] * 50)
    lazy = da.from_array(colours, chunks=50)
    labels = preprocessing.LabelEncoder().fit(lazy)
    codes = np.unique(colours, return_inverse=True)[1]
    np.testing.assert_array_equal(labels.transform(lazy).compute(), codes)
    np.testing.assert_array_equal(labels.inverse_transform(labels.transform(lazy)).compute(), colours)
    one_hot = preprocessing.OneHotEncoder(sparse_output=False).fit(lazy[:, None]).transform(lazy[:, None])
    np.testing.assert_array_equal(one_hot.compute(), np.eye(3)[codes])


def test_encoders_of_data_frames():
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"colour": pd.Series(["red", "blue", "green", "blue"], dtype=object), "n": [1.0, 2, 3, 4]})
    lazy = dd.from_pandas(frame, npartitions=2)
    known = preprocessing.Categorizer(columns=["colour"]).fit_transform(lazy)
    assert list(known["colour"].cat.categories) == ["blue", "green", "red"]
    codes = preprocessing.OrdinalEncoder().fit_transform(known).compute()
    assert list(codes["colour"]) == [2, 0, 1, 0]
    dummies = preprocessing.DummyEncoder().fit_transform(known).compute()
    assert list(dummies.columns) == ["n", "colour_blue", "colour_green", "colour_red"]


def test_hashing_of_words():
    lazy = da.from_array(np.array(WORDS, dtype=object), chunks=2)
    found = text.HashingVectorizer(n_features=64).fit_transform(lazy)
    expected = sklearn.feature_extraction.text.HashingVectorizer(n_features=64).transform(WORDS)
    blocks = found.to_delayed().ravel()
    assert abs(sp.vstack([block.compute() for block in blocks]) - expected).max() == 0


def test_k_means_with_its_parallel_start():
    centres = np.array([[0.0, 0], [10, 0], [0, 10]])
    points = da.from_array(np.repeat(centres, 60, axis=0) + np.random.default_rng(0).normal(size=(180, 2)), chunks=45)
    model = cluster.KMeans(3, init="k-means||", random_state=0).fit(points)
    order = np.argmax(model.cluster_centers_ @ np.array([[-1.0, 1, 0], [-1, 0, 1]]) + [1, 0, 0], axis=0)
    np.testing.assert_allclose(model.cluster_centers_[order], centres, atol=0.5)


@pytest.mark.parametrize("algorithm", ["tsqr", "randomized"])
def test_truncated_svd(algorithm):
    tall = np.random.default_rng(0).normal(size=(300, 8)) * [9, 7, 5, 1, 1, 1, 1, 1]
    lazy = da.from_array(tall, chunks=(100, 8))
    model = decomposition.TruncatedSVD(3, algorithm=algorithm, n_iter=6, random_state=0).fit(lazy)
    np.testing.assert_allclose(np.asarray(model.singular_values_), np.linalg.svd(tall)[1][:3], rtol=1e-3)


def test_pca_from_tall_and_skinny_qr():
    model = decomposition.PCA(2, svd_solver="tsqr").fit(LAZY_X)
    expected = sklearn.decomposition.PCA(2).fit(X)
    np.testing.assert_allclose(model.explained_variance_ratio_, expected.explained_variance_ratio_)


def test_a_lazy_split_feeds_the_estimator():
    split = model_selection.train_test_split(LAZY_X, LAZY_y, test_size=0.25, random_state=0)
    X_train, X_test, y_train, y_test = split
    assert all(isinstance(part, da.Array) for part in split)
    model = AsKLSClassifier(SNE(0.7), **SMALL).fit(X_train, y_train)
    assert accuracy_score(y_test, model.predict(X_test)) > 0.85


def test_grid_search_over_kernels():
    """With one more parameter, alphabetically before: dask-ml takes a tuple that starts with a kernel for a task."""
    grid = {"gamma": [1.0, 10.0], "kernel": [SNE(0.5), SNE(50.0), RBF(0.7)]}
    search = model_selection.GridSearchCV(AsKLSClassifier(**SMALL), grid, cv=2, scheduler="threads", n_jobs=2)
    search.fit(X, y)
    assert search.best_params_["kernel"] in (SNE(0.5), RBF(0.7))
    assert search.best_estimator_.score(X, y) > 0.85


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_parallel_post_fit_predicts_the_same(method):
    model = fitted()
    wrapped = ParallelPostFit(model)
    found = getattr(wrapped, method)(LAZY_X)
    assert isinstance(found, da.Array)
    np.testing.assert_allclose(found.compute(), getattr(model, method)(X), atol=1e-12)


def test_a_scaler_before_the_estimator():
    scaled = preprocessing.StandardScaler().fit_transform(LAZY_X)
    plain = sklearn.preprocessing.StandardScaler().fit_transform(X)
    found = AsKLSClassifier(SNE(0.7), **SMALL).fit(scaled, LAZY_y).decision_function(scaled)
    expected = AsKLSClassifier(SNE(0.7), **SMALL).fit(plain, y).decision_function(plain)
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-8)


def test_kernels_agree_with_pairwise():
    Z = X[:50]
    np.testing.assert_allclose(pairwise.linear_kernel(LAZY_X, Z), Linear()(X, Z), atol=1e-12)
    np.testing.assert_allclose(pairwise.rbf_kernel(LAZY_X, Z, gamma=0.7**-2), RBF(0.7)(X, Z), atol=1e-12)
    squared = np.asarray(pairwise.euclidean_distances(LAZY_X, Z, squared=True))
    np.testing.assert_allclose(squared, -(0.7**2) * np.log(RBF(0.7)(X, Z)), atol=1e-9)

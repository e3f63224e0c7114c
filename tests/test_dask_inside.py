"""Estimators inside tasks of somebody else's dask: on a worker with one thread, which they must not wait for."""

import dask.array as da
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from dask_ml.model_selection import GridSearchCV
from dask_ml.wrappers import ParallelPostFit
from distributed import Client, LocalCluster
from sklearn.model_selection import cross_val_score

from ask_dask import KSVD, AsKLSClassifier, AsymmetricNystroem
from ask_dask.kernels import RBF, SNE

SECONDS = 60
X = np.random.default_rng(0).normal(size=(200, 3))
y = (X[:, 0] > 0).astype(int)


def unfitted():
    return AsKLSClassifier(SNE(2.0), gamma=7.0, n_landmarks=30, random_state=0, cv=3, damping=1e-4)


@pytest.fixture(scope="module")
def model():
    return unfitted().fit(X, y)


@pytest.fixture(scope="module", params=[False, True], ids=["threads", "processes"])
def client(request, model):
    with (
        LocalCluster(1, threads_per_worker=1, processes=request.param, dashboard_address=None) as cluster,
        Client(cluster) as made,
    ):
        yield made


def test_submitted_methods(client, model):
    lazy = da.from_array(X, chunks=(50, 3))
    for function, given, expected in (
        (model.predict, (X,), model.predict(X)),
        (model.predict_proba, (X,), model.predict_proba(X)),
        (lambda *data: unfitted().fit(*data).predict(X), (X, y), model.predict(X)),
        (lambda data: np.asarray(model.predict(data)), (lazy,), model.predict(X)),
        (lambda data: KSVD(RBF(2.0), 2, n_landmarks=40, random_state=0).fit(data, Z=data).transform(data)[:, 0], (X,),
         KSVD(RBF(2.0), 2, n_landmarks=40, random_state=0).fit(X, Z=X).transform(X)[:, 0]),
        (lambda data: AsymmetricNystroem(RBF(2.0), 9, random_state=0).fit(data).transform(data), (X,),
         AsymmetricNystroem(RBF(2.0), 9, random_state=0).fit(X).transform(X)),
    ):  # fmt: skip
        futures = [client.submit(function, *given, pure=False) for _ in range(2)]
        for future in futures:
            np.testing.assert_array_equal(np.asarray(future.result(SECONDS)), expected)


def test_rows_that_lie_on_the_cluster(client, model):
    kept = client.persist(da.from_array(X, chunks=(50, 3)))
    holder = [kept]  # in a list of its own, which `submit` would compute
    found = client.submit(lambda: unfitted().fit(holder[0], y).predict(X), pure=False).result(SECONDS)
    np.testing.assert_array_equal(found, model.predict(X))


def test_parallel_post_fit(client, model):
    found = ParallelPostFit(model).predict(da.from_array(X, chunks=(50, 3)))
    np.testing.assert_array_equal(client.compute(found).result(SECONDS), model.predict(X))


def test_a_search_of_dask_ml(client):
    found = GridSearchCV(unfitted(), {"gamma": [1.0, 7.0]}, cv=3).fit(X, y)
    assert found.best_params_["gamma"] in (1.0, 7.0)


def test_joblib(client):
    with joblib.parallel_backend("dask"):
        found = cross_val_score(unfitted(), X, y, cv=3)
    assert (found > 0.8).all()


def test_partitions_and_blocks(client, model):
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    found = frame.map_partitions(lambda part: pd.Series(model.predict(part.to_numpy())), meta=(None, "i8"))
    np.testing.assert_array_equal(client.compute(found).result(SECONDS), model.predict(X))
    blocks = da.from_array(X, chunks=(50, 3)).map_blocks(model.predict, drop_axis=1, dtype=int)
    np.testing.assert_array_equal(client.compute(blocks).result(SECONDS), model.predict(X))

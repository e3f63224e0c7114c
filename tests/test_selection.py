"""The choice of gamma and landmark count by cross-validation, and the weights that count in it."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons

from ask_dask import AsKLSClassifier, AsKLSRegressor
from ask_dask.fit.folds import stratified
from ask_dask.kernels import RBF, SNE

X, MOON = make_moons(200, noise=0.25, random_state=0)
VALUES = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * np.random.default_rng(0).normal(size=200)
PAIRS = {"gamma": [1e-3, 0.3, 300.0], "n_landmarks": [5, 40], "cv": 3, "merge": "mean", "damping": 1e-3,
         "random_state": 0}  # fmt: skip


@pytest.mark.parametrize("scoring", ["rmse", "mae", "log_loss", "r2", "auroc", "accuracy"])
def test_an_error_is_chosen_small_and_a_score_large(scoring):
    errors = ("rmse", "mae", "log_loss")
    if scoring in ("rmse", "mae", "r2"):
        model = AsKLSRegressor(RBF(0.5), scoring=scoring, **PAIRS).fit(X, VALUES)
    else:
        model = AsKLSClassifier(SNE(0.5), scoring=scoring, **PAIRS).fit(X, MOON)
    found = model.cv_results_
    means = np.mean([found[f"split{fold}_test_{scoring}"] for fold in range(3)], axis=0)
    np.testing.assert_allclose(found[f"mean_test_{scoring}"], means)
    best, worst = (means.argmin(), means.argmax())[:: 1 if scoring in errors else -1]
    assert abs(means[best] - means[worst]) > 0.01
    assert (model.gamma_, model.n_landmarks_) == (found["param_gamma"][best], found["param_n_landmarks"][best])
    ordered = means[np.argsort(found["rank_test_score"])]
    np.testing.assert_array_equal(ordered, np.sort(means)[:: 1 if scoring in errors else -1])


BLOBS, THIRDS = make_blobs(120, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)


@pytest.mark.parametrize(
    ("class_weight", "sample_weight", "accuracy"),
    [
        (None, None, 1),
        ({0: 1.0, 1: 1.0, 2: 0.0}, None, 2 / 3),  # its rows are scored all the same
        (None, (THIRDS != 2).astype(float), 1),  # they are not
        ({0: 1.0, 1: 1.0, 2: 0.0}, np.where(THIRDS == 2, 3.0, 1.0), 2 / 5),  # each counts three times
    ],
    ids=["no weights", "of classes", "of rows", "of both"],
)
def test_weights_of_classes_count_in_fitting_alone_and_weights_of_rows_in_scores_too(
    class_weight, sample_weight, accuracy
):
    """A class that is far from the others is never predicted when it has no weight in fitting."""
    groups = 3 * stratified(THIRDS, 4, 0) + THIRDS  # as many rows of each class in each fold are scored
    landmarks = np.concatenate([np.flatnonzero(groups == group)[:2] for group in range(12)])
    params = PAIRS | {"gamma": 1.0, "n_landmarks": "auto", "landmarks": landmarks, "cv": 4}
    model = AsKLSClassifier(RBF(4.0), class_weight=class_weight, **params).fit(BLOBS, THIRDS, sample_weight)
    found = model.cv_results_["mean_test_accuracy"]
    np.testing.assert_allclose(found, accuracy, atol=1e-12)

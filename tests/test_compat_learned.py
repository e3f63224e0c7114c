"""The compatibility matrix that is learned: its gradient, its loss, what it finds, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from sklearn.linear_model import LogisticRegression

from ask_dask import KSVD, store
from ask_dask.errors import BudgetError, InputError
from ask_dask.estimators.compat import Linear as Matrices
from ask_dask.estimators.learned import Problem, held_out, ridge_loss
from ask_dask.kernels import RBF, SNE, Laplacian

RNG = np.random.default_rng(0)
A = RNG.normal(size=(30, 5))
Y = np.where(A[:, :2].sum(1) > 0, 1.0, -1.0)


def misleading(n):
    """Rows whose class is the sign of a narrow column, beside wide columns that say nothing."""
    found = np.random.default_rng(1).normal(size=(n, 6)) * [1, 3, 3, 3, 3, 3]
    return found, np.where(found[:, 0] > 0, "above", "below")


@pytest.mark.parametrize("kernel", [RBF(3.0), SNE(2.0)])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_the_gradient_is_that_of_finite_differences(kernel, center, wide):
    data = A[:4] if wide else A
    C = RNG.normal(size=(max(data.shape), min(data.shape))) / 2
    one = (lambda c: Matrices(rows=c)) if wide else (lambda c: Matrices(columns=c))
    problem = Problem(data, np.c_[Y, A[:, 0]][: len(data)], kernel, 3, center)
    V, ridge = problem.vectors(one(C))
    numeric = approx_fprime(C.ravel(), lambda c: problem.loss(one(c.reshape(C.shape)), V, ridge)[0], 1e-7)
    exact = problem.loss(one(C), V, ridge)[1]
    assert np.abs(exact).max() > 1e-4
    np.testing.assert_allclose(exact.ravel(), numeric, atol=1e-5 * np.abs(exact).max() + 1e-7)


def test_the_gradient_of_the_linear_model():
    F, Y2 = RNG.normal(size=(12, 3)), RNG.normal(size=(12, 2))
    numeric = approx_fprime(F.ravel(), lambda f: ridge_loss(f.reshape(F.shape), Y2, 0.1)[0], 1e-7)
    np.testing.assert_allclose(ridge_loss(F, Y2, 0.1)[1].ravel(), numeric, atol=1e-6)


def test_it_beats_its_start_on_new_rows_where_the_wide_columns_mislead():
    (X, y), scores, losses = misleading(600), {}, {}
    for compat in ("pinv", "pca", "learned"):
        model = KSVD(SNE(6.0), 3, compat=compat).fit(X[:300], y[:300])
        scale = model.singular_values_[0] / 10
        linear = LogisticRegression(C=1000, max_iter=1000).fit(model.transform(X[:300]) / scale, y[:300])
        scores[compat], losses[compat] = linear.score(model.transform(X[300:]) / scale, y[300:]), model.compat_losses_
    assert min(losses["learned"]) < 0.8 * losses["learned"][0] and losses["pca"] == []
    assert scores["learned"] > max(scores["pinv"], scores["pca"]) + 0.1, scores


def test_labels_that_say_nothing_end_it_early_and_the_kept_round_is_best_on_rows_left_out():
    X, noise = RNG.normal(size=(80, 6)), RNG.choice([-1.0, 1.0], 80)
    losses = held_out(Problem(X, noise[:, None], SNE(2.0), 5, True))
    (X, y), kept = misleading(200), {}
    kept["signal"] = KSVD(SNE(6.0), 3, compat="learned").fit(X, y).compat_losses_
    kept["noise"] = KSVD(SNE(2.0), 5, compat="learned", center=True).fit(RNG.normal(size=(80, 6)), noise).compat_losses_
    assert losses.min() > 0.95 and losses[:, -1].max() > 1.05 * losses.min()  # 1 is the variance of the labels
    assert np.argmin(kept["noise"]) < len(kept["noise"]) - 1 and np.argmin(kept["signal"]) > 0


@pytest.mark.parametrize("matrix", [A, A[:4]])
def test_the_same_again_of_every_kind_of_input_and_with_new_rows_and_columns(matrix):
    y = Y[: len(matrix)] + 0.1 * matrix[:, 0]
    model = KSVD(SNE(2.0), 3, compat="learned", random_state=0).fit(matrix, y)
    for given in (matrix, sp.csr_matrix(matrix)):
        again = KSVD(SNE(2.0), 3, compat="learned", random_state=0).fit(given, y)
        np.testing.assert_allclose(again.transform(matrix), model.transform(matrix), rtol=1e-9, atol=1e-12)
    U, V = (np.asarray(v) for v in (model.left_singular_vectors_, model.right_singular_vectors_))
    np.testing.assert_allclose(model.transform(matrix), U * model.singular_values_, atol=1e-9)
    np.testing.assert_allclose(model.transform_target(matrix.T), V * model.singular_values_, atol=1e-9)


@pytest.mark.parametrize(
    ("given", "y", "error", "says"),
    [
        ({}, None, InputError, "give y"),
        ({}, Y[:7], InputError, "one label or value for each row"),
        ({}, np.ones(30, int), InputError, "one value only"),
        ({}, np.ones(30) / 3, InputError, "one value only"),
        ({}, np.where(Y > 0, np.nan, 0.5), InputError, "y has NaN"),
        ({"kernel": Laplacian(1.0)}, Y, InputError, "which Laplacian does not have here"),
        ({"kernel": RBF(1.0) + RBF(2.0)}, Y, InputError, "which Sum does not have here"),
        ({"kernel": None}, Y, InputError, "give RBF or SNE"),
        ({"compat_dim": 3}, Y, InputError, "compat_dim is of compat='random'"),
        ({"memory": "1KiB"}, Y, BudgetError, "30 x 5 data matrix needs .* use compat='random'"),
    ],
)
def test_what_it_refuses(given, y, error, says):
    with pytest.raises(error, match=says):
        KSVD(**{"kernel": RBF(1.0), "compat": "learned"} | given).fit(A, y)


def test_a_million_sparse_columns_are_refused_before_any_work():
    wide = sp.random(30, 1_000_000, density=1e-6, format="csr", random_state=0)
    with pytest.raises(BudgetError, match="30 x 1000000"):
        KSVD(RBF(1.0), compat="learned", memory="2GiB").fit(wide, Y)


def test_the_command_learns_on_the_labels_of_the_store_and_pickles_nothing(small, tmp_path, done):
    out = tmp_path / "e.zarr"
    done("embed", "--data", small / "real.zarr", "--to", out, "--kernel", "rbf", "--bandwidth", 2, "--n-components", 2,
         "--exact", "--columns", "--compat", "learned")  # fmt: skip
    data, group = store.open_store(small / "real.zarr"), store.open_store(out)
    X, y = (store.read(store.array(data, name)) for name in ("X", "y"))
    model = KSVD(RBF(2.0), 2, compat="learned", random_state=0).fit(X, y)
    np.testing.assert_allclose(store.read(store.array(group, "left")), model.left_singular_vectors_, rtol=1e-6)
    assert all(array.dtype.kind in "fiub" for _, array in group.arrays())

"""Gaussian mixtures of samples, and their divergences by Monte Carlo."""

import dask
import numpy as np
import pytest
import zarr
from scipy.special import logsumexp
from scipy.stats import norm

from ask_dask.errors import InputError
from ask_dask.kernels import montecarlo
from ask_dask.kernels.divergence import gaussian_divergence
from ask_dask.kernels.mixtures import Mixtures, fit_mixtures
from ask_dask.kernels.montecarlo import divergence_row, divergences

rng = np.random.default_rng(2)


def some(n=12, components=2, d=3, shift=0.0, seed=0):
    random = np.random.default_rng(seed)
    means = shift + random.normal(size=(n, components, d))
    return Mixtures(random.dirichlet(np.ones(components), n), means, random.gamma(2.0, size=means.shape) + 0.2)


def estimated(found, n_draws=500, random_state=0):
    group = zarr.create_group({})
    divergences(found, group, n_draws, random_state)
    return group["divergence"][:], group["standard_error"][:]


def files(path):
    return {file: file.stat().st_mtime_ns for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_log_densities_are_those_of_scipy(shift):
    found = some(shift=shift)
    X = found.draw(0, 20, 1)
    each = norm.logpdf(X[:, None, None], found.means, np.sqrt(found.variances)).sum(3)
    expected = logsumexp(each, axis=2, b=found.weights)
    np.testing.assert_allclose(found.log_densities(X), expected, rtol=1e-8)


def test_draws_have_the_moments_of_the_mixture_and_depend_on_the_item_alone():
    found = some()
    X = found.draw(3, 100_000, 0)
    mean = found.weights[3] @ found.means[3]
    second = found.weights[3] @ (found.variances[3] + found.means[3] ** 2)
    assert (np.abs(X.mean(0) - mean) < 5 * X.std(0) / np.sqrt(len(X))).all()
    assert (np.abs((X**2).mean(0) - second) < 5 * (X**2).std(0) / np.sqrt(len(X))).all()
    assert not np.array_equal(found.draw(3, 5, 0), found.draw(3, 5, 1))
    one = Mixtures(found.weights[[3] * 5], found.means[[3] * 5], found.variances[[3] * 5])
    np.testing.assert_array_equal(found.draw(3, 5, 0), one.draw(3, 5, 0))


def test_one_component_is_the_closed_form_within_its_standard_error():
    found = some(20, components=1)
    rows = np.hstack([found.means[:, 0], found.variances[:, 0]])
    exact = gaussian_divergence(rows, rows)
    estimate, error = estimated(found, 4000)
    off = ~np.eye(20, dtype=bool)
    z = (estimate - exact)[off] / error[off]
    assert (np.abs(z) < 5).all() and np.abs(z).mean() < 1.2  # mean of |z| is 0.80 for a standard normal
    assert not estimate.diagonal().any() and not error.diagonal().any()


def test_a_component_without_weight_changes_nothing():
    found = some()
    padded = [np.concatenate([part, filler], axis=1) for part, filler in (
        (found.weights, np.zeros((12, 1))), (found.means, np.zeros((12, 1, 3))), (found.variances, np.ones((12, 1, 3)))
    )]  # fmt: skip
    X = found.draw(0, 50, 0)
    np.testing.assert_allclose(Mixtures(*padded).log_densities(X), found.log_densities(X), rtol=1e-10)


def test_fits_find_the_components_and_are_repeatable():
    samples = [np.vstack([rng.normal(-5, 1, (300, 2)), rng.normal(5, 2, (100, 2))]) for _ in range(20)]
    found = fit_mixtures(samples, 2, random_state=4)
    order = np.argsort(found.means[:, :, 0], axis=1)
    np.testing.assert_allclose(np.take_along_axis(found.weights, order, 1), [[0.75, 0.25]] * 20, atol=0.01)
    deviations = np.sqrt(np.take_along_axis(found.variances[:, :, 0], order, 1))
    np.testing.assert_allclose(deviations, [[1, 2]] * 20, atol=0.5)
    with dask.config.set(scheduler="synchronous"):
        again = fit_mixtures(samples, 2, random_state=4)
    np.testing.assert_array_equal(again.means, found.means)


def test_fits_follow_a_change_of_units():
    samples = [rng.normal(size=(60, 3)) for _ in range(4)]
    units = np.array([1e-6, 1.0, 1e6])
    found, scaled = fit_mixtures(samples, 2, 0), fit_mixtures([s * units + 7 * units for s in samples], 2, 0)
    np.testing.assert_allclose(scaled.means, found.means * units + 7 * units, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(scaled.variances, found.variances * units**2, rtol=1e-5)


def test_small_and_constant_samples_have_fewer_components():
    samples = [np.zeros((1, 2)), np.ones((9, 2)), np.array([[0.0, 0.0], [3.0, 0.0]]), rng.normal(size=(30, 2))]
    found = fit_mixtures(samples, 3, random_state=0)
    assert (found.weights > 0).sum(1).tolist() == [1, 1, 2, 3]
    np.testing.assert_allclose(found.weights.sum(1), 1)
    assert (found.variances > 0).all() and all(np.isfinite(part).all() for part in estimated(found))


def test_a_row_depends_neither_on_blocks_nor_on_the_scheduler(monkeypatch):
    found = some(30)
    whole, error = estimated(found)
    for tasks, scheduler in ((3, "threads"), (64, "synchronous")):
        monkeypatch.setattr(montecarlo, "TASKS", tasks)
        with dask.config.set(scheduler=scheduler):
            again, error_again = estimated(found)
        np.testing.assert_array_equal(again, whole)
        np.testing.assert_array_equal(error_again, error)
    np.testing.assert_array_equal(divergence_row(found, 7, 500, 0)[0], whole[7])
    assert not np.array_equal(estimated(found, random_state=1)[0], whole)


def test_what_is_finished_is_not_computed_again(tmp_path):
    found = some(30)
    group = zarr.open_group(tmp_path / "g", mode="w", zarr_format=3)
    divergences(found, group, 500, 0)
    whole, before = group["divergence"][:], files(tmp_path)
    divergences(found, group, 500, 0)
    assert files(tmp_path) == before
    group["divergence_done"][4] = 0  # as if it had been stopped before this block
    group["divergence"][4] = np.nan
    before = files(tmp_path)
    divergences(found, group, 500, 0)
    changed = [
        str(file.relative_to(tmp_path / "g")) for file, time in files(tmp_path).items() if before.get(file) != time
    ]
    assert sorted(changed) == ["divergence/c/4/0", "divergence_done/c/4", "standard_error/c/4/0"]
    np.testing.assert_array_equal(group["divergence"][:], whole)


def test_what_belongs_to_other_mixtures_is_replaced(tmp_path):
    group = zarr.open_group(tmp_path / "g", mode="w", zarr_format=3)
    divergences(some(30), group, 500, 0)
    divergences(some(12, seed=1), group, 100, 0)
    np.testing.assert_array_equal(group["divergence"][:], estimated(some(12, seed=1), 100)[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_mixtures([], 2, 0), "no samples"),
        (lambda: fit_mixtures([np.ones((3, 2)), np.ones((3, 1))], 2, 0), "Sample 1 has shape"),
        (lambda: fit_mixtures([np.ones((3, 2)), np.ones((0, 2))], 2, 0), "Sample 1 has shape"),
        (lambda: fit_mixtures([np.array([[1.0], [np.nan]])], 2, 0), "Sample 0 holds NaN or infinity, first in row 1"),
        (lambda: fit_mixtures([np.ones((3, 2))], 0, 0), "n_components is 0"),
        (lambda: fit_mixtures([np.ones((3, 2))], 1, -1), "random_state is -1"),
        (lambda: divergences(some(), zarr.create_group({}), 1, 0), "n_draws is 1"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_the_last_bits_do_not_depend_on_the_threads_of_one_process():
    found = some(40, components=4)
    results = []
    for workers in (1, 3):
        with dask.config.set(num_workers=workers):
            results.append(estimated(found)[0])
    np.testing.assert_array_equal(*results)

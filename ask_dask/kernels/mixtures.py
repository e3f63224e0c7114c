"""Diagonal Gaussian mixtures, each fitted to a sample of points: an image as the sample of its patches, say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ask_dask import compute
from ask_dask.errors import InputError

SAMPLES_AT_ONCE = 16
"""Samples that one task fits mixtures to."""


@dataclass(frozen=True, eq=False)
class Mixtures:
    """N diagonal Gaussian mixtures of C components in d dimensions; a component that is not used has the weight 0.

    Attributes
    ----------
    weights : (N, C) float64
    means, variances : (N, C, d) float64
    """

    weights: np.ndarray
    means: np.ndarray
    variances: np.ndarray

    def __len__(self) -> int:
        return len(self.weights)

    def draw(self, i: int, n_draws: int, random_state: int) -> np.ndarray:
        """Points drawn from mixture i, (n_draws, d); they depend on i and the seed alone."""
        rng = np.random.default_rng([random_state, i])
        chosen = rng.choice(self.weights.shape[1], n_draws, p=self.weights[i] / self.weights[i].sum())
        noise = rng.standard_normal((n_draws, self.means.shape[2]))
        return self.means[i, chosen] + np.sqrt(self.variances[i, chosen]) * noise

    def log_densities(self, X: np.ndarray, which: slice = slice(None)) -> np.ndarray:
        """log p_j(x) for points X (n, d) and the mixtures j of a slice: (n, m) float64.

        One matrix product gives all components, from the columns [x^2, x] against [-1 / 2v, m / v], centred.
        """
        weights, variances = self.weights[which].T, self.variances[which].swapaxes(0, 1)  # components first
        centre = self.means[which].mean((0, 1))
        means, X = self.means[which].swapaxes(0, 1) - centre, X - centre
        with np.errstate(divide="ignore"):  # log 0 = -inf: a component that is not used
            constant = np.log(weights) - 0.5 * (np.log(2 * np.pi * variances) + means**2 / variances).sum(2)
        columns = np.concatenate([-0.5 / variances, means / variances], axis=2).reshape(constant.size, -1)
        logs = (np.hstack([X**2, X]) @ columns.T).reshape(len(X), *constant.shape)
        logs += constant
        top = logs.max(1)
        logs -= top[:, None]
        return top + np.log(np.exp(logs, out=logs).sum(1))


def fit_mixtures(
    samples: Sequence[np.ndarray], n_components: int, random_state: int, max_iter: int = 200, floor: float = 1e-3
) -> Mixtures:
    """Fit a diagonal Gaussian mixture to each sample by EM (scikit-learn's GaussianMixture), in parallel.

    Parameters
    ----------
    samples : sequence of (n_i, d) arrays
    n_components : int
        A sample with fewer distinct points has fewer components; the others get weight 0.
    random_state : int
        Each fit has its own seed, from this and the sample's number.
    max_iter : int
        Largest number of EM steps.
    floor : float
        Added to every variance, as a share of the coordinate's variance over all points; fits are made in coordinates
        scaled by it. Without it a coordinate that is constant in a component would make divergences infinite.

    Returns
    -------
    Mixtures

    Raises
    ------
    InputError
        No samples, a sample without points, of another width or with NaN or infinity (named), or a bad parameter.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> fitted = fit_mixtures([rng.normal(size=(200, 2)), rng.normal(5, 1, size=(200, 2))], 1, random_state=0)
    >>> fitted.means[1, 0].round()
    array([5., 5.])
    """
    for name, value, least in (("n_components", n_components, 1), ("max_iter", max_iter, 1)):
        require_whole(name, value, least)
    require_whole("random_state", random_state, 0)
    samples = _check_samples(samples)
    centre, spread = _pooled(samples)
    task = compute.task(_fit_some)
    tasks = [
        task(
            [(sample - centre) / spread for sample in samples[start : start + SAMPLES_AT_ONCE]],
            start, n_components, random_state, max_iter, floor,
        )
        for start in range(0, len(samples), SAMPLES_AT_ONCE)
    ]  # fmt: skip
    parts = compute.run(tasks, "Fit mixtures", "groups of samples")
    weights, means, variances = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Mixtures(weights, means * spread + centre, variances * spread**2)


def require_whole(name: str, value: Any, least: int) -> None:
    """Raise InputError for a parameter that is not a whole number of at least `least`."""
    if not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} is {value!r} and must be a whole number, {least} or more.")


def _fit_some(
    samples: list[np.ndarray], first: int, n_components: int, random_state: int, max_iter: int, floor: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and variances of the mixtures of some samples, the first of which has that number."""
    from sklearn.mixture import GaussianMixture

    d = samples[0].shape[1]
    weights = np.zeros((len(samples), n_components))
    means, variances = np.zeros((len(samples), n_components, d)), np.ones((len(samples), n_components, d))
    for i, sample in enumerate(samples):
        n = min(n_components, len(np.unique(sample, axis=0)))
        if n == 1:
            fitted = np.ones(1), sample.mean(0)[None], sample.var(0)[None] + floor
        else:
            seed = int(np.random.SeedSequence([random_state, first + i]).generate_state(1)[0])
            model = GaussianMixture(n, covariance_type="diag", reg_covar=floor, max_iter=max_iter, random_state=seed)
            model.fit(sample)
            fitted = model.weights_, model.means_, model.covariances_
        weights[i, :n], means[i, :n], variances[i, :n] = fitted
    return weights, means, variances


def _check_samples(samples: Sequence[np.ndarray]) -> list[np.ndarray]:
    if not len(samples):
        raise InputError("There are no samples to fit mixtures to: give one array of points for each item.")
    checked = [np.asarray(sample, np.float64) for sample in samples]
    d = checked[0].shape[-1] if checked[0].ndim == 2 else 0
    for number, sample in enumerate(checked):
        if sample.ndim != 2 or not sample.size or sample.shape[1] != d:
            raise InputError(f"Sample {number} has shape {sample.shape} and must hold points, one a row, of one width.")
        wrong = np.flatnonzero(~np.isfinite(sample).all(1))
        if len(wrong):
            raise InputError(f"Sample {number} holds NaN or infinity, first in row {wrong[0]}: correct or remove it.")
    return checked


def _pooled(samples: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each coordinate over all points; a deviation of 0 becomes 1."""
    n = sum(len(sample) for sample in samples)
    mean = np.sum([sample.sum(0) for sample in samples], axis=0) / n
    spread = np.sqrt(np.sum([((sample - mean) ** 2).sum(0) for sample in samples], axis=0) / n)
    return mean, np.where(spread > 0, spread, 1.0)

"""The kernel Fisher discriminant on moments, of two or more classes: every mu after one decomposition.

Shawe-Taylor and Sun, Kernel methods and support vector machines, eqs. (50) to (59). With the scatter within classes S_W
and between them S_B of landmark features, the directions maximise w'S_B w / w'(S_W + mu I) w. Classes are then those of
normal distributions with one covariance, (S_W + mu I) / N, and the classes' frequencies as priors.
"""

from dataclasses import dataclass

import numpy as np
from numpy.linalg import eigh

from ask_dask.moments import Centred
from ask_dask.nystrom import svd
from ask_dask.solve.protocol import Functions, Solution, Solve
from ask_dask.solve.rounding import rounding


@dataclass(frozen=True)
class Scatter:
    """The classes of a training set.

    Attributes
    ----------
    centred : Centred
    counts : (n_classes,)
        Weights of the classes.
    means : (r, n_classes)
        Means of their features, less the mean of all.
    values, vectors : (r,), (r, r)
        Of the scatter within classes.
    """

    centred: Centred
    counts: np.ndarray
    means: np.ndarray
    values: np.ndarray
    vectors: np.ndarray


@dataclass(frozen=True)
class Fisher(Solve):
    """The Fisher discriminant at every mu of a grid, of moments whose Y is +1 for a row's class and -1 for others.

    Attributes
    ----------
    grid : tuple of float
        Penalties mu of |w|^2 against the scatter within classes.
    """

    grid: tuple[float, ...]
    parameter = "mu"

    def decompose(self, centred: Centred) -> Scatter:
        """Return the classes' means and the decomposed scatter within them."""
        share, sums = (1 + centred.mean_y) / 2, centred.source.cross / 2
        if len(share) == 1:
            share, sums = np.append(1 - share, share), np.hstack([-sums, sums])
        counts = np.maximum(centred.count * share, 0.5)  # a class that a training set lacks counts for half a row
        means = sums / counts
        values, vectors = eigh(centred.source.gram - (means * counts) @ means.T)
        return Scatter(centred, counts, means, np.maximum(values, 0), vectors)

    def solve(self, state: Scatter, value: float) -> Solution:
        """Return log-odds of class 1, or a discriminant of each class; `more["directions"]` are Fisher's."""
        c, role, T = state.centred, state.centred.source, state.centred.maps.source
        left = state.values + value
        root = state.vectors / np.sqrt(left)
        P, ratios, _ = svd((root.T @ state.means) * np.sqrt(state.counts))
        W = root @ P[:, : len(state.counts) - 1]
        weights = c.count * W @ (W.T @ state.means)  # in the space of the directions, where S_W + mu I is I
        constants = np.log(state.counts / c.count) - (weights * state.means).sum(0) / 2
        if len(state.counts) == 2:
            weights, constants = weights[:, 1:] - weights[:, :1], constants[1:] - constants[:1]
        else:  # what all classes share does not decide
            weights, constants = weights - weights.mean(1, keepdims=True), constants - constants.mean()
        rough = rounding(
            [(role, weights)],
            c.count,
            np.maximum(role.energy(weights), np.finfo(float).tiny),
            lambda _, noise: role.energy(root @ (root.T @ noise)),
        )
        return Solution.of_one_role(
            T @ weights,
            constants - role.mean @ weights,
            condition_number=float(left.max(initial=value) / left.min(initial=left.max(initial=value))),
            rounding=rough,
            more={"directions": Functions(T @ W, role.mean @ W)},
            statistics={"ratios": (ratios[: W.shape[1]] ** 2).tolist()},
        )

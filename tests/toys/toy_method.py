"""A method in one file: its solve, its estimator and its declaration."""

from collections.abc import Sequence

import numpy as np
from sklearn.base import RegressorMixin

from ask_dask.estimators.methods import Method, declare
from ask_dask.estimators.one_role import OneRole, mean_share
from ask_dask.fit.outputs import Outputs
from ask_dask.moments import squared_errors
from ask_dask.solve import Solution, Solve


class Descent(Solve):
    """Steps along the gradient of the squared error, so many as the grid says."""

    parameter, from_moments = "rounds", True

    def __init__(self, grid):
        self.grid = grid

    def decompose(self, centred):
        return centred, np.linalg.eigvalsh(centred.source.gram)[-1]

    def solve(self, state, value):
        c, largest = state
        w = np.zeros_like(c.source.cross)
        for _ in range(int(value)):
            w = w + (c.source.cross - c.source.gram @ w) / largest
        return Solution.of_one_role(c.maps.source @ w, c.mean_y - c.source.mean @ w)

    def held_out(self, solution, cell):
        total = cell.yy[0] - cell.sum_y[0] ** 2 / cell.count[0]
        return squared_errors(cell, solution.source, solution.intercepts[0]), total


class EarlyStopping(RegressorMixin, OneRole):
    """Regression by gradient descent that stops early.

    Parameters
    ----------
    rounds : sequence of int
        Steps to choose from. More follow the rows more closely.
    """

    parameter = "rounds"
    kept = ("rounds_",)

    def __init__(
        self, kernel=None, rounds: Sequence[int] = (1, 10, 100), n_landmarks="auto", *, cv=5, landmarks="uniform",
        checkpoint=None, memory=None, random_state=None,
    ):  # fmt: skip
        self.kernel, self.rounds, self.n_landmarks, self.cv, self.landmarks = kernel, rounds, n_landmarks, cv, landmarks
        self.checkpoint, self.memory, self.random_state = checkpoint, memory, random_state

    def predict(self, X):
        return self._functions(X, self._block, 1)[:, 0]

    def block_outputs(self, block):
        return {"score": self._block(block)}

    @property
    def output_widths(self):
        return {"score": 1}

    def _check_y(self, y, n_rows):
        return Outputs("regression", np.asarray(y, float).reshape(n_rows, 1))

    def _solve(self, outputs):
        self.scoring_ = "r2"
        return Descent(tuple(self.rounds))

    def _metrics(self, errors):
        return {"r2": mean_share(errors), "rmse": float(np.sqrt(errors.squares / errors.weight).mean())}


declare(Method("early-stopping", EarlyStopping, "fit"))

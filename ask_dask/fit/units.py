"""The units in which labels are summed."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ask_dask.fit.problem import Problem
from ask_dask.moments import Rows
from ask_dask.solve import Solution


@dataclass(frozen=True)
class Units:
    """A shift and scale of real labels, so that sums in float32 have numbers of the size 1 about 0.

    Attributes
    ----------
    centre, scale : (q,), or (1,) for all outputs
    """

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, problem: Problem) -> "Units":
        """Return those of a problem's labels, which a method without an intercept takes unshifted."""
        outputs = problem.outputs
        if outputs.task != "regression":
            return cls(np.zeros(1), np.ones(1))
        scale = outputs.y.std(0)
        centre = outputs.y.mean(0) if problem.solve.intercept else np.zeros(outputs.q)
        return cls(centre, np.where(scale > 0, scale, 1.0))

    def rows(self, rows: Rows) -> Rows:
        """Return rows whose outputs are in these units."""
        return replace(rows, outputs=partial(self._encode, rows.outputs))

    def _encode(self, outputs: Any, y: Any) -> np.ndarray:
        return (outputs(y) - self.centre) / self.scale

    def undone(self, solution: Solution) -> Solution:
        """Return a solution in these units as one for the labels as they are."""
        return solution.of_units(self.centre, self.scale)

    def done(self, solution: Solution) -> Solution:
        """Return a solution for the labels as they are as one in these units."""
        return solution.of_units(-self.centre / self.scale, 1 / self.scale)

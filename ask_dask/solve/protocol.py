"""The protocol of methods on moments: what a method wants summed, its grid, and its solutions at each point of it.

A method is a `Solve`. One pass gathers the moments that it wants. Each training set is decomposed once, and every value
of the grid is then solved for without another pass. Everything here is NumPy.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ask_dask.moments import Centred, Moments
from ask_dask.solve.rounding import TOO_ROUGH


@dataclass(frozen=True)
class Wants:
    """The sums that a method needs beside those of the source's kernel columns.

    Attributes
    ----------
    target : bool
        Those of the target's kernel columns.
    diagonal : bool
        Those of k(x, x).
    """

    target: bool = False
    diagonal: bool = False


@dataclass(frozen=True)
class Functions:
    """Linear functions of kernel columns: scale * (k(x, Z_J) coefficients - offsets).

    Attributes
    ----------
    coefficients : (m, k)
        One array may serve the solutions at every value of a grid.
    offsets : (k,)
    scale : (k,), optional
    """

    coefficients: np.ndarray
    offsets: np.ndarray
    scale: np.ndarray | None = None

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Return the functions (n, k) from k(x, Z_J) coefficients - offsets."""
        return values if self.scale is None else values * self.scale


@dataclass(frozen=True)
class Solution:
    """The functions f_s(x) = k(x, Z_J) source + intercepts[0] and f_t(x) = k(X_I, x)' target + intercepts[1].

    A method with one role has f_s alone, which then stands for f_t too.

    Attributes
    ----------
    source : (m, q)
        Coefficients at the column landmarks.
    target : (n, q)
        Coefficients at the row landmarks; (0, q) of a method with one role.
    intercepts : (2, q)
    condition_number : float
        Condition number of the system as solved.
    amplification : float
        Norm of the fitted values about their mean over the training rows, divided by that of y: the largest of both
        roles and all outputs. A least-squares fit has at most 1; only modes near a resonance exceed it.
    rounding : float
        Estimated root mean square change of the fitted values by the rounding of the moments, divided by the
        deviation of y: the largest of all outputs; 0 where no moments were summed.
    unresolved : float
        Largest singular value of the kernel that its blocks' precision does not resolve, divided by the
        regularisation 1/gamma (with damping, by the root of 1/gamma^2 + damping). Above 1 the model lacks directions
        of the kernel that the regularisation would let it use.
    noise : (q,), optional
        Estimated variances of y about the fitted values.
    more : dict of Functions
        Further functions of a method, such as the directions of a discriminant.
    statistics : dict
        Further numbers of a method, ready for JSON.
    """

    source: np.ndarray
    target: np.ndarray
    intercepts: np.ndarray
    condition_number: float
    amplification: float = 0.0
    rounding: float = 0.0
    unresolved: float = 0.0
    noise: np.ndarray | None = None
    more: dict[str, Functions] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_one_role(cls, source: np.ndarray, intercepts: np.ndarray, **facts: Any) -> "Solution":
        """Return the solution of a method with one role: coefficients (m, q) and intercepts (q,)."""
        none = np.zeros((0, len(intercepts)))
        return cls(source, none, np.stack([intercepts, intercepts]), **{"condition_number": 1.0} | facts)

    @property
    def resolved(self) -> bool:
        """Return whether the precision of the rows resolves the regularisation."""
        return self.rounding <= TOO_ROUGH and self.unresolved <= 1

    def of_units(self, centre: np.ndarray, scale: np.ndarray) -> "Solution":
        """Return the solution for y = centre + scale * Y, each (q,), where this is that for Y."""
        intercepts = self.intercepts * scale + centre
        noise = None if self.noise is None else self.noise * scale**2
        return replace(self, source=self.source * scale, target=self.target * scale, intercepts=intercepts, noise=noise)


def mean_solution(parts: Sequence[Solution]) -> Solution:
    """Return the mean of solutions at the same landmarks: its discriminants are the mean of theirs."""
    means = {name: np.mean([getattr(part, name) for part in parts], 0) for name in ("source", "target", "intercepts")}
    worst = {name: max(getattr(part, name) for part in parts)
             for name in ("condition_number", "amplification", "rounding", "unresolved")}  # fmt: skip
    return Solution(**means, **worst)


@dataclass(frozen=True)
class Model:
    """The model of all rows at one (landmark count, grid value) pair.

    Attributes
    ----------
    solution : Solution
    singular_values : (r,) array, descending
        Those of the centred kernel matrix, or of its approximation; none where a method has no use for them.
    poles : array, descending
        Singular values at which gamma = 1 / sigma makes the system singular.
    solver : dict
        How it was solved, ready for JSON; "name" is "landmarks", "dense" or "minres".
    safe : float, optional
        A value of the grid whose solution the rounded moments resolve; None where it is the pair's.
    """

    solution: Solution
    singular_values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    poles: np.ndarray = field(default_factory=lambda: np.zeros(0))
    solver: dict[str, Any] = field(default_factory=dict)
    safe: float | None = None


class Solve(ABC):
    """A method on moments.

    Attributes
    ----------
    parameter : str
        What the grid holds values of, as the estimator's parameter is named.
    wants : Wants
    grid : tuple of float
        Values that need no further pass.
    from_moments : bool
        Held-out scores come from the moments of the held-out rows (`held_out`), without a pass over these.
    intercept : bool
        f has an intercept without a penalty, so that labels may be shifted.
    weak_when_large : bool
        A large value of the parameter regularises little, as gamma, where a small alpha does.
    """

    parameter: ClassVar[str]
    wants: ClassVar[Wants] = Wants()
    from_moments: ClassVar[bool] = False
    weak_when_large: ClassVar[bool] = False
    intercept: bool = True
    grid: tuple[float, ...]

    @abstractmethod
    def decompose(self, centred: Centred) -> Any:
        """Return what all values of the grid share, for the moments of a training set."""

    @abstractmethod
    def solve(self, state: Any, value: float) -> Solution:
        """Return the solution at one value of the grid, from what `decompose` returned."""

    def model(self, state: Any, value: float) -> Model:
        """Return the solution at one value of the grid for all rows, and what is told of it."""
        return Model(self.solve(state, value))

    def held_out(self, solution: Solution, cell: Moments) -> tuple[np.ndarray, np.ndarray]:
        """Return the errors of a solution on rows it has not seen, and what they are a share of, (k,) each.

        Both come from the rows' moments (1, ...).
        """
        raise NotImplementedError(f"{type(self).__name__} needs the rows themselves to score held-out ones.")

"""How iterations go: what is told of them at the end, and what is shown and kept on the way."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ask_dask.store import Checkpoint


@dataclass
class Convergence:
    """How the iterations went.

    Attributes
    ----------
    iterations, evaluations : int
        MINRES steps, and how often the kernel was evaluated at all rows (steps, true residuals, predictions).
    residuals : list of float
        Largest relative residual of the systems after each step.
    relative_residual : float
        The largest true one at the end, |r - M s| / |r|; of a singular system, of its least-squares part.
    converged : bool
    pseudo_inverse : int
        Systems that are singular and have the pseudo-inverse's solution.
    seconds : float
    """

    iterations: int = 0
    evaluations: int = 0
    residuals: list[float] = field(default_factory=list)
    relative_residual: float = np.inf
    converged: bool = False
    pseudo_inverse: int = 0
    seconds: float = 0.0


class Watch:
    """Counts steps, keeps the residuals, shows progress and writes the checkpoint.

    Parameters
    ----------
    found : Convergence
        Its residuals may be those of an interrupted run.
    tol, max_iter : float, int
    checkpoint : Checkpoint, optional
    advance : callable
        Told of every tenth of a digit that the residual has lost.
    """

    def __init__(
        self,
        found: Convergence,
        tol: float,
        max_iter: int,
        checkpoint: Checkpoint | None,
        advance: Callable[[], None],
    ) -> None:
        self.found, self.tol, self.max_iter = found, tol, max_iter
        self.checkpoint, self.advance, self.shown = checkpoint, advance, 0

    @property
    def exhausted(self) -> bool:
        """Whether there are no more steps to make."""
        return len(self.found.residuals) >= self.max_iter

    def stepped(self, residual: float, kept: Callable[[], dict[str, np.ndarray]] | None = None) -> None:
        """After a step; `kept` gives what the checkpoint keeps beside the residuals; without, it stays as it is."""
        self.found.residuals.append(residual)
        while self.shown < min(digits(residual), digits(self.tol)):
            self.advance()
            self.shown += 1
        if self.checkpoint and kept:
            residuals = np.array(self.found.residuals)
            self.checkpoint.offer(lambda: kept() | {"residuals": residuals}, self.exhausted, tol=self.tol)


def digits(residual: float) -> int:
    """Tenths of digits that a relative residual is below 1.

    >>> digits(1e-3)
    30
    """
    return max(0, int(-10 * np.log10(max(residual, 1e-300))))

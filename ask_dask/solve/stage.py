"""A run of MINRES from where the solutions stood, and what a checkpoint keeps of it.

The iterate alone would do to go on, by a restart; but then the steps are others, and so, within the tolerance, is the
result. With all that the next step depends on, who goes on takes the very steps that were left.
"""

from dataclasses import dataclass, fields

import numpy as np

from ask_dask.solve.minres import Operator, State

ARRAYS = ("basis", "before", "singular", "numbers", "targets", "live")
VECTORS = ("x", "y", "r1", "r2", "w", "w2")
SCALARS = tuple(found.name for found in fields(State) if found.name not in VECTORS)
"""Of a state (n, l) and (l,); each file of a checkpoint takes time, and of the scalars there are ten."""


@dataclass
class Stage:
    """MINRES on k of S systems; those that are solved, or found singular, leave.

    Attributes
    ----------
    number : int
        How many came before it.
    basis : array
        What tells the preconditioner, or the coordinates, in which its vectors have a meaning.
    before : (n, S)
        The solutions of all systems when it began.
    singular : (S,) bool
        Those that are known to be singular.
    numbers, targets : (k,)
        Its systems, and the residuals that each is to reach.
    live : (l,)
        Places among `numbers` of those that are left.
    state : State
        Of these.
    """

    number: int
    basis: np.ndarray
    before: np.ndarray
    singular: np.ndarray
    numbers: np.ndarray
    targets: np.ndarray
    live: np.ndarray
    state: State

    @classmethod
    def begin(
        cls, number: int, basis: np.ndarray, s: np.ndarray, singular: np.ndarray, right: np.ndarray,
        numbers: np.ndarray, targets: np.ndarray, precondition: Operator,
    ) -> "Stage":  # fmt: skip
        """From the solutions s (n, S), of which `right` (n, k) are the residuals of some."""
        state = State.start(right, precondition, numbers)
        return cls(number, basis, s.copy(), singular.copy(), numbers, targets, np.arange(len(numbers)), state)

    @classmethod
    def of(cls, kept: dict[str, np.ndarray], basis: np.ndarray) -> "Stage | None":
        """What `kept` kept; None where it has another basis, such as random landmarks of another seed."""
        if not np.array_equal(kept["basis"], basis):
            return None
        scalars = dict(zip(SCALARS, kept["scalars"], strict=True))
        state = State(**{name: kept[name] for name in VECTORS}, **scalars)
        return cls(number=int(kept["number"][0]), state=state, **{name: kept[name] for name in ARRAYS})

    def kept(self, s: np.ndarray) -> dict[str, np.ndarray]:
        """All that it is, and the solutions by now."""
        state = {name: getattr(self.state, name) for name in VECTORS}
        scalars = np.stack([getattr(self.state, name) for name in SCALARS])
        arrays = {name: getattr(self, name) for name in ARRAYS}
        return arrays | state | {"scalars": scalars, "number": np.array([self.number]), "s": s}

    @property
    def here(self) -> np.ndarray:
        """Numbers of the systems that are left."""
        return self.numbers[self.live]

    def leave(self, left: np.ndarray, singular: np.ndarray) -> None:
        """Go on with some of those that are left, of which some were found singular, all as (l,) bool."""
        self.singular[self.here[singular]] = True
        if not left.all():
            self.state, self.live = self.state.keep(left), self.live[left]

"""The conditional probability of a target given a source, from counts of what they share."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ask_dask.kernels.base import Block
from ask_dask.kernels.divergence import float_type, require_counts
from ask_dask.kernels.normalised import Affinity, Normaliser, _Normalised, one_over
from ask_dask.kernels.pointwise import inner

NEVER = 1e-30
"""Added to every co-occurrence: nothing beside a count, and all there is where a source meets no target."""


@dataclass(frozen=True)
class ConditionalProbability(_Normalised):
    """k(x, z) = P(z | x) = x'z / sum over the targets z' of x'z', for rows that hold counts.

    x'z counts the co-occurrences of x and z: rows are items, columns what they occur in (or the reverse). A source
    that meets no target gives all of them the same probability. He et al., Learning with Asymmetric Kernels, name
    conditional probability as an asymmetric kernel.

    Parameters
    ----------
    normaliser : {"landmarks", "exact"}
        The sum over all targets is estimated from the column landmarks, or made in full.

    Raises
    ------
    InputError
        A count that is negative, NaN or infinite: names the row of the block.

    Examples
    --------
    >>> counts = np.array([[2.0, 0.0], [1.0, 1.0]])
    >>> ConditionalProbability()(counts, counts).round(3)
    array([[0.667, 0.333],
           [0.5  , 0.5  ]])
    """

    normaliser: Normaliser = "landmarks"

    def affinity(self, Z: Block, log_over: np.ndarray | None = None) -> Affinity:
        require_counts(Z)
        return partial(_together, Z, one_over(log_over))


def _together(Z: Block, size: np.ndarray | float, X: Block) -> tuple[np.ndarray, np.ndarray]:
    require_counts(X)
    E = inner(X, Z).astype(float_type(X), copy=False)
    E += NEVER
    E *= size
    return E, np.zeros(len(E), E.dtype)

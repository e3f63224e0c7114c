"""An estimate of the change of a solution by the rounding of float32 products."""

from collections.abc import Callable, Sequence

import numpy as np

from ask_dask.moments import Role

TOO_ROUGH = 0.01
"""A solution whose `rounding` is above this is warned of, and not chosen where there is another."""

PROBES = 4
"""Random right-hand sides whose solutions show how much a solution changes with its rounded moments."""


def rounding(
    roles: Sequence[tuple[Role, np.ndarray]],
    n: float,
    yy: np.ndarray,
    answer: Callable[[int, np.ndarray], np.ndarray],
) -> float:
    """Return the estimate of `Solution.rounding`.

    To first order an error E of the Gram changes the solution by that for the right-hand side -E w, which has the signs
    of noise, as the probes have, and in row a the size of `summed` or `evaluated` times that of the fitted values.
    Rounded kernel entries also change the fitted values themselves.

    Parameters
    ----------
    roles : sequence of (Role, (r, q) coefficients of its features)
    n : float
        Weight of the training rows.
    yy : (q,)
        Squares of Y about its mean, above 0.
    answer : callable
        The number of a role, and right-hand sides (r, k) -> sums of squares (k,) of the values that they fit.
    """
    if not len(yy):
        return 0.0
    change = np.zeros(len(yy))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(roles[0][0].mean), 2 * PROBES))
    for number, (role, w) in enumerate(roles):
        sizes = np.sqrt(np.repeat([role.summed, role.evaluated], PROBES, axis=0)).T
        answers = answer(number, sizes * signs).reshape(2, PROBES).mean(1)
        change += answers @ [role.summed @ w**2 + yy, role.energy(w) + yy]
        change += n * (role.columns @ (role.T @ w) ** 2)
    return float(roles[0][0].eps * np.sqrt(change / yy).max())

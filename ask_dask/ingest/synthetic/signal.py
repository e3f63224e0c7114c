"""What the made-up clicks depend on: a curved, asymmetric function of the written cells, and the time.

The numeric columns show four habits: s1 and s2 of who looks (the source), t1 and t2 of what is shown (the target).
"""

import numpy as np

INTERCEPT = -1.4  # with the weights below, puts the click rate near 0.25 and the best AUROC near 0.78


def click_probability(
    integers: np.ndarray, tokens: np.ndarray, no_integer: np.ndarray, no_token: np.ndarray, day: np.ndarray
) -> np.ndarray:
    """Probability of a click in each of n rows, float64 (n,).

    Columns of tokens have an effect for each value, which target encoding finds. Most of what habits tell is in no
    column alone: s1 t2 - s2 t1 changes its sign when source and target change places, and being far from the middle
    raises the odds on every side.

    Parameters
    ----------
    integers, tokens : (13, n), (26, n)
        The cells.
    no_integer, no_token : bool (13, n), (26, n)
        Where they are missing: such a cell has no effect.
    day : float (n,)
        Time in days.
    """
    z = {j: np.where(no_integer[j], np.float32(0), _standardised(integers[j], j)) for j in (1, 3, 4, 5, 6, 7, 8, 10)}
    felt = {j: np.where(no_token[j], np.float32(0), _effect(tokens[j])) for j in (0, 2, 6, 10, 11, 13, 22)}
    s1, s2, t1, t2 = (0.55 * (z[i] + z[j]) for i, j in ((4, 8), (1, 5), (6, 10), (3, 7)))
    straight = 0.2 * (s1 - t2) + 0.35 * (felt[0] + felt[22]) + 0.3 * (felt[13] + felt[10])
    frequent = 0.2 * (felt[2] + felt[11] + felt[6])
    asymmetric = 0.8 * np.tanh(s1 * t2 - s2 * t1) + 0.2 * (felt[0] * felt[10] - felt[13] * felt[22])
    curved = 0.9 * np.sqrt(1 + s1**2 + t1**2) - 1.44 + 0.4 * s1 * felt[22]
    return 1 / (1 + np.exp(-(INTERCEPT + drift(day) + straight + frequent + asymmetric + curved)))


def drift(day: np.ndarray) -> np.ndarray:
    """What time adds to the log odds: a wave each day on a wave each week."""
    return 0.25 * np.sin(2 * np.pi * day) + 0.15 * np.sin(2 * np.pi * day / 7)


def _standardised(integers: np.ndarray, column: int) -> np.ndarray:
    """The logarithm, with about mean 0 and variance 1."""
    logs = np.copysign(np.log1p(np.abs(integers, dtype=np.float32)), integers)
    return (logs - np.float32(0.8 + column % 4)) / np.float32(0.8 + 0.15 * (column % 5))


def _effect(tokens: np.ndarray) -> np.ndarray:
    """An effect of each token, of mean 0 and variance 1 over all: the token once more scrambled, whatever the seed."""
    h = tokens * np.uint32(0x2C1B3C6D)
    h = (h ^ (h >> np.uint32(12))) * np.uint32(0x297A2D39)
    h ^= h >> np.uint32(15)
    return h.astype(np.float32) * np.float32(12**0.5 / 2**32) - np.float32(3**0.5)

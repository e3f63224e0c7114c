"""Rows of a made-up click log, in the columns of Criteo's: each depends on a seed and its own number alone.

Random numbers come from Philox, a generator with a counter: block b of 16,384 rows starts its own stretch of the
stream, so any rows can be made anywhere, in any order. Time is the row's number; a day has DAY_ROWS of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from ask_dask.errors import InputError
from ask_dask.ingest.synthetic.signal import click_probability

VERSION = 1
"""Of the rows: another one makes others from the same seed."""

BLOCK_ROWS = 1 << 14
"""Rows that are made together, from one stretch of random numbers."""

DAY_ROWS = 45_840_617 // 7
"""Criteo's log holds seven days."""

N_VALUES = (
    1460, 583, 41_000_000, 2_280_000, 305, 24, 12_517, 633, 3, 93_145, 5683, 21_500_000, 3194, 27, 14_992, 7_950_000,
    10, 5652, 2173, 4, 13_500_000, 18, 15, 286_181, 105, 142_572,
)  # fmt: skip
"""Values that each of C1..C26 can take. At 45,840,617 rows about as many occur as in Criteo's: 34 million together."""

ABSENT_INTEGERS = {(0, 9): 0.45, (2,): 0.21, (3, 12): 0.22, (4,): 0.03, (5,): 0.22, (6, 8, 10): 0.04, (11,): 0.77}
"""Columns that are missing together, and the share of rows where they are, much as in Criteo's."""

ABSENT_TOKENS = {(2, 3, 11, 15, 20, 23): 0.034, (5,): 0.12, (18, 19, 24, 25): 0.44, (21,): 0.76}

TREND_SHARE = 0.3
"""Rows whose values follow the fashion of their day; in the others popularity never changes."""


@dataclass(frozen=True)
class Rows:
    """n consecutive rows; a column is one stretch of memory.

    Attributes
    ----------
    label : int8 (n,)
    probability : float64 (n,)
        That the label is 1: what no model can know better.
    integers : int32 (13, n)
    tokens : uint32 (26, n)
        Written as eight hexadecimal digits.
    no_integer, no_token : bool (13, n), (26, n)
        Where a cell is missing.
    """

    label: np.ndarray
    probability: np.ndarray
    integers: np.ndarray
    tokens: np.ndarray
    no_integer: np.ndarray
    no_token: np.ndarray

    def part(self, start: int, stop: int) -> "Rows":
        """Rows start..stop of these."""
        return Rows(*(getattr(self, field.name)[..., start:stop] for field in fields(self)))


def make_rows(first: int, stop: int, random_state: int) -> Iterator[Rows]:
    """Rows first..stop of the log of a seed, a block at a time.

    Examples
    --------
    >>> long, short = next(make_rows(0, 9000, 0)), next(make_rows(3000, 5000, 0))
    >>> bool((long.tokens[:, 3000:5000] == short.tokens).all())
    True
    """
    for block in range(first // BLOCK_ROWS, -(-stop // BLOCK_ROWS)):
        start = block * BLOCK_ROWS
        rows = _block(block, random_state)
        yield rows if first <= start and start + BLOCK_ROWS <= stop else rows.part(max(first - start, 0), stop - start)


def check_rows(n_rows: int, first: int, random_state: int) -> None:
    """Raise InputError where no such rows can be made."""
    if n_rows < 1:
        raise InputError(f"n_rows is {n_rows}: give 1 or more.")
    if first < 0:
        raise InputError(f"first is {first}: give the number of a row, from 0.")
    if not 0 <= random_state < 2**32:
        raise InputError(f"random_state is {random_state}: give 0 to 2**32 - 1.")


def _block(block: int, random_state: int) -> Rows:
    rng = np.random.Generator(np.random.Philox(key=[random_state, 0], counter=[0, 0, 0, block]))
    day = (block * BLOCK_ROWS + np.arange(BLOCK_ROWS)) / DAY_ROWS
    habits, own = rng.standard_normal((4, BLOCK_ROWS), np.float32), rng.standard_normal((13, BLOCK_ROWS), np.float32)
    integers = _integers(np.float32(0.8) * habits[np.arange(13) % 4] + np.float32(0.6) * own)
    no_integer, no_token = _absent(rng, ABSENT_INTEGERS, 13), _absent(rng, ABSENT_TOKENS, 26)
    tokens = _tokens(_values(rng, day))
    probability = click_probability(integers, tokens, no_integer, no_token, day)
    label = (rng.random(BLOCK_ROWS) < probability).astype(np.int8)
    return Rows(label, probability, integers, tokens, no_integer, no_token)


def _integers(latent: np.ndarray) -> np.ndarray:
    """Skewed integers from standard normal ones; those of the second column go down to -3."""
    j = np.arange(13, dtype=np.float32)[:, None]
    counts = np.expm1(np.maximum(0.8 + j % 4 + (0.8 + 0.15 * (j % 5)) * latent, 0.0)).astype(np.int32)
    counts[1] = np.where(latent[1] < -1, np.maximum(np.rint(latent[1]), -3), counts[1])
    return counts


def _absent(rng: np.random.Generator, shares: dict[tuple[int, ...], float], n_columns: int) -> np.ndarray:
    absent = np.zeros((n_columns, BLOCK_ROWS), bool)
    for columns, share in shares.items():
        absent[list(columns)] = rng.random(BLOCK_ROWS) < share
    return absent


def _values(rng: np.random.Generator, day: np.ndarray) -> np.ndarray:
    """Numbers of the values, int64 (26, n), that of rank r drawn in proportion to about 1 / (r + 1) (Zipf).

    In the rows of the trend ranks are dealt anew each day; from one day to the next its rows change over one by one.
    """
    u = rng.random(BLOCK_ROWS) / TREND_SHARE
    deal = np.where(u < 1, np.floor(day + u), 0).astype(np.int64)
    sizes = np.array(N_VALUES)[:, None]
    ranks = np.exp(rng.random((26, BLOCK_ROWS)) * np.log(sizes + 1)).astype(np.int64) - 1
    values = np.minimum(ranks, sizes - 1)
    moved = np.flatnonzero(deal)
    values[:, moved] = (values[:, moved] + deal[moved] * (sizes // 7 + 1)) % sizes
    return values


def _tokens(values: np.ndarray) -> np.ndarray:
    """Scrambled to 32 bits, one-to-one within a column (the last step of MurmurHash3)."""
    h = values.astype(np.uint32) + np.arange(26, dtype=np.uint32)[:, None] * np.uint32(0x9E3779B1)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))

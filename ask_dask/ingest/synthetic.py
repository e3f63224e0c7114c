"""Click logs made up by a seed, in the text of Criteo's, with a signal whose best possible AUROC is known."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from fsspec import open as open_url

from ask_dask.errors import InputError
from ask_dask.ingest.formats import CRITEO
from ask_dask.ingest.hashing import splitmix64

BLOCK_ROWS = 1 << 14
"""Rows made from one seed: row i is the same in files of any length."""

CARDINALITIES = (
    1460, 580, 100_000, 60_000, 300, 24, 12_500, 630, 3, 93_000, 5700, 90_000, 3200, 27, 15_000, 80_000, 10, 5650, 2170,
    4, 85_000, 18, 15, 50_000, 100, 40_000,
)  # fmt: skip
"""Values that each of C1..C26 can take, much as in the real data."""

MISSING_NUMERIC = (0.45, 0.0, 0.21, 0.22, 0.03, 0.22, 0.04, 0.001, 0.04, 0.45, 0.04, 0.77, 0.22)
MISSING_CATEGORICAL = {2: 0.03, 3: 0.03, 5: 0.12, 11: 0.03, 15: 0.03, 18: 0.44, 19: 0.44, 20: 0.03, 21: 0.76, 23: 0.03}

_SCALE = 1.14  # with the intercept, puts the AUROC near 0.80 and the click rate near 0.25
_INTERCEPT = -1.66


@dataclass(frozen=True)
class Made:
    """What was made: rows, the share of clicks, and the AUROC of the true click probability (no model does better)."""

    n_rows: int
    click_rate: float
    best_auroc: float


def make_criteo(path: str | Path, n_rows: int, random_state: int = 0) -> Made:
    """Write n_rows of made-up clicks as Criteo text (tab separated, no header); compressed if the name says so.

    Integers are skewed, tokens follow Zipf's law, cells are missing at a rate that depends on the column. About half
    of what can be known of a click is in products of two numbers, of a number and a token, or of two tokens.

    Parameters
    ----------
    path : path or URL
        Such as train.txt or train.txt.gz.
    n_rows : int
    random_state : int
        Seed; a row depends on it and on the row's number alone.

    Raises
    ------
    InputError
        n_rows is below 1.

    Examples
    --------
    >>> import tempfile
    >>> made = make_criteo(tempfile.mkdtemp() + "/train.txt", 20_000)
    >>> 0.2 < made.click_rate < 0.3, 0.78 < made.best_auroc < 0.82
    (True, True)
    """
    if n_rows < 1:
        raise InputError(f"n_rows is {n_rows}: give 1 or more.")
    # The probability in 2**16 steps is enough to rank by, and small at any number of rows.
    counts = np.zeros((2, 1 << 16), np.int64)
    with open_url(str(path), "wb", compression="infer") as file:
        for table, probability in _blocks(n_rows, random_state):
            pa.csv.write_csv(
                table, file, pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
            )
            np.add.at(counts, (table["label"].to_numpy(), (probability * 65535).astype(np.int64)), 1)
    return Made(n_rows, float(counts[1].sum() / n_rows), _auroc(counts))


def _auroc(counts: np.ndarray) -> float:
    """AUROC of a score in steps, from the rows of label 0 and 1 at each step: (2, k)."""
    below = np.cumsum(counts[0]) - counts[0] / 2
    pairs = int(counts[0].sum()) * int(counts[1].sum())
    return float(below @ counts[1] / pairs) if pairs else float("nan")


def _blocks(n_rows: int, random_state: int) -> Iterator[tuple[pa.Table, np.ndarray]]:
    tokens = [_tokens(column, size) for column, size in enumerate(CARDINALITIES)]
    effects = [_effects(column, size) for column, size in enumerate(CARDINALITIES)]
    for block in range(-(-n_rows // BLOCK_ROWS)):
        rng = np.random.default_rng([random_state, block])
        latent = rng.standard_normal((BLOCK_ROWS, 13))
        values = [_zipf(rng, size) for size in CARDINALITIES]
        absent = [rng.random(BLOCK_ROWS) < rate for rate in MISSING_NUMERIC]
        empty = {column: rng.random(BLOCK_ROWS) < rate for column, rate in MISSING_CATEGORICAL.items()}
        felt = [np.where(empty.get(j, False), 0.0, effect[values[j]]) for j, effect in enumerate(effects)]
        z = np.where(np.stack(absent, axis=1), 0.0, latent)
        probability = 1 / (1 + np.exp(-(_INTERCEPT + _SCALE * _signal(z, felt))))
        label = (rng.random(BLOCK_ROWS) < probability).astype(np.int64)
        columns = [pa.array(label)]
        columns += [pa.array(_integers(latent[:, j], j), mask=absent[j]) for j in range(13)]
        columns += [
            tokens[j].take(pa.array(value, mask=empty.get(j, np.zeros(BLOCK_ROWS, bool))))
            for j, value in enumerate(values)
        ]
        kept = min(BLOCK_ROWS, n_rows - block * BLOCK_ROWS)
        yield pa.table(columns, names=list(CRITEO.columns(labelled=True))).slice(0, kept), probability[:kept]


def _signal(z: np.ndarray, felt: list[np.ndarray]) -> np.ndarray:
    straight = 0.35 * z[:, 4] - 0.3 * z[:, 5] + 0.25 * z[:, 10] + 0.35 * (felt[0] + felt[6] + felt[13] + felt[22])
    curved = 0.45 * np.tanh(z[:, 1] * z[:, 6]) + 0.4 * np.cos(2 * z[:, 8]) + 0.3 * z[:, 3] * felt[16]
    joint = 0.4 * felt[4] * felt[16] + 0.4 * felt[7] * felt[24] + 0.3 * z[:, 10] * felt[5]
    return straight + curved + joint


def _integers(latent: np.ndarray, column: int) -> np.ndarray:
    """Skewed integers from standard normal ones; those of the second column go down to -3."""
    counts = np.expm1(np.maximum(0.8 + column % 4 + (0.8 + 0.15 * (column % 5)) * latent, 0.0)).astype(np.int64)
    return np.where(latent < -1, np.maximum(np.round(latent).astype(np.int64), -3), counts) if column == 1 else counts


def _zipf(rng: np.random.Generator, size: int) -> np.ndarray:
    """Ranks 0..size - 1, rank r in proportion to about 1 / (r + 1)."""
    return np.minimum(np.exp(rng.random(BLOCK_ROWS) * np.log(size + 1)).astype(np.int64) - 1, size - 1)


def _tokens(column: int, size: int) -> pa.Array:
    hashed = splitmix64(np.arange(size, dtype=np.uint64) + np.uint64(column << 32)) >> np.uint64(32)
    return pa.array([f"{value:08x}" for value in hashed.tolist()])


def _effects(column: int, size: int) -> np.ndarray:
    """An effect of about unit variance for each value of a column, the same whatever the seed."""
    return np.random.default_rng([1000, column]).standard_normal(size)

"""Click logs as sparse rows: a synthetic one with a planted rule, of any size, and the columns of a real one."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction import FeatureHasher

from ask_dask import store
from ask_dask.ingest.hashing import splitmix64
from ask_dask.sparse import SparseRows, SparseWriter

FIELDS, OPTIONAL, TYPES, STEP = 39, 13, 4, 16384


def synthetic(path: Path, rows: int, columns: int, first: int = 0) -> tuple[SparseRows, np.ndarray, np.ndarray]:
    """A store of a made-up click log, its clicks (N,) and the probability (N,) they were drawn with.

    A row has a hidden user type and a hidden context type, 1 of 4 each. Its 39 fields have a value each, 13 of them
    only half the time. Half of the fields take values that the user's type prefers, the other half those of the
    context's, with probability 0.8; else, values of everybody. Values of a field are Zipf distributed, and hashed to
    columns; entries are 1 over the root of the row's number of values. Clicks depend on the pair of types: half of the
    variance of their log-odds is a sum of both, which a linear rule of the values can follow, half is not. Rows are
    drawn 16,384 at a time, from seeds of their own: a log with `first` above 0 has other rows of the same rule.
    """
    rng = np.random.default_rng(0)
    odds = -1.4 + 1.2 * (rng.normal(size=(TYPES, 1)) + rng.normal(size=TYPES)) / np.sqrt(2) + 1.2 * _apart(rng)
    clicks, probabilities = np.empty(rows, np.int8), np.empty(rows)
    with store.create(path, "dataset") as group:
        writer = SparseWriter(group.create_group("X"), np.float32)
        for start in range(0, rows, STEP):
            stop = min(start + STEP, rows)
            rng = np.random.default_rng([1, first + start])
            types = rng.integers(0, TYPES, (2, STEP))
            values, present = _values(rng, types, columns), rng.random((STEP, FIELDS)) < 0.5
            present[:, OPTIONAL:] = True
            chance = 1 / (1 + np.exp(-odds[types[0], types[1]]))
            clicks[start:stop] = (rng.random(STEP) < chance)[: stop - start]
            probabilities[start:stop] = chance[: stop - start]
            _add(writer, values[: stop - start], present[: stop - start], columns)
        writer.close(columns)
    return SparseRows(store.open_store(path)["X"]), clicks, probabilities


def _apart(rng: np.random.Generator) -> np.ndarray:
    """Log-odds of pairs of types with no part that is a sum over both, of variance 1."""
    table = rng.normal(size=(TYPES, TYPES))
    table -= table.mean(0)
    table -= table.mean(1)[:, None]
    return table / table.std()


def _values(rng: np.random.Generator, types: np.ndarray, columns: int) -> np.ndarray:
    """A number for each field's value, uint64 (STEP, FIELDS); ranks are log-uniform, that is, of density 1 / rank."""
    which = np.repeat(types, [FIELDS // 2, FIELDS - FIELDS // 2], axis=0).T
    preferred = rng.random((STEP, FIELDS)) < 0.8
    sizes = np.geomspace(4, max(columns / 4, 20), FIELDS)[np.arange(FIELDS) * 7 % FIELDS]  # both halves have all sizes
    rank = (sizes ** rng.random((STEP, FIELDS))).astype(np.uint64)
    owner = np.where(preferred, which + 1, 0).astype(np.uint64) * np.uint64(FIELDS) + np.arange(FIELDS, dtype=np.uint64)
    return owner << np.uint64(32) | rank


def _add(writer: SparseWriter, values: np.ndarray, present: np.ndarray, columns: int) -> None:
    """Rows whose values are hashed to columns; those that meet in a column add up."""
    row, lengths = np.nonzero(present)[0], present.sum(1)
    column = splitmix64(values[present]) % np.uint64(columns)
    entries = (1 / np.sqrt(lengths))[row].astype(np.float32)
    found = sp.coo_matrix((entries, (row, column.astype(np.int32))), shape=(len(values), columns)).tocsr()
    writer.add(found.data, found.indices, np.diff(found.indptr))


def criteo(text: Path, columns: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """The 39 columns of Criteo's text, hashed, as rows of length 1, and the clicks; numbers by bins of sign(x) log."""
    cells = [line.split("\t") for line in text.read_text().splitlines()]
    hasher = FeatureHasher(columns, input_type="string", alternate_sign=False, dtype=np.float32)
    found = hasher.transform([_tokens(row) for row in cells])
    lengths = np.sqrt(found.multiply(found).sum(1).A1)
    return sp.csr_matrix(sp.diags_array(1 / lengths).astype(np.float32) @ found), np.array([int(r[0]) for r in cells])


def _tokens(row: list[str]) -> list[Any]:
    numbers = [(j, float(row[j])) for j in range(1, 14) if row[j]]
    logs = [f"n{j}={np.floor(2 * np.sign(x) * np.log1p(abs(x)))}" for j, x in numbers]
    return logs + [f"c{j}={row[j]}" for j in range(14, 40) if row[j]]

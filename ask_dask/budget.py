"""Bytes -> rows per chunk, rows per shard: pure arithmetic, the plan that is checked before any work.

Everything here counts bytes of arrays that are alive at the same time; nothing allocates.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ask_dask.errors import BudgetError

BLOCK_ROWS = 2048
"""Rows of one kernel block."""

GRAM_ROWS = 4096
"""Rows that one Gram takes, about: float32 products are summed over them, in float64 across them. With fewer rows the
time to copy a Gram's triangle and to add it in float64 shows."""

CACHE_ROWS = 512
"""Most rows of which kernel entries are computed at a time: about what a core's cache holds at a thousand landmarks."""

TASK_ENTRIES = 1 << 18
"""Fewest kernel entries of a task, where rows are shared among workers: of fewer a task costs more than its work."""

CHUNK_BYTES = 4 << 20
SHARD_BYTES = 64 << 20

READ_BYTES = 8 << 20
"""Bytes of the chunks that are read together, as fast as a whole shard: zarr holds each of them three times."""


@dataclass(frozen=True)
class Plan:
    """Named byte counts that are alive together.

    >>> Plan({"moments": 3 << 20, "blocks": 1 << 20}).total >> 20
    4
    """

    parts: dict[str, int]

    @property
    def total(self) -> int:
        """Sum of the parts, in bytes."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        return ", ".join(f"{name} {size(count)}" for name, count in self.parts.items())


@dataclass(frozen=True)
class Phases:
    """Plans of what is done one after another, by name: memory is needed for the largest.

    >>> plan = Phases({"moments": Plan({"rows": 1 << 20}), "solve": Plan({"Grams": 3 << 20})})
    >>> plan.total >> 20, str(plan)
    (3, 'solve: Grams 3.0 MiB')
    """

    plans: dict[str, Plan]

    @property
    def total(self) -> int:
        """Bytes of the largest plan."""
        return max(plan.total for plan in self.plans.values())

    def __str__(self) -> str:
        name, plan = max(self.plans.items(), key=lambda item: item[1].total)
        return f"{name}: {plan}"


def size(count: float) -> str:
    """Bytes for people.

    >>> size(3 << 30)
    '3.0 GiB'
    """
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def chunk_rows(row_bytes: int) -> int:
    """Rows of one zarr chunk (unit of reading): about 4 MiB, a multiple of the kernel block's rows.

    >>> chunk_rows(52 * 4)
    18432
    """
    return max(1, CHUNK_BYTES // (row_bytes * BLOCK_ROWS)) * BLOCK_ROWS


def shard_rows(row_bytes: int) -> int:
    """Rows of one shard (unit of work, retry and checkpoint): about 64 MiB, a whole number of chunks.

    >>> shard_rows(52 * 4) % chunk_rows(52 * 4)
    0
    """
    chunk = chunk_rows(row_bytes)
    return max(1, SHARD_BYTES // (row_bytes * chunk)) * chunk


def cache_rows(n_landmarks: int) -> int:
    """Rows of which kernel entries are computed at a time: fewer where the landmarks are many, more where they are few.

    >>> cache_rows(20), cache_rows(1000), cache_rows(50_000)
    (2048, 512, 40)
    """
    few = min(BLOCK_ROWS, CACHE_ROWS * 250 // n_landmarks)
    return max(few, int(np.clip(4 * CACHE_ROWS * 1000 // n_landmarks, 16, CACHE_ROWS)))


def tall_rows(n_landmarks: int) -> int:
    """Most rows that one Gram takes, of a fold's rows that are shared among Grams of about `GRAM_ROWS` rows each.

    >>> tall_rows(1000)
    6656
    """
    return GRAM_ROWS * 3 // 2 + cache_rows(n_landmarks)


def labels_plan(n_rows: int, label_bytes: int, n_weights: int) -> Plan:
    """Memory of labels and weights when a fit reads them: so many bytes a row of the labels and their copy; class
    numbers, folds and the order that is shuffled for them; so many float64 a row of weights.

    >>> print(labels_plan(100_000_000, label_bytes=16, n_weights=3))
    labels 1.5 GiB, class numbers and folds 667.6 MiB, weights 2.2 GiB
    """
    return Plan({"labels": n_rows * label_bytes, "class numbers and folds": 7 * n_rows,
                 "weights": 8 * n_weights * n_rows})  # fmt: skip


def rows_plan(n_rows: int, row_bytes: int, workers: int) -> int:
    """Bytes of the rows that all workers hold: each a task's, another copy in the order of the folds, and what is being
    read.

    >>> rows_plan(46_000_000, 312, workers=2) >> 20
    296
    """
    return 2 * min(workers * shard_rows(row_bytes), n_rows) * row_bytes + workers * reading_plan(n_rows, row_bytes)


def reading_plan(n_rows: int, row_bytes: int) -> int:
    """Bytes that one worker takes while it reads so many rows, beside these.

    >>> reading_plan(46_000_000, 312) >> 20
    24
    """
    return 3 * min(max(READ_BYTES, chunk_rows(row_bytes) * row_bytes), n_rows * row_bytes)


def blocks_plan(n_landmarks: int, n_rows: int, row_bytes: int, itemsize: int, workers: int, sides: int) -> int:
    """Bytes of the kernel blocks of all workers: for each side a tall block and its Gram, a few small blocks, and their
    points in float64.

    >>> blocks_plan(1000, 46_000_000, 312, 4, workers=2, sides=2) >> 20
    133
    """
    m = max(1, n_landmarks)
    tall, small = min(tall_rows(m), n_rows), min(cache_rows(m), n_rows)
    return workers * (m * itemsize * (sides * (tall + m) + 4 * small) + 4 * small * row_bytes)


def moments_plan(
    n_landmarks: int,
    n_rows: int,
    n_folds: int,
    n_outputs: int,
    row_bytes: int,
    itemsize: int,
    workers: int,
    symmetric: bool,
) -> Plan:
    """Memory of the pass that turns rows into per-fold moments, all workers together.

    Each worker holds a task's rows, kernel blocks, and its own moments; up to two finished sums per worker, where there
    are so many tasks, wait to be added, and one sum is being made of two.

    >>> print(moments_plan(1000, 1_000_000, 5, 1, row_bytes=312, itemsize=4, workers=2, symmetric=False))
    moments 535.1 MiB, kernel blocks 133.7 MiB, rows 296.6 MiB
    """
    m, sides = n_landmarks, 1 if symmetric else 2
    moments = n_folds * sides * (m * m + m * (1 + n_outputs)) * 8
    return Plan(
        {
            "moments": min(3 * workers, -(-n_rows // BLOCK_ROWS)) * moments + moments,
            "kernel blocks": blocks_plan(m, n_rows, row_bytes, itemsize, workers, sides),
            "rows": rows_plan(n_rows, row_bytes, workers),
        }
    )


def solve_plan(n_landmarks: int, n_folds: int, n_outputs: int, workers: int, symmetric: bool) -> Plan:
    """Memory of the solution on landmarks by decomposition: the moments, and for each worker the training moments of a
    fold, its features' Grams and their decompositions.

    >>> print(solve_plan(1000, 5, 1, workers=2, symmetric=False))
    moments 76.4 MiB, decompositions 221.3 MiB
    """
    m, sides = n_landmarks, 1 if symmetric else 2
    moments = n_folds * sides * (m * m + m * (1 + n_outputs)) * 8
    return Plan({"moments": moments, "decompositions": (11 * workers + 7) * m * m * 8})


def vectors_plan(n_landmarks: int, n_rows: int, row_bytes: int, itemsize: int, workers: int) -> Phases:
    """Memory of singular vectors on landmarks: the core matrix and the pass that sums both sides' Grams, then their
    feature maps and decompositions.

    >>> print(vectors_plan(2000, 1_000_000, row_bytes=312, itemsize=4, workers=2))
    moments: core matrix 152.6 MiB, moments 427.5 MiB, kernel blocks 296.6 MiB, rows 296.6 MiB
    """
    square = 8 * n_landmarks**2
    moments = moments_plan(n_landmarks, n_rows, 1, 0, row_bytes, itemsize, workers, symmetric=False)
    return Phases(
        {
            "moments": Plan({"core matrix": 5 * square} | moments.parts),
            "vectors": Plan({"decompositions": 30 * square}),
        }
    )


def blockwise_plan(
    n_landmarks: int,
    n_rows: int,
    n_folds: int,
    n_gammas: int,
    n_outputs: int,
    row_bytes: int,
    workers: int,
    symmetric: bool,
    damped: bool = False,
    sampled: int = 0,
) -> Plan:
    """Memory of the solution on landmarks by iteration: the decomposition of the core matrix and the turned feature
    maps are all that is m x m; a pass over the rows gives each worker's sums of m numbers a system. Each pass has new
    threads, and the allocator keeps some of the kernel blocks of those before.

    >>> print(blockwise_plan(10_000, 200_000, n_folds=5, n_gammas=4, n_outputs=1, row_bytes=160, workers=2,
    ...                      symmetric=False, sampled=30_000))
    feature maps 7.5 GiB, iterates 68.4 MiB, products 21.4 MiB, kernel blocks 390.6 MiB, rows 113.6 MiB
    """
    m, roles = n_landmarks, 1 if symmetric else 2
    systems = (n_gammas * (n_folds + 1) * n_outputs + (0 if damped or symmetric else n_gammas)) * (1 + damped)
    return Plan(
        {
            "feature maps": (6 if symmetric else 10) * 8 * m * m,
            "iterates": 8 * roles * m * systems * 16,
            "products": 8 * roles * m * systems * (1 + 2 * workers),
            "kernel blocks": max(workers * cache_rows(m), CACHE_ROWS) * m * 8 * 10,
            "rows": rows_plan(n_rows, row_bytes, workers) + sampled * row_bytes,
        }
    )


def held_out_plan(
    n_scored: int,
    n_rows: int,
    n_pairs: int,
    n_landmarks: int,
    n_folds: int,
    n_outputs: int,
    row_bytes: int,
    itemsize: int,
    grams: int,
    workers: int,
) -> Phases:
    """Memory of predicting held-out rows with every (landmark count, gamma) pair, and of choosing a pair by them.

    While rows are predicted there are each shard's discriminants and all of them put together, the coefficients of all
    folds' models and their padded copy, and so many Grams a fold that the solver keeps. One pair's scores, their order,
    probabilities and curves are what choosing takes beside the discriminants.

    >>> plan = held_out_plan(1_000_000, 46_000_000, n_pairs=40, n_landmarks=1000, n_folds=10, n_outputs=1,
    ...                      row_bytes=312, itemsize=4, grams=2, workers=2)
    >>> print(plan)
    held-out scores: discriminants 610.4 MiB, coefficients 12.2 MiB, moments 152.6 MiB, kernel blocks 18.1 MiB, rows
    296.6 MiB
    >>> print(plan.plans["choose"])
    discriminants 305.2 MiB, scores of a pair 190.7 MiB
    """
    m, discriminants = n_landmarks, n_scored * n_pairs * 2 * n_outputs * max(itemsize, 4)
    predicting = {
        "discriminants": 2 * discriminants,
        "coefficients": 2 * n_folds * n_pairs * 2 * m * n_outputs * 8,
        "moments": n_folds * grams * m * m * 8,
        "kernel blocks": workers * 2 * min(cache_rows(m), n_rows) * (8 * m + 4 * row_bytes) if n_scored else 0,
        "rows": rows_plan(n_rows, row_bytes, workers) if n_scored else 0,
    }
    choosing = {"discriminants": discriminants, "scores of a pair": n_scored * 40 * (n_outputs + 4)}
    return Phases({"held-out scores": Plan(predicting), "choose": Plan(choosing)})


def dense_plan(n_rows: int, n_folds: int, n_gammas: int, n_outputs: int, workers: int) -> Plan:
    """Memory of the exact solution by decomposition: the kernel matrix, and what each worker's takes beside it.

    >>> print(dense_plan(5000, n_folds=5, n_gammas=4, n_outputs=1, workers=2))
    kernel matrix 190.7 MiB, decompositions 3.0 GiB, solutions 3.7 MiB
    """
    matrix = 8 * n_rows**2
    solutions = 8 * 4 * n_rows * n_outputs * n_gammas * (n_folds + 1)
    return Plan({"kernel matrix": matrix, "decompositions": 8 * min(workers, n_folds + 1) * matrix,
                 "solutions": solutions})  # fmt: skip


def minres_plan(
    n_landmarks: int,
    n_rows: int,
    n_folds: int,
    n_gammas: int,
    n_outputs: int,
    row_bytes: int,
    workers: int,
    damped: bool = False,
) -> Plan:
    """Memory of the exact solution by iteration, with a preconditioner of so many landmarks: its kernel columns in
    parts and put together, and the pass to its moments, with two sides of which each worker has a tall block and a
    Gram.

    >>> print(minres_plan(500, 50_000, n_folds=5, n_gammas=1, n_outputs=1, row_bytes=160, workers=2))
    points 7.6 MiB, iterates 146.5 MiB, products 27.5 MiB, preconditioner 763.0 MiB, moments 114.4 MiB, kernel blocks
    125.4 MiB, tiles 24.0 MiB
    """
    systems = n_gammas * (n_folds + 1) * (n_outputs + 1)  # each has a probe
    vector, m = 8 * n_rows * systems * (1 + damped), n_landmarks
    return Plan(
        {
            "points": row_bytes * n_rows,
            "iterates": 2 * vector * 16,
            "products": vector * (2 + 2 * workers),
            "preconditioner": 4 * 8 * m * n_rows + 2 * 8 * m * systems,
            "moments": 2 * 8 * m * m * 3 * max(n_folds + 1, workers * max(1, n_folds)),
            "kernel blocks": blocks_plan(m, n_rows, row_bytes, 8, workers, 2),
            "tiles": workers * 6 * 8 * 512**2,
        }
    )


def svd_plan(n_rows: int, n_columns: int) -> Plan:
    """Memory of all singular values and vectors of a whole kernel matrix.

    >>> print(svd_plan(5000, 5000))
    kernel matrix 190.7 MiB, decomposition 1.1 GiB
    """
    matrix, small = 8 * n_rows * n_columns, 8 * min(n_rows, n_columns) ** 2
    return Plan({"kernel matrix": matrix, "decomposition": 3 * matrix + 3 * small})


def matrix_plan(n_rows: int, n_columns: int) -> Plan:
    """Memory of a data matrix whose rows and columns become points of one space, by its singular vectors or a matrix.

    >>> print(matrix_plan(5000, 1000))
    rows and columns 114.4 MiB, decomposition 137.3 MiB
    """
    matrix, small = 8 * n_rows * n_columns, 8 * min(n_rows, n_columns) ** 2
    return Plan({"rows and columns": 3 * matrix, "decomposition": 3 * matrix + 3 * small})


def iterated_plan(n_components: int, n_rows: int, n_columns: int, workers: int) -> Plan:
    """Memory of singular vectors by block iteration: four blocks and their images, one of them twice while it grows,
    vectors and what they leave, products, and a tile for each worker.

    >>> print(iterated_plan(20, 200_000, 200_000, workers=2))
    blocks 915.5 MiB, vectors 183.1 MiB, products 274.7 MiB, tiles 24.0 MiB
    """
    block = 8 * (n_rows + n_columns) * (n_components + 10)
    return Plan({"blocks": 10 * block, "vectors": 2 * block, "products": block * (1 + workers),
                 "tiles": workers * 6 * 8 * 512**2})  # fmt: skip


def arpack_plan(n_components: int, n_rows: int, n_columns: int, workers: int) -> Plan:
    """Memory of singular vectors by ARPACK: its basis, and products of one vector.

    >>> print(arpack_plan(20, 200_000, 200_000, workers=2))
    basis 62.6 MiB, vectors 122.1 MiB, tiles 24.0 MiB
    """
    basis = 8 * min(n_rows, n_columns) * max(2 * n_components + 1, 20)
    return Plan({"basis": basis, "vectors": 2 * 8 * (n_rows + n_columns) * n_components,
                 "tiles": workers * 6 * 8 * 512**2})  # fmt: skip


def predict_plan(workers: int, shard: int, row_bytes: int, n_landmarks: int, n_columns: int) -> Plan:
    """Memory of prediction: each worker holds a shard of rows, their results, and two kernel blocks and their points.

    `n_columns` counts the columns of all results.

    >>> print(predict_plan(workers=2, shard=200_000, row_bytes=312, n_landmarks=1000, n_columns=5))
    rows 167.0 MiB, results 47.3 MiB, kernel blocks 16.8 MiB
    """
    small = min(cache_rows(n_landmarks), shard)
    return Plan(
        {
            "rows": workers * (shard * row_bytes + reading_plan(shard, row_bytes)),
            "results": workers * shard * (2 * 8 * n_columns + 44),
            "kernel blocks": workers * 2 * small * (n_landmarks * 8 + 2 * row_bytes),
        }
    )


def check(
    plan: Callable[[int], Plan | Phases], wanted: int, budget: int, name: str, otherwise: str = ""
) -> Plan | Phases:
    """The plan for `wanted`, or a refusal that names the largest value that fits.

    Parameters
    ----------
    plan : callable
        value -> Plan, increasing in the value.
    wanted : int
        The value asked for.
    budget : int
        Bytes.
    name : str
        What the value is called where the user set it.
    otherwise : str
        Another way out, as in "or solver='minres'".

    Raises
    ------
    BudgetError
        When the plan does not fit.

    Examples
    --------
    >>> check(lambda m: Plan({"gram": 8 * m * m}), 1000, 1 << 20, "n_landmarks")
    Traceback (most recent call last):
    ask_dask.errors.BudgetError: n_landmarks=1000 needs 7.6 MiB (gram 7.6 MiB) and the memory budget is 1.0 MiB: \
use n_landmarks=362 or less, or a budget of 7.6 MiB.
    """
    planned = plan(wanted)
    if planned.total <= budget:
        return planned
    low, high = 0, wanted
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if plan(middle).total <= budget else (low, middle)
    advice = f"use {name}={low} or less, or" if low else "use"
    raise BudgetError(
        f"{name}={wanted} needs {size(planned.total)} ({planned}) and the memory budget is {size(budget)}: "
        f"{advice} a budget of {size(planned.total)}{', ' * bool(otherwise)}{otherwise}."
    )

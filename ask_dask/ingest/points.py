"""Text with one point of a sample a line -> the points of each item."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ask_dask import budget, compute
from ask_dask.errors import InputError
from ask_dask.ingest.cells import Cells, to_numbers
from ask_dask.ingest.files import PIECE_BYTES, find
from ask_dask.ingest.labels import require_filled
from ask_dask.ingest.separated import Reader, Rule
from ask_dask.kernels import montecarlo

POINTS = Rule("give an item's id and the coordinates of one of its points a line")


def read_points(
    paths: list[str], n_components: int, n_draws: int, memory: int | None
) -> tuple[list[str], list[np.ndarray], list[dict[str, Any]]]:
    """Read the points of all items into memory.

    Parameters
    ----------
    paths : list of path or URL
        Files of one width, plain or compressed; a first line whose coordinates are all names is left out.
    n_components, n_draws, memory : int
        What `samples_plan` is checked with as the points come in; no check where `memory` is None.

    Returns
    -------
    names : list of str
        The N items, in order of first appearance.
    samples : list of (n_i, d) float64 arrays
    about : list of dict
        What a store keeps of each file.

    Raises
    ------
    InputError
        A file cannot be read, has no points, or a line is not what it must be: names the line.
    BudgetError
        `memory` is too little.
    """
    numbers: dict[str, int] = {}
    codes, points, about, rule, n_points = [], [], [], POINTS, 0
    for file in [find(path) for path in paths]:
        reader = Reader(file, rule)
        for part, cells in enumerate(reader.read()):
            if reader.width < 2:
                raise InputError(f"{cells.place(0)} has 1 column: {POINTS.needs}.")
            rows = cells.rows(1) if part == 0 and _is_header(cells) else cells
            codes.append(_number(rows, numbers))
            points.append(_coordinates(rows))
            n_points += len(rows.lines)
            plan = partial(
                samples_plan, n_points=n_points, n_items=len(numbers), width=reader.width - 1,
                n_components=n_components, workers=compute.workers(),
            )  # fmt: skip
            if memory is not None:
                budget.check(plan, n_draws, memory, "n_draws")
        rule = replace(rule, widths=(reader.width,)) if reader.width else rule  # all files have points of one width
        about.append(reader.about())
    if not n_points:
        raise InputError(f"{about[0]['path']} has no points: {POINTS.needs}.")
    return list(numbers), _by_item(np.concatenate(codes), np.concatenate(points), len(numbers)), about


def samples_plan(n_draws: int, n_points: int, n_items: int, width: int, n_components: int, workers: int) -> budget.Plan:
    """Memory that `ingest_samples` takes for points of this many coordinates, all workers together.

    >>> print(samples_plan(1000, n_points=1_000_000, n_items=2000, width=9, n_components=3, workers=2))
    points 206.0 MiB, text 256.0 MiB, mixtures 2.6 MiB, blocks 48.9 MiB
    """
    draws = 8 * n_draws * (6 * width + 2 * n_components)
    return budget.Plan(
        {
            "points": 8 * n_points * 3 * width,
            "text": 8 * PIECE_BYTES,
            "mixtures": 8 * n_items * n_components * (2 * width + 1) * (1 + workers),
            "blocks": workers * (2 * montecarlo.CHUNK_BYTES + 4 * montecarlo.BLOCK_BYTES + draws),
        }
    )


def _is_header(cells: Cells) -> bool:
    """Whether no coordinate of the first row is a number of any kind."""
    return not any(_is_float(column[0].as_py()) for column in cells.columns[1:])


def _is_float(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cells: Cells, numbers: dict[str, int]) -> np.ndarray:
    """The item number of each row; new ids are added."""
    require_filled(cells)
    ids = cells.columns[0].dictionary_encode()
    known = [numbers.setdefault(name, len(numbers)) for name in ids.dictionary.to_pylist()]
    return np.array(known, np.int64)[ids.indices.to_numpy()]


def _coordinates(cells: Cells) -> np.ndarray:
    """The points (n, d) float64."""
    points = np.column_stack([to_numbers(column) for column in cells.columns[1:]])
    wrong = np.argwhere(np.isnan(points))
    if len(wrong):
        row, column = wrong[0]
        found = cells.columns[column + 1][int(row)].as_py()
        raise InputError(f"{cells.place(row)}: {found!r} in column {column + 2} is no finite number; correct it.")
    return points


def _by_item(codes: np.ndarray, points: np.ndarray, n_items: int) -> list[np.ndarray]:
    """The points of each item, in the order they were read."""
    order = np.argsort(codes, kind="stable")
    return np.split(points[order], np.cumsum(np.bincount(codes, minlength=n_items))[:-1])

"""Scores of a predictions store, for each task, a block of rows at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from ask_dask import compute, store
from ask_dask.errors import InputError, StoreError
from ask_dask.score.multilabel import MultilabelScores, multilabel_summary
from ask_dask.score.regression import RegressionScores, regression_summary
from ask_dask.score.scores import Scores, class_codes, curves, summary

BLOCK = 1 << 20
"""Most rows of a stored shard that are held in memory at the same time; of more than CELLS / BLOCK labels, fewer."""

CELLS = 1 << 23
"""Most scores or probabilities that are held in memory at the same time."""


@dataclass(frozen=True)
class _Task:
    """How the predictions of one task are scored.

    Attributes
    ----------
    arrays : names of what is read beside y
    block : (y, *arrays, weight or None, facts, first row) -> statistics with +
    summary : (their sum, facts) -> dict
    """

    arrays: tuple[str, ...]
    block: Callable[..., Any]
    summary: Callable[[Any, dict[str, Any]], dict[str, Any]]


def _classes(
    y: np.ndarray, score: np.ndarray, probability: np.ndarray, weight: Any, facts: dict[str, Any], first: int
) -> Scores:
    classes = facts["classes"]
    return Scores.of(class_codes(y, classes, first), score, probability, len(classes), weight)


def _labels(
    y: np.ndarray, score: np.ndarray, probability: np.ndarray, weight: Any, _: Any, first: int
) -> MultilabelScores:
    return MultilabelScores.of(y, score, probability, weight, first)


def _values(y: np.ndarray, score: np.ndarray, weight: Any, _: Any, first: int) -> RegressionScores:
    return RegressionScores.of(y, score.reshape(y.shape) if score.size == y.size else score, weight, first)


_TASKS = {
    "classification": _Task(
        ("score", "probability"),
        _classes,
        lambda total, facts: summary(total, facts["classes"]) | curves(total, facts["classes"]),
    ),
    "multilabel": _Task(
        ("score", "probability"), _labels, lambda total, facts: multilabel_summary(total, facts.get("label_names"))
    ),
    "regression": _Task(("score",), _values, lambda total, facts: regression_summary(total, facts.get("label_names"))),
}


def score_predictions(predictions: zarr.Group, data: zarr.Group | None = None) -> dict[str, Any]:
    """Metrics and curves of a predictions store against the labels of the dataset store it was made from.

    They are those of `summary` and `curves`, `multilabel_summary` or `regression_summary`, as the store's fact `task`
    says (classification when it says nothing). Without `data` the labels that the predictions carry are used. Where
    there are sample weights beside the labels (an array `weight`), each row counts by its weight, as in `held_out_`.

    Also in the result: `task`, `data` (the path of the dataset store) and `data_fingerprint`.

    Raises
    ------
    InputError
        The data has no labels, or no rows, or a label that the model does not know.
    StoreError
        The predictions were not made from this data, or have another number of rows, or are of an unknown task.
    """
    labelled, facts = predictions if data is None else data, store.about(predictions)
    place, source = (store.place(group) for group in (predictions, labelled))
    wanted = facts.get("data_fingerprint") if data is None else store.about(data).get("fingerprint")
    name = facts.get("task", "classification")
    if name == "components":
        raise InputError(f"{place} holds components, which have no score: give predictions of labels.")
    if "y" not in labelled:
        raise InputError(f"{source} has no labels (no array y): score against data that was ingested with labels.")
    if facts.get("data_fingerprint") != wanted:
        raise StoreError(
            f"{place} was made from data with fingerprint {facts.get('data_fingerprint')}, and {source} has {wanted}: "
            "score against the data that was predicted, or predict this data."
        )
    if name not in _TASKS:
        raise StoreError(f"{place} holds predictions of the task {name!r}: this release knows {', '.join(_TASKS)}.")
    arrays: list[Any] = [store.array(labelled, "y"), *(store.array(predictions, key) for key in _TASKS[name].arrays)]
    arrays.append(store.array(labelled, "weight") if "weight" in labelled else None)
    n, found = _common_rows(arrays, place, source), {"task": name, "data": source, "data_fingerprint": wanted}
    step, task = (arrays[1].shards or arrays[1].chunks)[0], compute.task(_score_rows)
    parts = [task(name, arrays, facts, a, min(a + step, n)) for a in range(0, n, step)]
    return found | _TASKS[name].summary(compute.run_sum(parts, "score"), facts)


def _common_rows(arrays: list[Any], place: str, source: str) -> int:
    rows = {array.shape[0] for array in arrays if array is not None}
    if len(rows) > 1:
        raise StoreError(f"{place} has {arrays[1].shape[0]} rows and {source} {arrays[0].shape[0]}: predict it again.")
    if rows == {0}:
        raise InputError(f"{place} has no rows: there is nothing to score.")
    return rows.pop()


def _score_rows(name: str, arrays: list[Any], facts: dict[str, Any], start: int, stop: int) -> Any:
    step, total = max(1, min(BLOCK, CELLS // max(array.shape[-1] for array in arrays[1:-1]))), None
    for a in range(start, stop, step):
        parts = (None if array is None else store.read(array, a, min(a + step, stop)) for array in arrays)
        block = _TASKS[name].block(*parts, facts, a)
        total = block if total is None else total + block
    return total

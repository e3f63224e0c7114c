"""The tables of the page: a head and rows of text."""

import math
from collections.abc import Sequence
from typing import Any

from ask_dask import budget
from ask_dask.report.words import METRICS, duration, metric, number, task
from ask_dask.score import LOWER_IS_BETTER, OF_TASK

MOST = 20
"""Labels or outputs that have a row of their own at most."""


def tables(facts: dict[str, Any], test: dict[str, Any] | None) -> dict[str, list[list[str]]]:
    """The rows of every table about a model, its head first; one without rows has no entry."""
    resonance = facts.get("resonance") or {}
    named = {"gamma": "gamma", "sigma": "Nearest singular value sigma", "gap": "Distance |1 - gamma * sigma|",
                "condition_number": "Condition number", "treatment": "Treatment",
                "safe_gamma": "Nearest safe gamma"}  # fmt: skip
    return filled({
        "metrics": _metrics(facts, test),
        "by_output": _by_output(facts, test),
        "landmark_error": _landmark_error(facts.get("landmark_error") or {}),
        "resonance": [["Quantity", "Value"], *([v, number(resonance[k])] for k, v in named.items() if k in resonance)],
        **about_data(facts, test or {}, task(facts)),
    })  # fmt: skip


def filled(found: dict[str, list[list[Any]]]) -> dict[str, list[list[Any]]]:
    """The tables that have a row below their head."""
    return {name: rows for name, rows in found.items() if len(rows) > 1}


def about_data(facts: dict[str, Any], test: dict[str, Any], kind: str) -> dict[str, list[list[Any]]]:
    """What every page says of data, cost, parameters and provenance; `kind` is the task."""
    data, steps = facts.get("data") or {}, facts.get("steps") or []
    rejected = data.get("rejected") or {}
    return {
        "labels": _labels(data, kind),
        "files": [
            ["File", "Rows", "Rejected", "Size", "Fingerprint"],
            *([f["path"], number(f["rows"]), number(f.get("rejected", 0)), budget.size(f.get("bytes") or 0),
               str(f.get("fingerprint", ""))[:12]] for f in data.get("files") or []),
        ],
        "reasons": [["Reason", "Rows"], *([k, number(v)] for k, v in (rejected.get("by_reason") or {}).items())],
        "rejected": [
            ["File", "Line", "Reason"],
            *([r.get("file"), str(r.get("line")), r.get("reason")] for r in rejected.get("first") or []),
        ],
        "steps": [
            ["Step", "Time", "Peak memory", "Cut"],
            *([s["step"], duration(s["seconds"]), budget.size(s["peak_bytes"]), s.get("cut", "")] for s in steps),
        ],
        "parameters": [["Parameter", "Value"], *([k, number(v)] for k, v in _parameters(facts).items())],
        "provenance": _provenance(data, test, facts.get("made_by") or {}),
    }  # fmt: skip


def _parameters(facts: dict[str, Any]) -> dict[str, Any]:
    """What the model was made with, its kernel as it came to be, bandwidth and all."""
    given = facts.get("parameters") or {}
    return given | ({"kernel": facts["kernel"]} if given and facts.get("kernel") else {})


def _provenance(data: dict[str, Any], test: dict[str, Any], made_by: dict[str, Any]) -> list[list[Any]]:
    sources = {"path": "Data", "format": "Format", "fingerprint": "Data fingerprint"}
    tests = {"data": "Test data", "data_fingerprint": "Test data fingerprint"}
    rows = [
        [title, source[key]]
        for names, source in ((sources, data), (tests, test))
        for key, title in names.items()
        if source.get(key)
    ]
    return [["What", "Value"], *rows, *([key, str(value)] for key, value in made_by.items())]


def _labels(data: dict[str, Any], kind: str) -> list[list[str]]:
    """Rows and share of each label; a row may have several of many labels, and then the shares add up to more."""
    counts = data.get("label_counts") or {}
    total = (data.get("n_rows") if kind == "multilabel" else sum(counts.values())) or 1
    most = sorted(counts, key=lambda key: -counts[key])[:MOST] if len(counts) > MOST else list(counts)
    rows = [[str(key), number(counts[key]), f"{counts[key] / total:.2%}"] for key in most]
    return [["Label", "Rows", "Share"], *rows, *_rest(len(counts), 3)]


def _rest(count: int, width: int) -> list[list[str]]:
    """A last row that says how many are not shown."""
    return [[f"and {count - MOST:,} more", *[""] * (width - 1)]] if count > MOST else []


def _metrics(facts: dict[str, Any], test: dict[str, Any] | None) -> list[list[str]]:
    columns = [(name, s) for name, s in (("Held out", facts.get("held_out")), ("Test", test)) if s]
    if not columns:
        return []
    idle = _without_a_model(columns[-1][1], task(facts))
    rows = [
        [
            f"{METRICS[key]}\N{NO-BREAK SPACE}{'↓' if key in LOWER_IS_BETTER else '↑'}",
            *(metric(s.get(key), key) for _, s in columns),
            metric(idle.get(key), key),
        ]
        for key in OF_TASK[task(facts)]
    ]
    head = ["Metric", *(name for name, _ in columns), "Without a model"]
    return [head, *rows, ["Rows", *(number(s.get("n")) for _, s in columns), ""]]


def _without_a_model(scores: dict[str, Any], kind: str) -> dict[str, float | None]:
    """What predicting the label rates, or the mean of y, for every row would score."""
    if kind == "components":
        return {"captured": 0.0}
    if kind == "regression":
        return {"r2": 0.0, "rmse": scores.get("label_std")}
    rates = scores.get("label_rates") or []
    if kind == "multilabel":
        losses = [_entropy((rate, 1 - rate)) for rate in rates]
        return {"auroc": 0.5, "log_loss": sum(losses) / len(losses) if losses else None}
    best = max((rate for rate in rates if rate), default=None)
    return {
        "auroc": 0.5,
        "log_loss": _entropy(rates) if any(rates) else None,
        "accuracy": best,
        "f1_micro": best,
    }


def _entropy(rates: Sequence[float]) -> float:
    return -sum(rate * math.log(rate) for rate in rates if rate > 0)


def _by_output(facts: dict[str, Any], test: dict[str, Any] | None) -> list[list[str]]:
    """The scores of each label (the most frequent ones of many) or output, of the test if there is one."""
    scores = test or facts.get("held_out") or {}
    what, keys = ("Output", ("r2", "rmse", "mae")) if task(facts) == "regression" else ("Label", ("auroc", "f1"))
    suffix = "by_output" if what == "Output" else "by_label"
    columns = {key: scores[f"{key}_{suffix}"] for key in keys if scores.get(f"{key}_{suffix}")}
    count = len(next(iter(columns.values()), []))
    if count < 2:
        return []
    names, rates = scores.get("label_names") or facts.get("label_names") or range(count), scores.get("label_rates")
    shown = sorted(range(count), key=lambda j: -rates[j])[:MOST] if rates and count > MOST else range(min(count, MOST))
    share = [["Share of rows"], *([f"{rates[j]:.2%}"] for j in shown)] if rates else [[]] * (len(shown) + 1)
    head = [what, *(METRICS.get(key, "F1") for key in columns)]
    rows = [[str(names[j]), *(metric(values[j], key) for key, values in columns.items())] for j in shown]
    found = [row + more for row, more in zip([head, *rows], share, strict=True)]
    return [*found, *_rest(count, len(found[0]))]


def _landmark_error(error: dict[str, Any]) -> list[list[str]]:
    columns = [error.get(key) or [] for key in ("n_landmarks", "source", "target")]
    rows = [[number(n), *(number(e) for e in errors)] for n, *errors in zip(*columns, strict=False)]
    return [["Landmarks", "Error of f_s", "Error of f_t"], *rows]

"""One self-contained HTML page about a model store, with its figures, that opens without a network.

The page is made of plain values: sentences, tables (a head and rows) and figures (the JSON of plotly). The template
`report.html` escapes whatever came from the input; text inside figures is escaped in `figures`.
"""

import math
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import zarr
from plotly.offline import get_plotlyjs

from ask_dask import budget, store
from ask_dask.errors import StoreError
from ask_dask.report.figures import (
    calibration_figure,
    cost_figures,
    gamma_figure,
    landmarks_figure,
    roc_figure,
    spectrum_figure,
)
from ask_dask.report.words import METRICS, duration, metric, number, scoring


def write_report(
    model: zarr.Group,
    to: str | Path,
    overwrite: bool = False,
    test: dict[str, Any] | None = None,
    steps: Sequence[dict[str, Any]] = (),
    mark: str = "",
) -> Path:
    """Write the page about a model and return its path.

    Parameters
    ----------
    model : zarr.Group
        A model store, as `store.open_store(path, "model")` gives it.
    to : path
        The HTML file; it appears whole or not at all.
    overwrite : bool
        Replace a file that is there.
    test : dict, optional
        What `score.score_predictions` returned for rows that the model has not seen.
    steps : sequence of dict
        Time and memory of steps after the model's own, such as prediction.
    mark : str
        A comment put at the end of the page.

    Raises
    ------
    StoreError
        The file exists, or cannot be written.
    """
    path = store.local(to)
    store.refuse_existing(path, overwrite)
    values = store.read(model["singular_values"]) if "singular_values" in model else np.zeros(0)  # type: ignore[arg-type]
    facts = store.about(model)
    facts["steps"] = [*facts.get("steps", []), *steps]
    page = render(facts, values, test) + mark
    partial = path.with_name(f".{path.name}.partial-{uuid.uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(page, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error.strerror or error}; choose another place.") from error
    finally:
        if partial.is_file():
            partial.unlink()
    return path


def render(facts: dict[str, Any], singular_values: np.ndarray, test: dict[str, Any] | None = None) -> str:
    """The page as text: facts of a model store (`store.about`), singular values (r,) float and test scores, if any."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ask_dask.report", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = number
    figures = {
        "roc": roc_figure(facts.get("held_out"), test),
        "calibration": calibration_figure(facts.get("held_out"), test),
        "gamma": gamma_figure(facts),
        "landmarks": landmarks_figure(facts),
        "spectrum": spectrum_figure(facts, singular_values),
        **cost_figures(facts.get("steps") or []),
    }
    return environment.get_template("report.html").render(
        facts=facts,
        sentences=sentences(facts, test),
        cards=cards(facts, test),
        figures={name: figure for name, figure in figures.items() if figure},
        tables=tables(facts, test),
        notes=notes(facts, test),
        tested=test is not None,
        plotly_js=get_plotlyjs(),
    )


def sentences(facts: dict[str, Any], test: dict[str, Any] | None) -> list[str]:
    """What was run and how well it does, in words."""
    parameters, data, held_out = facts.get("parameters") or {}, facts.get("data") or {}, facts.get("held_out")
    kernel = parameters.get("kernel") or {}
    name = kernel.get("name") or kernel.get("kernel") or kernel.get("type") if isinstance(kernel, dict) else kernel
    said = [
        f"{facts.get('estimator', 'The model')} was fitted on {number(facts.get('n_rows'))} rows and "
        f"{number(facts.get('n_features'))} features"
        + (f" of {data['path']}" if data.get("path") else " given as arrays")
        + (f", with the {name} kernel." if name else ".")
    ]
    folds = parameters.get("cv")
    pairs = len((facts.get("cv_results") or {}).get("param_gamma", []))
    chosen = f"gamma = {number(facts.get('gamma'))} and {number(facts.get('n_landmarks'))} landmarks"
    if pairs > 1:
        said.append(
            f"Of {pairs} pairs of gamma and landmark count, {chosen} had the best {scoring(facts)[1]} "
            f"over {f'{folds} folds' if isinstance(folds, int) else 'the folds'}."
        )
    else:
        said.append(f"It uses {chosen}, as asked: nothing was chosen by cross-validation.")
    said.append(_quality("On rows held out of each fold", held_out) if held_out else
                "No rows were held out (cv is None), so this page has no score of rows that the model has not seen."
                if not test else "No rows were held out (cv is None).")  # fmt: skip
    if test:
        said.append(_quality("On the test data", test))
    return said


def _quality(where: str, scores: dict[str, Any]) -> str:
    area, rows = scores.get("auroc"), number(scores.get("n"))
    if area is None:
        return f"{where} ({rows} rows) there is no AUROC: {_reason(scores, 'auroc')}."
    many = len(scores.get("classes") or ()) > 2
    pair = "row of a class above one of another class" if many else "positive row above a negative one"
    mean = ", the mean of each class against the rest" if many else ""
    times = f"{area * 100:.0f} times in 100"
    return f"{where} ({rows} rows) the AUROC is {area:.4f}{mean}: it ranks a random {pair} {times}."


def _reason(scores: dict[str, Any], name: str) -> str:
    return (scores.get("reasons") or {}).get(name, "it is undefined")


def cards(facts: dict[str, Any], test: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The few figures that stand out: (what, value)."""
    held_out = facts.get("held_out") or {}
    shown = [("AUROC, test", metric(test.get("auroc")))] if test else []
    shown += [("AUROC, held out", metric(held_out.get("auroc")))] if held_out else []
    steps = facts.get("steps") or []
    shown += [("gamma", number(facts.get("gamma"))), ("landmarks", number(facts.get("n_landmarks")))]
    return [*shown, ("total time", duration(sum(s["seconds"] for s in steps)))] if steps else shown


def notes(facts: dict[str, Any], test: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What the reader must know before believing the page: (title, text)."""
    resonance, trained_on = facts.get("resonance") or {}, (facts.get("data") or {}).get("fingerprint")
    found = [("Resonance", resonance["warning"])] if resonance.get("warning") else []
    if test and trained_on and test.get("data_fingerprint") == trained_on:
        memory = "its scores say how well the model remembers, not how well it predicts."
        found.append(("Not a test", f"The test data has the fingerprint of the training data: {memory}"))
    for name, scores in (("held out", facts.get("held_out")), ("test", test)):
        reasons: dict[str, list[str]] = {}
        for key, why in ((scores or {}).get("reasons") or {}).items():
            reasons.setdefault(why, []).append(METRICS[key])
        found += [(f"{', '.join(names)}, {name}", f"{why}.") for why, names in reasons.items()]
    return found


def tables(facts: dict[str, Any], test: dict[str, Any] | None) -> dict[str, list[list[str]]]:
    """The rows of every table, its head first; one without rows has no entry."""
    data, resonance = facts.get("data") or {}, facts.get("resonance") or {}
    rejected, labels = data.get("rejected") or {}, data.get("label_counts") or {}
    files, steps, total = data.get("files") or [], facts.get("steps") or [], sum(labels.values()) or 1
    sources = {"path": "Data", "format": "Format", "fingerprint": "Data fingerprint"}
    tests = {"data": "Test data", "data_fingerprint": "Test data fingerprint"}
    named = {"gamma": "gamma", "sigma": "Nearest singular value sigma", "gap": "Distance |1 - gamma * sigma|",
                "condition_number": "Condition number", "treatment": "Treatment",
                "safe_gamma": "Nearest safe gamma"}  # fmt: skip
    found: dict[str, list[list[Any]]] = {
        "metrics": _metrics(facts.get("held_out"), test),
        "labels": [["Label", "Rows", "Share"], *([k, number(v), f"{v / total:.2%}"] for k, v in labels.items())],
        "files": [
            ["File", "Rows", "Rejected", "Size", "Fingerprint"],
            *([f["path"], number(f["rows"]), number(f.get("rejected", 0)), budget.size(f.get("bytes", 0)),
               str(f.get("fingerprint", ""))[:12]] for f in files),
        ],
        "reasons": [["Reason", "Rows"], *([k, number(v)] for k, v in (rejected.get("by_reason") or {}).items())],
        "rejected": [
            ["File", "Line", "Reason"],
            *([r.get("file"), str(r.get("line")), r.get("reason")] for r in rejected.get("first") or []),
        ],
        "resonance": [["Quantity", "Value"], *([v, number(resonance[k])] for k, v in named.items() if k in resonance)],
        "steps": [
            ["Step", "Time", "Peak memory"],
            *([s["step"], duration(s["seconds"]), budget.size(s["peak_bytes"])] for s in steps),
        ],
        "parameters": [["Parameter", "Value"], *([k, number(v)] for k, v in (facts.get("parameters") or {}).items())],
        "provenance": [
            ["What", "Value"],
            *([title, source[key]] for names, source in ((sources, data), (tests, test or {}))
              for key, title in names.items() if source.get(key)),
            *([key, str(value)] for key, value in (facts.get("made_by") or {}).items()),
        ],
    }  # fmt: skip
    return {name: rows for name, rows in found.items() if len(rows) > 1}


def _metrics(held_out: dict[str, Any] | None, test: dict[str, Any] | None) -> list[list[str]]:
    columns = [(name, s) for name, s in (("Held out", held_out), ("Test", test)) if s]
    if not columns:
        return []
    rates = [rate for rate in columns[-1][1].get("label_rates") or [] if rate]
    best = max(rates, default=None)
    idle = {"auroc": 0.5, "log_loss": -sum(r * math.log(r) for r in rates) if rates else None, "accuracy": best,
            "f1_micro": best}  # fmt: skip
    rows = [
        [
            f"{title}\N{NO-BREAK SPACE}{'↓' if key == 'log_loss' else '↑'}",
            *(metric(s.get(key)) for _, s in columns),
            metric(idle.get(key)),
        ]
        for key, title in METRICS.items()
    ]
    head = ["Metric", *(name for name, _ in columns), "Without a model"]
    return [head, *rows, ["Rows", *(number(s.get("n")) for _, s in columns), ""]]

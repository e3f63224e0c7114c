"""One self-contained HTML page about a model store, with its figures, that opens without a network.

The page is made of plain values: sentences, tables (a head and rows) and figures (the JSON of plotly). The template
`report.html` escapes whatever came from the input; text inside figures is escaped here, because plotly reads tags.
"""

import html
import math
import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import zarr
from plotly.offline import get_plotlyjs

from ask_dask import budget, store
from ask_dask.errors import StoreError

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8a8f98"
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7a6a00")  # Okabe and Ito
DASHES = ("solid", "dash", "dot", "dashdot")
METRICS = {
    "auroc": "AUROC", "log_loss": "Log loss", "accuracy": "Accuracy", "f1_micro": "Micro F1", "f1_macro": "Macro F1",
}  # fmt: skip


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
        loader=jinja2.PackageLoader("ask_dask", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
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


def number(value: Any) -> str:
    """A value for people.

    >>> [number(v) for v in (None, 1234567, 0.00123456, [1, 2.5], {"h": 3})]
    ['none', '1,234,567', '0.001235', '1, 2.5', 'h = 3']
    """
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {number(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(number, value))
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 or value % 1 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def metric(value: float | None) -> str:
    """A metric with four digits."""
    return "-" if value is None else f"{value:.4f}"


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(7384), duration(3.21)
    ('2 h 3 min', '3.2 s')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"


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
            f"Of {pairs} pairs of gamma and landmark count, {chosen} had the best {_scoring(facts)[1]} "
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


def _scoring(facts: dict[str, Any]) -> tuple[str, str]:
    """The metric that chose, as it is named in cv_results and for people."""
    scores = facts.get("cv_results") or {}
    key = str(facts.get("scoring") or "").removeprefix("neg_").replace("auroc", "roc_auc")
    if f"mean_test_{key}" not in scores:
        key = next((name.removeprefix("mean_test_") for name in scores if name.startswith("mean_test_")), "roc_auc")
    return key, METRICS.get(key.replace("roc_auc", "auroc"), key)


def _figure(traces: list[dict], x: dict, y: dict, alt: str, **layout: Any) -> dict[str, Any]:
    """A figure as plotly reads it, in one look; `alt` says in words what is seen."""
    lines: dict[str, Any] = {"zeroline": False, "gridcolor": "#e8eaee", "linecolor": "#9aa1ab", "ticks": "outside"}
    look = {
        "xaxis": lines | {"automargin": True} | x, "yaxis": lines | {"automargin": True} | y,
        "height": 380, "margin": {"l": 56, "r": 16, "t": 16, "b": 52},
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 13, "color": "#1f2733"},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}, "hovermode": "closest",
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
    }  # fmt: skip
    return {"data": traces, "layout": look | layout, "alt": alt}


def _short(text: Any, most: int = 24) -> str:
    """A name that fits in a figure, where a long one would be cut at the edge."""
    text = str(text)
    return text if len(text) <= most else f"{text[: most - 9]}…{text[-8:]}"


def _line(x: Sequence[float], y: Sequence[float], name: str, colour: str = BLUE, **more: Any) -> dict[str, Any]:
    line = {"color": colour, "width": 2.5} | more.pop("line", {})
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": list(y),
        "name": html.escape(name),
        "line": line,
    } | more


def _axis(title: str, kind: str = "linear", **more: Any) -> dict[str, Any]:
    return {"title": {"text": title, "standoff": 8, "font": {"size": 13}}, "type": kind} | more


def _curves(held_out: dict[str, Any] | None, test: dict[str, Any] | None, key: str) -> Iterable[tuple[str, dict, dict]]:
    """(name, curve, style) of two classes, held out and test; of more, one a class (test if given)."""
    sources = [(name, s) for name, s in (("held out", held_out), ("test", test)) if s and s.get(key)]
    if sources and isinstance(sources[-1][1][key], list):
        name, scores = sources[-1]
        sources = [(f"{_short(curve['class'], 16)} ({name})", {key: curve}) for curve in scores[key]]
    few = len(sources) <= len(COLOURS)
    for i, (name, scores) in enumerate(sources):
        style = {"colour": COLOURS[i % len(COLOURS)], "showlegend": few, "line": {"dash": DASHES[i % len(DASHES)]}}
        yield name, scores[key], style


def roc_figure(held_out: dict[str, Any] | None, test: dict[str, Any] | None) -> dict[str, Any] | None:
    """True against false positive rate."""
    traces = [_line(c["fpr"], c["tpr"], name, **s) for name, c, s in _curves(held_out, test, "roc") if c["fpr"]]
    if not traces:
        return None
    chance = _line([0, 1], [0, 1], "chance", GREY, line={"dash": "dot", "width": 1.5})
    alt = f"ROC curve of {html.unescape(', '.join(t['name'] for t in traces[:8]))}, above the diagonal of chance."
    return _figure([*traces, chance], _axis("False positive rate (fraction)", range=[0, 1]),
                   _axis("True positive rate (fraction)", range=[0, 1.005]), alt)  # fmt: skip


def calibration_figure(held_out: dict[str, Any] | None, test: dict[str, Any] | None) -> dict[str, Any] | None:
    """Observed share against predicted probability."""
    traces: list[dict] = []
    top = 0.0
    for name, curve, style in _curves(held_out, test, "calibration"):
        x, y, count = curve["mean_probability"], curve["fraction_positive"], curve["count"]
        if x:
            top = max(top, *x, *y)
            hover = "predicted %{x:.3f}<br>observed %{y:.3f}<br>%{text} rows"
            traces.append(_line(x, y, name, mode="lines+markers", text=[f"{c:,}" for c in count], hovertemplate=hover,
                                marker={"size": 8, "symbol": len(traces)}, **style))  # fmt: skip
    if not traces:
        return None
    ideal = _line([0, top], [0, top], "perfect", GREY, line={"dash": "dot", "width": 1.5})
    alt = "Calibration: the share of positive rows among rows of a like predicted probability, beside the diagonal."
    return _figure([*traces, ideal], _axis("Predicted probability (bin mean)", rangemode="tozero"),
                   _axis("Observed share (fraction)", rangemode="tozero"), alt)  # fmt: skip


def _grid(facts: dict[str, Any]) -> list[tuple[float, int, float, float | None]]:
    """(gamma, landmarks, mean score, its standard deviation) of every pair that has a score."""
    results, key = facts.get("cv_results") or {}, _scoring(facts)[0]
    mean = results.get(f"mean_test_{key}") or []
    deviation = results.get(f"std_test_{key}") or [None] * len(mean)
    columns = results.get("param_gamma") or [], results.get("param_n_landmarks") or [], mean, deviation
    return sorted(row for row in zip(*columns, strict=True) if row[2] is not None)


def gamma_figure(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Score over gamma, a line for each landmark count."""
    grid = _grid(facts)
    counts = sorted({row[1] for row in grid})
    lines = [(f"{number(m)} landmarks", [(g, s, d) for g, n, s, d in grid if n == m]) for m in counts]
    return _score_figure(facts, lines, facts.get("gamma"), _axis("gamma (no unit, log scale)", "log"))


def landmarks_figure(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Score over the landmark count at the chosen gamma: would more landmarks help?"""
    gamma = facts.get("gamma")
    line = [(n, s, d) for g, n, s, d in _grid(facts) if gamma is not None and math.isclose(g, gamma)]
    ticks = {"tickvals": [n for n, _, _ in line], "ticktext": [number(n) for n, _, _ in line]}
    axis = _axis("Landmarks (count, log scale)", "log", **ticks)
    return _score_figure(facts, [(f"gamma {number(gamma)}", line)], facts.get("n_landmarks"), axis)


def _score_figure(facts: dict, lines: list[tuple[str, list]], chosen: Any, axis: dict) -> dict[str, Any] | None:
    if max((len(points) for _, points in lines), default=0) < 2:
        return None
    name, traces, marked = _scoring(facts)[1], [], []
    for i, (title, points) in enumerate(lines):
        x, mean, deviation = map(list, zip(*points, strict=True))
        bars = {"type": "data", "array": [d or 0 for d in deviation], "thickness": 1, "width": 3}
        style = {"marker": {"size": 7, "symbol": i}, "line": {"dash": DASHES[i % len(DASHES)]}, "error_y": bars}
        traces.append(_line(x, mean, title, COLOURS[i % len(COLOURS)], mode="lines+markers", **style))
        here = title in (f"{number(facts.get('n_landmarks'))} landmarks", f"gamma {number(facts.get('gamma'))}")
        marked += [(g, s) for g, s, _ in points if here and math.isclose(g, chosen)]
    ring = {"size": 17, "symbol": "circle-open", "color": "#000", "line": {"width": 2.5}}
    for x, y in marked:
        traces.append({"type": "scatter", "mode": "markers", "x": [x], "y": [y], "name": "chosen", "marker": ring})
    alt = f"{name} over {axis['title']['text']}, with the chosen point in a ring."
    return _figure(traces, axis, _axis(f"{name}, mean of the folds"), alt)


def spectrum_figure(facts: dict[str, Any], values: np.ndarray) -> dict[str, Any] | None:
    """Singular values, the line 1 / gamma, and those nearest to it."""
    values = np.sort(values[np.isfinite(values) & (values > 0)])[::-1]
    if not len(values):
        return None
    shown = np.unique(np.geomspace(1, len(values), 500).astype(int))
    traces = [_line(shown.tolist(), values[shown - 1].tolist(), "singular values", mode="lines+markers",
                    marker={"size": 4})]  # fmt: skip
    alt = f"{len(values):,} singular values from {values[0]:.3g} down to {values[-1]:.3g}"
    resonance = facts.get("resonance") or {}
    gamma = resonance.get("gamma") or facts.get("gamma")
    if gamma:
        level = {"dash": "dash", "width": 2}
        traces.append(_line([1, len(values)], [1 / gamma] * 2, f"1 / gamma = {1 / gamma:.4g}", ORANGE, line=level))
        near = [s for s in resonance.get("nearest") or [] if s > 0]
        place = [int(np.abs(values - s).argmin()) + 1 for s in near]
        marker = {"size": 11, "symbol": "diamond-open", "color": "#000", "line": {"width": 1.5}}
        traces += [{"type": "scatter", "mode": "markers", "x": place, "y": near, "name": "nearest to 1 / gamma",
                    "marker": marker}] if near else []  # fmt: skip
        alt += f", and the line 1 / gamma at {1 / gamma:.3g}"
    x, y = (
        _axis(title, "log", exponentformat="power", **({"dtick": 1} if high > 30 * low else {}))
        for title, low, high in (("Rank (log scale)", 1, len(values)), ("sigma (log scale)", values[-1], values[0]))
    )
    return _figure(traces, x, y, alt + ".")


def cost_figures(steps: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Time and peak memory of each step, as bars."""
    names, places = [_short(step["step"]) for step in steps], list(range(len(steps)))  # a name may come twice
    found = {}
    for key, what, unit, divisor, colour in (
        ("seconds", "Time", "s", 1, BLUE), ("peak_bytes", "Peak memory", "GiB", 1 << 30, ORANGE)
    ):  # fmt: skip
        values = [step[key] / divisor for step in steps]
        bar = {
            "type": "bar",
            "orientation": "h",
            "x": values,
            "y": places,
            "marker": {"color": colour},
            "name": what,
            "hoverinfo": "x",
        }
        said = ", ".join(f"{name} {value:.3g} {unit}" for name, value in zip(names, values, strict=True))
        look = {"height": 110 + 34 * len(steps), "bargap": 0.35}
        y = {
            "autorange": "reversed",
            "ticks": "",
            "tickvals": places,
            "ticktext": list(map(html.escape, names)),
            "showgrid": False,
        }
        if steps:
            found[key] = _figure([bar], _axis(f"{what} ({unit})"), y, f"{what} of each step: {said}.", **look)
    return found

"""Figures of scores: how good the model is and how gamma and the landmarks were chosen."""

import html
import math
from collections.abc import Iterable
from typing import Any

from ask_dask.report import plot
from ask_dask.report.words import landmarks, number, parameter, scoring


def _curves(held_out: dict[str, Any] | None, test: dict[str, Any] | None, key: str) -> Iterable[tuple[str, dict, dict]]:
    """(name, curve, style) of one curve, held out and test; of a list, one a class, label or output (test if given)."""
    sources = [(name, s) for name, s in (("held out", held_out), ("test", test)) if s and s.get(key)]
    if sources and isinstance(sources[-1][1][key], list):
        name, scores = sources[-1]
        sources = [(f"{plot.short(_whose(curve), 16)} ({name})", {key: curve}) for curve in scores[key]]
    few = len(sources) <= len(plot.COLOURS)
    for i, (name, scores) in enumerate(sources):
        style = {
            "colour": plot.COLOURS[i % len(plot.COLOURS)],
            "showlegend": few,
            "line": {"dash": plot.DASHES[i % len(plot.DASHES)]},
        }
        yield name, scores[key], style


def _whose(curve: dict[str, Any]) -> Any:
    return next(curve[key] for key in ("class", "label", "output") if key in curve)


def roc_figure(held_out: dict[str, Any] | None, test: dict[str, Any] | None) -> dict[str, Any] | None:
    """True against false positive rate."""
    traces = [plot.line(c["fpr"], c["tpr"], name, **s) for name, c, s in _curves(held_out, test, "roc") if c["fpr"]]
    if not traces:
        return None
    chance = plot.line([0, 1], [0, 1], "chance", plot.GREY, line={"dash": "dot", "width": 1.5})
    alt = f"ROC curve of {html.unescape(', '.join(t['name'] for t in traces[:8]))}, above the diagonal of chance."
    return plot.figure([*traces, chance], plot.axis("False positive rate (fraction)", range=[0, 1]),
                   plot.axis("True positive rate (fraction)", range=[0, 1.005]), alt)  # fmt: skip


def calibration_figure(held_out: dict[str, Any] | None, test: dict[str, Any] | None) -> dict[str, Any] | None:
    """Observed share against predicted probability."""
    traces, top = _agreement(held_out, test, "mean_probability", "fraction_positive")
    if not traces:
        return None
    ideal = plot.line([0, top], [0, top], "perfect", plot.GREY, line={"dash": "dot", "width": 1.5})
    alt = "Calibration: the share of positive rows among rows of a like predicted probability, beside the diagonal."
    return plot.figure([*traces, ideal], plot.axis("Predicted probability (bin mean)", rangemode="tozero"),
                       plot.axis("Observed share (fraction)", rangemode="tozero"), alt)  # fmt: skip


def predicted_figure(held_out: dict[str, Any] | None, test: dict[str, Any] | None) -> dict[str, Any] | None:
    """Mean y against the mean prediction of groups of rows."""
    traces, top = _agreement(held_out, test, "predicted", "observed")
    if not traces:
        return None
    low = min(value for trace in traces for value in (*trace["x"], *trace["y"]))
    ideal = plot.line([low, top], [low, top], "perfect", plot.GREY, line={"dash": "dot", "width": 1.5})
    alt = "The mean y of rows of a like prediction over the mean of those predictions, beside the diagonal."
    return plot.figure([*traces, ideal], plot.axis("Predicted (group mean, unit of y)"),
                       plot.axis("Observed (group mean, unit of y)"), alt)  # fmt: skip


def _agreement(
    held_out: dict[str, Any] | None, test: dict[str, Any] | None, x: str, y: str
) -> tuple[list[dict], float]:
    """The traces of the calibration curves that have the keys x and y, and their largest value."""
    traces: list[dict] = []
    for name, curve, style in _curves(held_out, test, "calibration"):
        if curve.get(x):
            hover = "predicted %{x:.4~g}<br>observed %{y:.4~g}<br>%{text} rows"
            traces.append(plot.line(curve[x], curve[y], name, mode="lines+markers", hovertemplate=hover,
                                    text=[f"{c:,.10g}" for c in curve["count"]],
                                    marker={"size": 8, "symbol": len(traces)}, **style))  # fmt: skip
    return traces, max((value for trace in traces for value in (*trace["x"], *trace["y"])), default=0.0)


def _grid(facts: dict[str, Any]) -> list[tuple[float, int | None, float, float | None]]:
    """Return (value, landmarks or None, mean score, its standard deviation) of every pair that has a score."""
    results, key = facts.get("cv_results") or {}, scoring(facts)[0]
    mean = results.get(f"mean_test_{key}") or []
    deviation = results.get(f"std_test_{key}") or [None] * len(mean)
    values = results.get(f"param_{parameter(facts)[0]}") or []
    counts = results.get("param_n_landmarks") or [None] * len(values)
    rows = [row for row in zip(values, counts, mean, deviation, strict=True) if row[2] is not None]
    return sorted(rows, key=lambda row: (row[0], row[1] or math.inf))


def parameter_figure(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Score over the parameter, a line for each landmark count."""
    name, value = parameter(facts)
    grid = _grid(facts)
    counts = sorted({row[1] for row in grid}, key=lambda n: n or math.inf)
    lines = [(landmarks(m), [(g, s, d) for g, n, s, d in grid if n == m]) for m in counts]
    chosen = landmarks(facts.get("n_landmarks")) if len(lines) > 1 else next((name for name, _ in lines), "")
    return _score_figure(facts, lines, chosen, value, plot.axis(f"{name} (no unit, log scale)", "log"))


def landmarks_figure(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Score over the landmark count at the chosen value of the parameter: would more landmarks help?"""
    name, value = parameter(facts)
    line = [(n, s, d) for g, n, s, d in _grid(facts) if n is not None and value is not None and math.isclose(g, value)]
    ticks = {"tickvals": [n for n, _, _ in line], "ticktext": [number(n) for n, _, _ in line]}
    axis, said = plot.axis("Landmarks (count, log scale)", "log", **ticks), f"{name} {number(value)}"
    return _score_figure(facts, [(said, line)], said, facts.get("n_landmarks"), axis)


def _score_figure(
    facts: dict, lines: list[tuple[str, list]], chosen: str, at: float | None, axis: dict
) -> dict[str, Any] | None:
    """The score along each line, with a ring where the line `chosen` passes the place `at`."""
    if max((len(points) for _, points in lines), default=0) < 2:
        return None
    name, traces, marked = scoring(facts)[1], [], []
    for i, (title, points) in enumerate(lines):
        x, mean, deviation = map(list, zip(*points, strict=True))
        bars = {"type": "data", "array": [d or 0 for d in deviation], "thickness": 1, "width": 3}
        style = {"marker": {"size": 7, "symbol": i}, "line": {"dash": plot.DASHES[i % 4]}, "error_y": bars}
        traces.append(plot.line(x, mean, title, plot.COLOURS[i % len(plot.COLOURS)], mode="lines+markers", **style))
        marked += [(g, s) for g, s, _ in points if title == chosen and at is not None and math.isclose(g, at)]
    ring = {"size": 17, "symbol": "circle-open", "color": "#000", "line": {"width": 2.5}}
    for x, y in marked:
        traces.append({"type": "scatter", "mode": "markers", "x": [x], "y": [y], "name": "chosen", "marker": ring})
    alt = f"{name} over {axis['title']['text']}, with the chosen point in a ring."
    return plot.figure(traces, axis, plot.axis(f"{name}, mean of the folds"), alt)

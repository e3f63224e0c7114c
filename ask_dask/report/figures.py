"""The figures of the page, as the JSON of plotly; text from the input is escaped, because plotly reads tags."""

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ask_dask.report.words import number, scoring

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8a8f98"
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7a6a00")  # Okabe and Ito
DASHES = ("solid", "dash", "dot", "dashdot")


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
    results, key = facts.get("cv_results") or {}, scoring(facts)[0]
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
    name, traces, marked = scoring(facts)[1], [], []
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

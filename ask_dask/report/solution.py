"""Figures of the solution and its cost: spectrum, error over landmarks, residuals, time and memory."""

import html
from typing import Any

import numpy as np

from ask_dask.report import plot
from ask_dask.report.words import number


def spectrum_figure(facts: dict[str, Any], values: np.ndarray) -> dict[str, Any] | None:
    """Singular values, the line 1 / gamma, and those nearest to it."""
    values = np.sort(values[np.isfinite(values) & (values > 0)])[::-1]
    if not len(values):
        return None
    shown = np.unique(np.geomspace(1, len(values), 500).astype(int))
    traces = [plot.line(shown.tolist(), values[shown - 1].tolist(), "singular values", mode="lines+markers",
                    marker={"size": 4})]  # fmt: skip
    alt = f"{len(values):,} singular values from {values[0]:.3g} down to {values[-1]:.3g}"
    resonance = facts.get("resonance") or {}
    gamma = resonance.get("gamma") or facts.get("gamma")
    if gamma:
        level = {"dash": "dash", "width": 2}
        traces.append(
            plot.line([1, len(values)], [1 / gamma] * 2, f"1 / gamma = {1 / gamma:.4g}", plot.ORANGE, line=level)
        )
        near = [s for s in resonance.get("nearest") or [] if s > 0]
        place = [int(np.abs(values - s).argmin()) + 1 for s in near]
        marker = {"size": 11, "symbol": "diamond-open", "color": "#000", "line": {"width": 1.5}}
        traces += [{"type": "scatter", "mode": "markers", "x": place, "y": near, "name": "nearest to 1 / gamma",
                    "marker": marker}] if near else []  # fmt: skip
        alt += f", and the line 1 / gamma at {1 / gamma:.3g}"
    x, y = (
        plot.axis(title, "log", exponentformat="power", **plot.decades(ends))
        for title, ends in (("Rank (log scale)", (1, len(values))), ("sigma (log scale)", (values[-1], values[0])))
    )
    return plot.figure(traces, x, y, alt + ".")


def landmark_error_figure(facts: dict[str, Any]) -> dict[str, Any] | None:
    """How far f_s and f_t on landmarks are from the exact ones, over the landmark count."""
    error = facts.get("landmark_error") or {}
    traces = []
    for i, (role, name) in enumerate((("source", "f_s"), ("target", "f_t"))):
        pairs = zip(error.get("n_landmarks") or [], error.get(role) or [], strict=False)
        known = [(n, e) for n, e in pairs if e]  # an error of zero has no place on a log axis
        if known:
            x, y = zip(*known, strict=True)
            traces.append(plot.line(x, y, name, plot.COLOURS[i], mode="lines+markers", line={"dash": plot.DASHES[i]},
                                    marker={"size": 8, "symbol": i}))  # fmt: skip
    if not traces:
        return None
    counts = sorted({n for trace in traces for n in trace["x"]})
    said = "; ".join(f"{trace['name']} from {trace['y'][0]:.3g} to {trace['y'][-1]:.3g}" for trace in traces)
    alt = f"Relative error over {number(counts[0])} to {number(counts[-1])} landmarks: {said}."
    ticks = {"tickvals": counts, "ticktext": [number(n) for n in counts]}
    power = {"exponentformat": "power"} | plot.decades([y for trace in traces for y in trace["y"]])
    return plot.figure(traces, plot.axis("Landmarks (count, log scale)", "log", **ticks),
                       plot.axis("Relative RMS error (log scale)", "log", **power), alt)  # fmt: skip


def residuals_figure(solver: dict[str, Any]) -> dict[str, Any] | None:
    """The relative residual after each iteration."""
    residuals = solver.get("residuals") or []
    first = max(0, (solver.get("iterations") or 0) + 1 - len(residuals))  # 0 where the list begins before the first
    known = [(i, value) for i, value in enumerate(residuals, first) if value]
    if len(known) < 2:
        return None
    x, y = zip(*known, strict=True)
    alt = f"The relative residual over {x[-1]:,} iterations, from {y[0]:.3g} to {y[-1]:.3g}."
    power = {"exponentformat": "power"} | plot.decades(y)
    return plot.figure([plot.line(x, y, "relative residual")], plot.axis("Iterations (count)", rangemode="tozero"),
                       plot.axis("Relative residual (log scale)", "log", **power), alt)  # fmt: skip


def cost_figures(steps: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Time and peak memory of each step, as bars."""
    names, places = [plot.short(step["step"]) for step in steps], list(range(len(steps)))  # a name may come twice
    found = {}
    for key, what, unit, divisor, colour in (
        ("seconds", "Time", "s", 1, plot.BLUE), ("peak_bytes", "Peak memory", "GiB", 1 << 30, plot.ORANGE)
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
            found[key] = plot.figure([bar], plot.axis(f"{what} ({unit})"), y, f"{what} of each step: {said}.", **look)
    return found

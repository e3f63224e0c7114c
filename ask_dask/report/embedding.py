"""Figures of an embedding: the scores U S of the sources and V S of the targets, and the error over landmarks."""

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr

from ask_dask import store
from ask_dask.report import plot
from ask_dask.report.words import number

MOST_POINTS = 5000
"""Rows that are drawn at most, of each side."""
MOST_COMPONENTS = 6
"""Components that the reader may choose from."""


@dataclass(frozen=True)
class Points:
    """Rows of U S or of V S that are drawn.

    Attributes
    ----------
    scores : (n, r) float
        At most `MOST_POINTS` rows and `MOST_COMPONENTS` columns.
    rows : (n,) int
        Their numbers among all rows.
    of : int
        How many rows there are in all.
    kind : {"classes", "values", "labels", "none"}
        What y is: one class, one number, or several columns a row.
    y, id : (n,) or (n, q), or None
    """

    scores: np.ndarray
    rows: np.ndarray
    of: int
    kind: str = "none"
    y: np.ndarray | None = None
    id: np.ndarray | None = None


def drawn(group: zarr.Group) -> tuple[Points, Points]:
    """The points of both sides of an embedding store, evenly spaced rows; a chunk at a time is in memory.

    Of the rows and columns of a data matrix, y and id belong to the rows; of two sets, to the sources.
    """
    facts = store.about(group)
    values = store.read(store.array(group, "singular_values"))
    recipe = facts.get("recipe") or {}
    two = (recipe.get("parameters") or {}).get("columns", False) or "targets" in (recipe.get("inputs") or {})
    found = []
    for name in ("left", "right"):
        vectors = store.array(group, name)
        rows = spaced(vectors.shape[0])
        own = {} if two and name == "right" else {
            key: picked(store.array(group, key), rows) for key in ("y", "id") if key in group
        }  # fmt: skip
        scores = (picked(vectors, rows) * values)[:, :MOST_COMPONENTS]
        found.append(Points(scores, rows, vectors.shape[0], _kind(own.get("y"), facts), **own))
    return found[0], found[1]


def spaced(n: int, most: int = MOST_POINTS) -> np.ndarray:
    """At most `most` of n row numbers, evenly spaced, the first and the last among them.

    >>> spaced(7, 3).tolist(), spaced(2, 3).tolist()
    ([0, 3, 6], [0, 1])
    """
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)


def picked(array: zarr.Array, rows: np.ndarray) -> np.ndarray:
    """Ascending rows of a stored array, read a chunk at a time."""
    height = array.chunks[0]
    parts = []
    for chunk in np.unique(rows // height):
        start = int(chunk) * height
        block = store.read(array, start, min(start + height, array.shape[0]))
        parts.append(block[rows[rows // height == chunk] - start])
    return np.concatenate(parts) if parts else np.empty((0, *array.shape[1:]), array.dtype)


def _kind(y: np.ndarray | None, facts: dict[str, Any]) -> str:
    """What y is; whole numbers are classes unless there were too many to count."""
    if y is None:
        return "none"
    if y.ndim > 1:
        return "labels"
    counted = (facts.get("data") or {}).get("label_counts")
    return "values" if y.dtype.kind == "f" or (y.dtype.kind in "iu" and not counted) else "classes"


def scores_figure(points: Points, what: str, whose: str) -> dict[str, Any] | None:
    """Two components of the scores against each other, a point a source or target, coloured by y.

    `columns` beside the figure has all components of each trace, for the reader's choice.
    """
    if not len(points.scores):
        return None
    traces, groups = zip(*_traces(points), strict=True)
    columns = [[_rounded(column) for column in points.scores[mask].T] for mask in groups]
    for trace, of_trace in zip(traces, columns, strict=True):
        trace |= {"x": of_trace[0], "y": of_trace[min(1, len(of_trace) - 1)]}
    names = ", ".join(html.unescape(trace["name"]) for trace in traces)
    said = {"classes": f", coloured by class: {names}", "values": ", coloured by y"}.get(points.kind, "")
    alt = f"Two components of the scores {what} of {len(points.rows):,} {whose}{said}."
    shown = (1, min(2, points.scores.shape[1]))
    x, y = (plot.axis(f"{what}, component {k}", exponentformat="power") for k in shown)
    drawn = plot.figure(list(traces), x, y, alt, height=460)
    drawn["layout"]["legend"] |= {"itemsizing": "constant"}
    return drawn | {"columns": columns, "what": what}


def _traces(points: Points) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Each trace, without its places, and the mask of its points."""
    everything = np.ones(len(points.rows), bool)
    if points.y is not None and points.kind == "classes":
        yield from _of_classes(points, points.y)
    elif points.y is not None and points.kind == "values":
        bar = {"title": {"text": "y"}, "thickness": 12, "outlinewidth": 0}
        colour = {"color": _rounded(points.y), "colorscale": "Viridis", "colorbar": bar}
        yield _trace(points, everything, marker={"size": 5, "opacity": 0.8} | colour), everything
    else:
        yield _trace(points, everything, marker={"size": 5, "opacity": 0.6, "color": plot.BLUE}), everything


def _of_classes(points: Points, y: np.ndarray) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """The most frequent classes in a colour and a symbol each, and beneath them the others in grey."""
    labels, place, counts = np.unique(y, return_inverse=True, return_counts=True)
    most = np.sort(np.argsort(-counts, kind="stable")[: len(plot.COLOURS)])
    others = ~np.isin(place, most)
    if others.any():
        yield _trace(points, others, "others", marker={"size": 4, "opacity": 0.5, "color": plot.GREY}), others
    for i, code in enumerate(most):
        look = {"size": 5, "opacity": 0.75, "symbol": i, "color": plot.COLOURS[i]}
        yield _trace(points, place == code, plot.short(labels[code], 16), marker=look), place == code


def _trace(points: Points, mask: np.ndarray, name: str = "", **look: Any) -> dict[str, Any]:
    text = [html.escape(said) for said in _said(points, mask)]
    return {"type": "scatter", "mode": "markers", "name": html.escape(name), "text": text, "showlegend": bool(name),
            "hovertemplate": "%{text}<br>%{x:.3~g}, %{y:.3~g}<extra></extra>"} | look  # fmt: skip


def _said(points: Points, mask: np.ndarray) -> Iterator[str]:
    """What is known of each point: its id, else its row, and y."""
    for i in np.flatnonzero(mask):
        who = f"row {points.rows[i]}" if points.id is None else f"id {plot.short(points.id[i])}"
        y = (
            ""
            if points.y is None
            else ", ".join(plot.short(value) for value in np.atleast_1d(points.y[i])[:8].tolist())
        )
        yield f"{who}, y {y}" if y else who


def _rounded(values: Any) -> list[float]:
    """Six digits are more than a screen shows, and keep the page small."""
    return [float(f"{value:.6g}") for value in values]


def error_figure(facts: dict[str, Any]) -> dict[str, Any] | None:
    """The errors over the landmark counts that were tried, with standard errors and the tolerance."""
    error = facts.get("landmark_error") or {}
    traces = []
    for i, (side, landmarks) in enumerate((("left", "row_landmarks"), ("right", "column_landmarks"))):
        columns = [error.get(name) or [] for name in (landmarks, side, f"{side}_deviation")]
        known = [row for row in zip(*columns, strict=False) if row[1]]  # an error of zero has no place on a log axis
        if len(known) < 2:
            return None
        x, y, deviation = zip(*known, strict=True)
        bars = {"type": "data", "array": list(deviation), "thickness": 1, "width": 3}
        traces.append(plot.line(x, y, side, plot.COLOURS[i], mode="lines+markers", error_y=bars,
                                marker={"size": 8, "symbol": i}, line={"dash": plot.DASHES[i]}))  # fmt: skip
    counts = sorted({n for trace in traces for n in trace["x"]})
    said = "; ".join(f"{trace['name']} from {trace['y'][0]:.3g} to {trace['y'][-1]:.3g}" for trace in traces)
    alt = f"Error over {number(counts[0])} to {number(counts[-1])} landmarks: {said}"
    tol = (facts.get("parameters") or {}).get("tol")
    if tol:
        ends = [counts[0], counts[-1]]
        traces.append(plot.line(ends, [tol] * 2, f"tolerance {tol:g}", "#000", line={"dash": "dash", "width": 1.5}))
        alt += f"; the tolerance is {tol:g}"
    return plot.figure(traces, plot.axis("Landmarks of that side (count, log scale)", "log", **_ticks(counts)),
                       plot.axis("Error (log scale)", "log", exponentformat="power"), alt + ".")  # fmt: skip


def _ticks(counts: list[int]) -> dict[str, Any]:
    """A tick at each count that stands clear of the last one."""
    shown = counts[-1:]
    for count in reversed(counts[:-1]):
        if math.log(shown[0] / count) > 0.1 * math.log(counts[-1] / counts[0]):
            shown.insert(0, count)
    return {"tickvals": shown, "ticktext": [number(n) for n in shown]}

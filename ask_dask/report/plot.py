"""What every figure of the page is made of, as the JSON of plotly; text is escaped, because plotly reads tags."""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8a8f98"
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7a6a00")  # Okabe and Ito
DASHES = ("solid", "dash", "dot", "dashdot")


def figure(traces: list[dict], x: dict, y: dict, alt: str, **layout: Any) -> dict[str, Any]:
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


def short(text: Any, most: int = 24) -> str:
    """A name that fits in a figure, where a long one would be cut at the edge."""
    text = str(text)
    return text if len(text) <= most else f"{text[: most - 9]}…{text[-8:]}"


def line(x: Sequence[float], y: Sequence[float], name: str, colour: str = BLUE, **more: Any) -> dict[str, Any]:
    """A line; `more` is what plotly knows of a scatter trace, such as mode="lines+markers"."""
    drawn = {"type": "scatter", "mode": "lines", "x": list(x), "y": list(y), "name": html.escape(name)}
    return drawn | {"line": {"color": colour, "width": 2.5} | more.pop("line", {})} | more


def axis(title: str, kind: str = "linear", **more: Any) -> dict[str, Any]:
    """An axis with its title."""
    return {"title": {"text": title, "standoff": 8, "font": {"size": 13}}, "type": kind} | more


def decades(values: Sequence[float]) -> dict[str, Any]:
    """A tick a power of ten where the values span several, else plotly's own choice."""
    span = np.log10(max(values) / min(values))
    return {"dtick": int(np.ceil(span / 8))} if span > 1.5 else {}

"""One self-contained HTML page about a model or an embedding, with its figures, that opens without a network.

The page is made of plain values: sentences, tables (a head and rows) and figures (the JSON of plotly). The templates,
`model.html` and `embedding.html` on `base.html`, escape whatever came from the input; text inside figures is escaped
where they are made.
"""

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import zarr
from plotly.offline import get_plotlyjs

from ask_dask import store
from ask_dask.errors import StoreError
from ask_dask.report import embedded, embedding, figures, solution
from ask_dask.report.tables import tables
from ask_dask.report.texts import cards, data_sentence, notes, sentences, solver_sentence
from ask_dask.report.words import is_exact, landmarks, lower_is_better, number, parameter, task

MARK, HEAD = b'<meta name="generator" content="ask-dask">', 2000
"""What every page has among its first bytes."""


def write_report(
    group: zarr.Group,
    to: str | Path,
    overwrite: bool = False,
    test: dict[str, Any] | None = None,
    steps: Sequence[dict[str, Any]] = (),
    mark: str = "",
) -> Path:
    """Write the page about a model or an embedding and return its path.

    Parameters
    ----------
    group : zarr.Group
        A model or an embedding store, as `store.open_store` gives it.
    to : path
        The HTML file; it appears whole or not at all.
    overwrite : bool
        Replace a file that is there.
    test : dict, optional
        Of a model: what `score.score_predictions` returned for rows that it has not seen.
    steps : sequence of dict
        Time and memory of steps after the store's own, such as prediction.
    mark : str
        A comment put at the end of the page.

    Raises
    ------
    StoreError
        The file exists, or cannot be written.
    """
    path = store.located(to)
    store.refuse_existing(path, overwrite)
    _require_report(path)
    values = store.read(group["singular_values"]) if "singular_values" in group else np.zeros(0)  # type: ignore[arg-type]
    facts = store.about(group)
    if not len(values):
        values = np.array(((facts.get("solution") or {}).get("statistics") or {}).get("eigenvalues", []))
    facts["steps"] = [*facts.get("steps", []), *steps]
    if facts["schema"] == "embedding":
        page = render_embedding(facts, values, *embedding.drawn(group))
    else:
        page = render(facts, values, test)
    _publish(page + mark, path)
    return path


def _require_report(path: Path) -> None:
    """Raise StoreError where something other than a page of this package would be replaced."""
    if path.is_dir() or not path.exists():
        return
    try:
        start = store.read_bytes(path)[:HEAD]
    except (OSError, ValueError):
        start = b""
    if MARK not in start:
        raise StoreError(f"{path} is not a report that ask-dask wrote, so it is not replaced: choose another place.")


def _publish(page: str, path: Path) -> None:
    if isinstance(path, store.Url):
        path.write_bytes(page.encode())  # whole or not at all, as object storage is
        return
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


def render(facts: dict[str, Any], singular_values: np.ndarray, test: dict[str, Any] | None = None) -> str:
    """The page as text: facts of a model store (`store.about`), singular values (r,) float and test scores, if any."""
    facts = _as_solved(facts)
    held_out = facts.get("held_out")
    drawn = {
        "roc": figures.roc_figure(held_out, test),
        "calibration": figures.calibration_figure(held_out, test),
        "predicted": figures.predicted_figure(held_out, test),
        "parameter": figures.parameter_figure(facts),
        "landmarks": figures.landmarks_figure(facts),
        "spectrum": solution.spectrum_figure(facts, singular_values),
        "landmark_error": solution.landmark_error_figure(facts),
        "residuals": solution.residuals_figure(facts.get("solver") or {}),
    }
    return _page(
        "model.html",
        facts,
        drawn,
        title=facts.get("estimator") or "Model",
        what="a model",
        task=task(facts),
        parameter=parameter(facts)[0],
        value=parameter(facts)[1],
        lower=lower_is_better(facts),
        sentences=sentences(facts, test),
        taken=data_sentence(facts),
        solver=solver_sentence(facts),
        cards=cards(facts, test),
        tables=tables(facts, test),
        notes=notes(facts, test),
        tested=test is not None,
    )


def render_embedding(
    facts: dict[str, Any], singular_values: np.ndarray, sources: embedding.Points, targets: embedding.Points
) -> str:
    """The page as text: facts of an embedding store (`store.about`), singular values (r,) float, and points to draw."""
    residuals = facts.get("residuals") or []
    drawn = {
        "sources": embedding.scores_figure(sources, "U S", "sources"),
        "targets": embedding.scores_figure(targets, "V S", "targets"),
        "spectrum": solution.spectrum_figure({}, singular_values),
        "landmark_error": embedding.error_figure(facts),
        "residuals": solution.residuals_figure({"residuals": residuals, "iterations": len(residuals)}),
    }
    return _page(
        "embedding.html",
        facts,
        drawn,
        title="Embedding",
        what="an embedding",
        n_components=sources.scores.shape[1],
        sentences=embedded.sentences(facts),
        taken=embedded.data_sentence(facts),
        captions=[
            embedded.drawn_sentence(points, name) for points, name in ((sources, "sources"), (targets, "targets"))
        ],
        cards=embedded.cards(facts),
        tables=embedded.tables(facts, sources.kind),
        notes=embedded.notes(facts),
    )


def _page(template: str, facts: dict[str, Any], drawn: dict[str, Any], **values: Any) -> str:
    """A template filled; `drawn` has a figure, or None, by name."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ask_dask.report", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "landmarks": landmarks}
    drawn |= solution.cost_figures(facts.get("steps") or [])
    return environment.get_template(template).render(
        facts=facts,
        figures={name: figure for name, figure in drawn.items() if figure},
        plotly_js=get_plotlyjs(),
        **values,
    )


def _as_solved(facts: dict[str, Any]) -> dict[str, Any]:
    """Of an exact solution no count of landmarks, since every training point is one."""
    if not is_exact(facts):
        return facts
    results = dict(facts.get("cv_results") or {})
    if "param_n_landmarks" in results:
        results["param_n_landmarks"] = [None] * len(results["param_n_landmarks"])
    return facts | {"n_landmarks": None, "cv_results": results}

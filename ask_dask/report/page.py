"""One self-contained HTML page about a model store, with its figures, that opens without a network.

The page is made of plain values: sentences, tables (a head and rows) and figures (the JSON of plotly). The template
`report.html` escapes whatever came from the input; text inside figures is escaped in `figures`.
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
from ask_dask.report import figures, solution
from ask_dask.report.tables import tables
from ask_dask.report.texts import cards, data_sentence, notes, sentences, solver_sentence
from ask_dask.report.words import is_exact, landmarks, lower_is_better, number, task


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
    environment.filters |= {"number": number, "landmarks": landmarks}
    facts = _as_solved(facts)
    held_out = facts.get("held_out")
    drawn = {
        "roc": figures.roc_figure(held_out, test),
        "calibration": figures.calibration_figure(held_out, test),
        "predicted": figures.predicted_figure(held_out, test),
        "gamma": figures.gamma_figure(facts),
        "landmarks": figures.landmarks_figure(facts),
        "spectrum": solution.spectrum_figure(facts, singular_values),
        "landmark_error": solution.landmark_error_figure(facts),
        "residuals": solution.residuals_figure(facts),
        **solution.cost_figures(facts.get("steps") or []),
    }
    return environment.get_template("report.html").render(
        facts=facts,
        task=task(facts),
        lower=lower_is_better(facts),
        sentences=sentences(facts, test),
        taken=data_sentence(facts),
        solver=solver_sentence(facts),
        cards=cards(facts, test),
        figures={name: figure for name, figure in drawn.items() if figure},
        tables=tables(facts, test),
        notes=notes(facts, test),
        tested=test is not None,
        plotly_js=get_plotlyjs(),
    )


def _as_solved(facts: dict[str, Any]) -> dict[str, Any]:
    """Of an exact solution no count of landmarks, since every training point is one."""
    if not is_exact(facts):
        return facts
    results = dict(facts.get("cv_results") or {})
    if "param_n_landmarks" in results:
        results["param_n_landmarks"] = [None] * len(results["param_n_landmarks"])
    return facts | {"n_landmarks": None, "cv_results": results}

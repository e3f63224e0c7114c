"""The page of regression and of several labels, of exact solvers, of landmarks against the exact solution."""

import asyncio
import os
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from pages import Page, browse, facts, figures, model, spectrum

from ask_dask.report import render, write_report
from ask_dask.score import MultilabelScores, RegressionScores, multilabel_summary, regression_summary

LANDMARK_ERROR = {
    "reference": "exact, dense", "n_landmarks": [100, 300, 1000, 3000], "source": [0.4, 0.09, 0.011, 0.0],
    "target": [0.5, 0.1, 0.015, 2e-4], "n": 2000,
}  # fmt: skip
SOLVER = {
    "name": "minres", "iterations": 30, "relative_residual": 8.1e-9, "converged": True, "seconds": 12.3,
    "residuals": [10 ** (-8 * i / 30) for i in range(31)],
}  # fmt: skip


def regression(outputs=1, seed=0, names=None):
    """Scores of predictions that know something."""
    rng = np.random.default_rng(seed)
    y = 300 + 20 * rng.normal(size=(2000, outputs))
    return regression_summary(RegressionScores.of(y, y + 8 * rng.normal(size=y.shape)), names)


def labels(n_labels=4, seed=0, names=None):
    rng = np.random.default_rng(seed)
    y = rng.random((2000, n_labels)) < np.linspace(0.05, 0.5, n_labels)
    raw = rng.normal(size=y.shape) + 2 * y - 1
    return multilabel_summary(MultilabelScores.of(y, raw, 1 / (1 + np.exp(-raw))), names)


def of_regression(outputs=1, **other):
    """What the store of a regression says, its grid scored by RMSE."""
    results = {key: values for key, values in facts()["cv_results"].items() if key.startswith("param")}
    n = len(results["param_gamma"])
    results |= {"mean_test_r2": [0.8] * n, "mean_test_rmse": [9 - 0.1 * i for i in range(n)],
                "std_test_rmse": [0.1] * n}  # fmt: skip
    made = {"task": "regression", "estimator": "AsKLSRegressor", "held_out": regression(outputs), "scoring": "rmse"}
    return facts(**(made | {"cv_results": results, "landmark_error": LANDMARK_ERROR, "solver": SOLVER} | other))


def of_labels(n_labels=4, **other):
    names = [f"tag {i}" for i in range(n_labels)]
    made = {"task": "multilabel", "held_out": labels(n_labels, names=names), "label_names": names}
    return facts(**(made | other))


def text(about, test=None):
    return Page(render(about, spectrum(), test)).text


def test_regression_is_said_in_its_own_words():
    held_out, test = regression(), regression(seed=1) | {"data": "new.zarr", "data_fingerprint": "other"}
    page = text(of_regression(), test)
    for said in (
        "gamma = 1 and 1,000 landmarks had the best RMSE over 5 folds",
        f"On rows held out of each fold (2,000 rows) R² is {held_out['r2']:.4f}: the predictions explain",
        f"the RMSE {test['rmse']:.4g} and the MAE {test['mae']:.4g} in the unit of y",
        "R² ↑", "RMSE ↓", "Still falling at the right end",
        "Observed over predicted", "What predicting the mean of y of the same rows",
        f"{test['label_std']:.4g} MAE",  # the RMSE without a model ends its row
    ):  # fmt: skip
        assert said in page
    for absent in ("AUROC", "ROC curve", "Log loss", "F1"):
        assert absent not in page
    drawn = figures(render(of_regression(), spectrum(), test))
    assert set(drawn) == {
        "predicted", "parameter", "landmarks", "spectrum", "landmark_error", "residuals", "seconds", "peak_bytes"
    }  # fmt: skip
    assert drawn["parameter"]["layout"]["yaxis"]["title"]["text"] == "RMSE, mean of the folds"
    assert [trace["name"] for trace in drawn["predicted"]["data"]] == ["held out", "test", "perfect"]
    for figure in drawn.values():
        go.Figure(figure["data"], figure["layout"])


def test_several_outputs_have_a_row_each():
    held_out = regression(3, names=["width", "height", "depth"])
    page = text(of_regression(held_out=held_out))
    row = [f"{held_out['r2_by_output'][1]:.4f}", *(f"{held_out[f'{k}_by_output'][1]:.4g}" for k in ("rmse", "mae"))]
    assert "Scores of each output, held out" in page and " ".join(["height", *row]) in page
    drawn = figures(render(of_regression(held_out=held_out), spectrum()))["predicted"]["data"]
    assert [trace["name"] for trace in drawn[:-1]] == [f"{n} (held out)" for n in ("width", "height", "depth")]


def test_where_r2_is_undefined_the_reason_is_said():
    flat = regression_summary(RegressionScores.of(np.ones(9), np.arange(9.0)))
    page = text(of_regression(held_out=flat))
    assert "there is no defined R²: every row has the same y, and R2 compares with how y varies." in page
    worse = regression_summary(RegressionScores.of(np.arange(9.0), -np.arange(9.0)))
    assert "predicting the mean of y does no worse" in text(of_regression(held_out=worse))


def test_several_labels_are_said_in_their_own_words():
    found = labels(4, names=[f"tag {i}" for i in range(4)])
    page = text(of_labels())
    for said in (
        f"the AUROC is {found['auroc']:.4f}, the mean of the labels: it ranks a random row with a label above",
        "Scores of each label, held out", f"tag 3 {found['auroc_by_label'][3]:.4f} {found['f1_by_label'][3]:.4f} "
        f"{found['label_rates'][3]:.2%}", "rows where every label is right", "All labels together",
    ):  # fmt: skip
        assert said in page
    drawn = figures(render(of_labels(), spectrum()))
    assert set(drawn) == {"roc", "calibration", "parameter", "landmarks", "spectrum", "seconds", "peak_bytes"}
    assert drawn["roc"]["data"][0]["name"] == "tag 0 (held out)"


def test_of_many_labels_the_most_frequent_are_shown():
    rows = Page(render(of_labels(500), spectrum()))
    assert "tag 499" in rows.text and "tag 100 " not in rows.text and "and 480 more" in rows.text
    data = facts()["data"] | {"label_counts": {f"tag {i}": i * 1000 for i in range(500)}}
    page = text(of_labels(500, data=data))
    assert f"tag 499 499,000 {499_000 / 4_000_000:.2%}" in page  # of the rows: a row may have several labels


def test_landmarks_against_the_exact_solution():
    page = render(of_regression(), spectrum())
    drawn = figures(page)["landmark_error"]
    assert [trace["x"] for trace in drawn["data"]] == [
        [100, 300, 1000],
        [100, 300, 1000, 3000],
    ]  # no zero on a log axis
    assert drawn["layout"]["xaxis"]["type"] == drawn["layout"]["yaxis"]["type"] == "log"
    assert drawn["alt"] == "Relative error over 100 to 3,000 landmarks: f_s from 0.4 to 0.011; f_t from 0.5 to 0.0002."
    assert "3,000 0 0.0002" in Page(page).text and "(exact, dense), relative to that" in Page(page).text
    assert "over 2,000 rows" in Page(page).text
    for error in (None, {}, LANDMARK_ERROR | {"n_landmarks": [], "source": [], "target": []}):
        without = render(of_regression(landmark_error=error), spectrum())
        assert "landmark_error" not in figures(without) and "Error of f over" not in Page(without).text


@pytest.mark.parametrize(
    ("solver", "says"),
    [
        (SOLVER, "was solved by MINRES in 30 iterations, to a relative residual of 8.1e-09, in 12.3 s."),
        (SOLVER | {"converged": False}, "in 12.3 s; it did not converge."),
        ({"name": "dense", "seconds": 1.0}, "was solved by one dense decomposition, in 1.0 s."),
        ({"name": "landmarks", "iterations": 0}, "The system was solved on landmarks."),
    ],
)
def test_how_it_was_solved_is_said(solver, says):
    page = text(facts(solver=solver))
    assert says in page
    assert ("Not converged: The solver stopped at a relative residual of 8.1e-09" in page) == ("did not" in says)


def test_residuals_begin_where_the_solver_began():
    drawn = figures(render(facts(solver=SOLVER), spectrum()))["residuals"]
    assert (drawn["data"][0]["x"][0], drawn["data"][0]["x"][-1]) == (0, 30)
    later = SOLVER | {"residuals": SOLVER["residuals"][1:]}
    assert figures(render(facts(solver=later), spectrum()))["residuals"]["data"][0]["x"][0] == 1
    assert "residuals" not in figures(render(facts(solver=SOLVER | {"residuals": []}), spectrum()))


def test_exact_solutions_use_all_points():
    results = {"param_gamma": [0.1, 1.0, 1.0], "param_n_landmarks": [None] * 3, "mean_test_roc_auc": [0.7, 0.8, 0.8]}
    about = facts(n_landmarks=None, cv_results=results, solver=SOLVER | {"name": "dense"})
    page = render(about, spectrum())
    assert "gamma = 1 and all training points had the best AUROC" in Page(page).text
    assert "training points, all used 4,000,000" in Page(page).text
    drawn = figures(page)
    assert [trace["name"] for trace in drawn["parameter"]["data"]] == ["all training points", "chosen", "chosen"]
    assert "landmarks" not in drawn


def test_the_kernel_and_its_asymmetry_are_said():
    inner = {"name": "Precomputed", "K": {"array": [[0.0] * 300] * 200}}
    kernel = {"name": "Symmetrised", "how": "mean", "kernel": inner}
    page = text(facts(kernel=kernel, asymmetry=0.8312))
    assert "with the Precomputed kernel, symmetrised as (K + K') / 2." in page
    assert "Symmetrised(how = mean, kernel = Precomputed(K = array of 200 x 300))" in page
    assert "How asymmetric the kernel is: ||K - K'|| / ||K|| = 0.8312 (0 is symmetric" in page
    assert "||K|| = 0 (it is symmetric)" in text(facts(asymmetry=0.0))


@pytest.mark.browser
@pytest.mark.parametrize(("kind", "plots"), [("several outputs", 8), ("many labels", 7)])
def test_a_browser_draws_every_figure_and_nothing_overflows(tmp_path, browser, kind, plots):
    outputs = {"held_out": regression(5, names=["a_name_of_an_output_that_is_long" * 3, *"bcde"]), "asymmetry": 1.1}
    other = {"several outputs": of_regression(**outputs), "many labels": of_labels(60)}[kind]
    path = write_report(model(tmp_path / "m.zarr", **other), tmp_path / "r.html")
    shots = os.environ.get("ASK_DASK_SHOTS")  # a folder to look at the page in
    for width in (390, 1280):
        found = asyncio.run(browse(browser, path.as_uri(), width, shots and Path(shots, f"{kind} {width}.png")))
        assert found["inner"] == width and found["wide"] <= width
        assert found["drawn"] == found["plots"] == plots
        assert found["cut"] == []
        assert found["errors"] == [] and found["loads"] == []

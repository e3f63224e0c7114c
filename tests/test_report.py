import asyncio
import json
import os
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from pages import Page, browse, facts, figures, model, new_rows, scores, spectrum

from ask_dask.errors import StoreError
from ask_dask.report import render, write_report
from ask_dask.report.solution import spectrum_figure
from ask_dask.score import Scores, curves, summary

NASTY = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>.csv'


def test_the_page_says_what_was_run_and_how_good_it_is(tmp_path):
    path = write_report(model(tmp_path / "m.zarr"), tmp_path / "new" / "r.html", test=new_rows())
    page = Page(path.read_text(encoding="utf-8"))
    for said in (
        "AsKLSClassifier was fitted on 4,000,000 rows and 39 features of /data/criteo/day_0.zarr, with the sne kernel.",
        "Of 15 pairs of gamma and landmark count, gamma = 1 and 1,000 landmarks had the best AUROC over 5 folds.",
        f"On rows held out of each fold (4,000 rows) the AUROC is {scores()['auroc']:.4f}",
        f"On the test data (4,000 rows) the AUROC is {new_rows()['auroc']:.4f}",
        "Resonance: gamma = 1 is 0.4 % away from a resonance",
        "39 tabs expected, 12 found", "/data/criteo/raw/part-003.tsv.gz", "2468", "bandwidth = 12.5",
        "8d3c51a09be24a7f8d3c51a09be24a7f",
    ):  # fmt: skip
        assert said in page.text
    assert "honest figure is still missing" not in page.text
    assert os.listdir(path.parent) == ["r.html"]


def test_the_page_is_self_contained_and_accessible(tmp_path):
    text = write_report(model(tmp_path / "m.zarr"), tmp_path / "r.html", test=new_rows()).read_text(encoding="utf-8")
    page = Page(text)
    for _, attrs in page.tags:
        for name in ("src", "href", "action", "data", "srcset"):
            assert attrs.get(name, "#").startswith("#")
    assert text.count("* plotly.js v") == 1
    assert page.named("html") == [{"lang": "en"}] and "title" in dict(page.tags)
    plots = [attrs for attrs in page.named("div") if attrs.get("role") == "img"]
    assert len(plots) == 7 and all(len(attrs["aria-label"]) > 20 for attrs in plots)
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    assert {attrs["href"][1:] for attrs in page.named("a")} <= ids


@pytest.mark.parametrize("n_classes", [2, 3, 12])
def test_figures_are_valid_and_labelled(n_classes):
    drawn = figures(render(facts(n_classes), spectrum(), new_rows(**scores(n_classes=n_classes))))
    assert set(drawn) == {"roc", "calibration", "parameter", "landmarks", "spectrum", "seconds", "peak_bytes"}
    for name, figure in drawn.items():
        go.Figure(figure["data"], figure["layout"])
        assert figure["layout"]["xaxis"]["title"]["text"]
        assert name in ("seconds", "peak_bytes") or figure["layout"]["yaxis"]["title"]["text"]


def test_what_comes_from_the_input_is_text_and_never_tags():
    data = facts()["data"] | {"path": NASTY, "label_counts": {NASTY: 1}}
    data["files"] = [{"path": NASTY, "rows": 1, "rejected": 1, "bytes": 1, "fingerprint": NASTY}]
    data["rejected"] = {"count": 1, "by_reason": {NASTY: 1}, "first": [{"file": NASTY, "line": 1, "reason": NASTY}]}
    held_out = scores(n_classes=3) | {"classes": [NASTY] * 3}
    held_out["roc"] = [curve | {"class": NASTY} for curve in held_out["roc"]]
    steps = [{"step": NASTY, "seconds": 1.0, "peak_bytes": 1}]
    test = held_out | {"data": NASTY, "data_fingerprint": NASTY}
    text = render(facts(data=data, held_out=held_out, steps=steps, estimator=NASTY), spectrum(), test)
    page = Page(text)
    assert not page.named("img") and len(page.named("script")) == 2
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert NASTY in page.text
    assert "<img" not in json.dumps([figure["data"] for figure in figures(text).values()])


def test_nothing_known_is_said_so(tmp_path):
    bare = {"estimator": "AsKLSClassifier", "gamma": 1.0, "n_landmarks": 10, "n_rows": 20, "n_features": 2}
    page = Page(render(bare, np.zeros(0)))
    for said in (
        "given as arrays", "nothing was chosen by cross-validation", "No rows were held out", "There are no scores",
        "fitted on arrays in memory", "Nothing was measured", "keeps no singular values",
        "honest figure is still missing",
    ):  # fmt: skip
        assert said in page.text
    assert "None" not in page.text.replace("cv is None", "") and "nan" not in page.text.split()


def test_undefined_scores_have_their_reason():
    p = np.full((4, 2), 0.5)
    block = Scores.of(np.ones(4, int), np.arange(4.0), p, 2)
    page = render(facts(held_out=summary(block, [0, 1]) | curves(block, [0, 1])), spectrum())
    assert "there is no AUROC: every row has the label 1, and ranking needs two." in Page(page).text
    assert "roc" not in figures(page)


def test_testing_on_the_training_data_is_called_out():
    same = new_rows(data_fingerprint=facts()["data"]["fingerprint"])
    assert (
        "Not a test: The test data has the fingerprint of the training data"
        in Page(render(facts(), spectrum(), same)).text
    )


def test_scores_that_are_missing_leave_gaps_and_the_metric_that_chose_is_drawn():
    results = facts()["cv_results"]
    results["mean_test_log_loss"] = [None, *results["mean_test_log_loss"][1:]]
    drawn = figures(render(facts(cv_results=results, scoring="neg_log_loss"), spectrum()))["parameter"]
    assert drawn["layout"]["yaxis"]["title"]["text"] == "Log loss, mean of the folds"
    assert [len(trace["x"]) for trace in drawn["data"]] == [4, 5, 5, 1]
    assert (drawn["data"][-1]["name"], drawn["data"][-1]["x"]) == ("chosen", [1.0])


def test_zero_singular_values_are_not_drawn_on_a_log_axis():
    drawn = spectrum_figure(facts(), np.array([2.0, 1.0, 0.0]))
    assert drawn is not None and drawn["data"][0]["y"] == [2.0, 1.0]
    assert spectrum_figure(facts(), np.zeros(3)) is None


def test_an_existing_page_stays_unless_told(tmp_path):
    group, path = model(tmp_path / "m.zarr"), tmp_path / "r.html"
    path.write_text("mine")
    with pytest.raises(StoreError, match=r"r\.html exists already"):
        write_report(group, path)
    with pytest.raises(StoreError, match=r"r\.html is not a report that ask-dask wrote, so it is not replaced"):
        write_report(group, path, overwrite=True)
    assert path.read_text() == "mine"
    path.unlink()
    first = write_report(group, path).read_text(encoding="utf-8")
    assert write_report(group, path, overwrite=True).read_text(encoding="utf-8") == first


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    group = model(tmp_path / "m.zarr")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"^Cannot write .*r\.html: .*; choose another place\.$"):
        write_report(group, tmp_path / "file" / "r.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match=r"^Cannot write .*folder: .*; choose another place"):
        write_report(group, tmp_path / "folder", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder", "m.zarr"]


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["two classes", "many classes and long names"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_draws_every_figure_and_nothing_overflows(tmp_path, browser, width, kind):
    other, test = ({}, new_rows()) if kind == "two classes" else (long_names(), None)
    path = write_report(model(tmp_path / "m.zarr", **other), tmp_path / "r.html", test=test)
    shots = os.environ.get("ASK_DASK_SHOTS")  # a folder to look at the page in
    found = asyncio.run(browse(browser, path.as_uri(), width, shots and Path(shots, f"{kind} {width}.png")))
    assert found["inner"] == width and found["wide"] <= width
    assert found["drawn"] == found["plots"] == 7
    assert found["cut"] == []
    assert found["errors"] == [] and found["loads"] == []


def long_names():
    """Names that do not fit, of files, steps, parameters and some of many classes."""
    long = "a_name_that_is_much_longer_than_a_phone_is_wide_" * 3
    held_out = scores(n_classes=6)
    for key in ("roc", "calibration"):
        held_out[key] = [curve | {"class": long} for curve in held_out[key][:3]] + held_out[key][3:]
    steps = [{"step": long, "seconds": 1.0, "peak_bytes": 1 << 30}]
    data = facts()["data"] | {"path": f"/{long}", "label_counts": {long: 3}}
    data["files"] = [{"path": long, "rows": 1, "rejected": 1, "bytes": 1, "fingerprint": long}]
    data["rejected"] = {"count": 1, "by_reason": {long: 1}, "first": [{"file": long, "line": 1, "reason": long}]}
    return {"held_out": held_out, "steps": steps, "data": data, "parameters": {long: long}, "estimator": long}

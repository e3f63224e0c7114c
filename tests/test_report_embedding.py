"""The page of an embedding: its figures from real stores, what comes from the input, and a look in a browser."""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from pages import Page, browse, figures
from test_report import NASTY

from ask_dask import store
from ask_dask.cli.words import in_words
from ask_dask.report import embedded as embedded_words
from ask_dask.report import embedding, render_embedding

OF = {
    "classes": ("kind.zarr", "--kernel", "sne", "--bandwidth", 1, "--n-landmarks", "20,30", "--n-components", 4,
                "--tol", 0.01, "--compare-exact"),
    "values": ("real.zarr", "--kernel", "rbf", "--bandwidth", 1, "--n-landmarks", 30, "--n-components", 2),
    "nodes": ("more.zarr", "--n-components", 3, "--exact"),
    "no y": ("far.zarr", "--kernel", "rbf", "--bandwidth", 100, "--exact", "--n-components", 1),
    "several y": ("multi.zarr", "--kernel", "rbf", "--bandwidth", 1, "--n-landmarks", 30, "--n-components", 3),
    "columns": ("kind.zarr", "--kernel", "rbf", "--bandwidth", 2, "--exact", "--columns", "--compat", "random",
                "--compat-dim", 8, "--n-components", 2),
}  # fmt: skip


OF |= {
    "complete": ("kind.zarr", "--kernel", "rbf", "--bandwidth", 1, "--n-landmarks", "80,20", "--n-components", 3),
    "few": ("far.zarr", "--kernel", "rbf", "--bandwidth", 100, "--exact", "--n-components", 5),
}


@pytest.fixture(scope="module")
def embedded(small, tmp_path_factory):
    """The embedding store of each kind, made by the command."""
    from ask_dask import cli

    folder = tmp_path_factory.mktemp("embedded")
    for name, (data, *options) in OF.items():
        with pytest.raises(SystemExit) as left:
            cli.main(["embed", "--data", str(small / data), "--to", str(folder / f"{name}.zarr"), "--quiet",
                      *map(str, options)])  # fmt: skip
        assert left.value.code == 0, name
    return folder


def parts(folder, name):
    group = store.open_store(folder / f"{name}.zarr", "embedding")
    return store.about(group), store.read(store.array(group, "singular_values")), *embedding.drawn(group)


def page(folder, name):
    return render_embedding(*parts(folder, name))


def written(folder, name, side):
    """U S or V S as the store has them."""
    group = store.open_store(folder / f"{name}.zarr")
    return store.read(store.array(group, side)) * store.read(store.array(group, "singular_values"))


@pytest.mark.parametrize("name", OF)
def test_figures_are_valid_and_labelled(embedded, name):
    text = page(embedded, name)
    drawn = figures(text)
    assert {"sources", "targets", "spectrum", "seconds", "peak_bytes"} <= set(drawn)
    assert ("landmark_error" in drawn) == (name in ("classes", "values", "several y"))
    for figure in drawn.values():
        go.Figure(figure["data"], figure["layout"])
        assert figure["layout"]["xaxis"]["title"]["text"]
    plots = [attrs for attrs in Page(text).named("div") if attrs.get("role") == "img"]
    assert len(plots) == len(drawn) and all(len(attrs["aria-label"]) > 20 for attrs in plots)
    assert "1 / gamma" not in json.dumps(drawn["spectrum"])


def test_every_point_has_its_scores_and_its_class(embedded):
    drawn = figures(page(embedded, "classes"))
    y = store.read(store.array(store.open_store(embedded / "classes.zarr"), "y"))
    for side, name in (("left", "sources"), ("right", "targets")):
        assert [trace["name"] for trace in drawn[name]["data"]] == ["no", "yes"]
        for trace, columns in zip(drawn[name]["data"], drawn[name]["columns"], strict=True):
            of_class = written(embedded, "classes", side)[y == trace["name"]]
            np.testing.assert_allclose(np.transpose(columns), of_class, rtol=1e-3)
            assert (trace["x"], trace["y"]) == (columns[0], columns[1])
            assert all(said.endswith(f"y {trace['name']}") for said in trace["text"])
        assert "coloured by class: no, yes" in drawn[name]["alt"]


def test_real_values_have_a_colour_scale_and_several_y_are_told(embedded):
    (trace,) = figures(page(embedded, "values"))["sources"]["data"]
    y = store.read(store.array(store.open_store(embedded / "values.zarr"), "y"))
    np.testing.assert_allclose(trace["marker"]["color"], y, rtol=1e-3)
    text = page(embedded, "several y")
    (trace,) = figures(text)["targets"]["data"]
    assert trace["text"][0].startswith("row 0, y ") and trace["text"][0].count(",") == 2
    assert "A row has several y" in Page(text).text


def test_without_y_and_with_columns_the_points_have_one_colour(embedded):
    text = page(embedded, "no y")
    assert "There is no y to colour them by." in Page(text).text and not Page(text).named("select")
    (trace,) = figures(text)["sources"]["data"]
    assert trace["text"] == ["row 0", "row 1"] and trace["x"] == trace["y"]
    drawn = figures(page(embedded, "columns"))
    assert len(drawn["sources"]["data"]) == 2 and len(drawn["targets"]["data"]) == 1
    assert len(drawn["targets"]["data"][0]["x"]) == 4


def test_the_page_says_what_was_computed_and_how_near_it_is(embedded):
    about, *_ = parts(embedded, "classes")
    text = Page(page(embedded, "classes")).text
    error = about["error"]
    assert error is not None
    for said in (
        "4 pairs of singular vectors of the 80 x 80 kernel matrix", "with the SNE kernel.",
        "chosen by the method uniform", "The tolerance asked for was 0.01", "All 80 sources.",
        f"eta is {about['exact_error']['eta']:.4g}; the sine of the largest principal angle is",
        f"||K V - U S|| / ||S|| = {error['left']:.4g} ± {error['left_deviation']:.4g}",
        f"{error['right']:.3g} ± {error['right_deviation']:.2g}", "Left, ||K V - U S|| / ||S||",
        "bandwidth", about["data"]["fingerprint"], "Estimated error",
    ):  # fmt: skip
        assert said in text, said
    text = Page(render_embedding(about | {"error": None}, *parts(embedded, "classes")[1:])).text
    assert f"exact ones. Against the exact decomposition eta is {about['exact_error']['eta']:.4g};" in text
    text = Page(page(embedded, "nodes")).text
    assert "All rows and columns were used." in text and "No error was estimated." in text
    assert "The graph has 90 nodes" in text and "30 are embedded." in text


def test_the_error_of_a_side_whose_points_all_are_landmarks_is_called_exact(embedded):
    about, *rest = parts(embedded, "complete")
    left, right = about["error"]["left"], about["error"]["right"]
    text = Page(render_embedding(about, *rest)).text
    assert f"Exactly, as all points of its side are landmarks, ||K V - U S|| / ||S|| = {left:.4g}." in text
    assert f"Estimated from columns that are no landmarks, ||K'U - V S|| / ||S|| = {right:.4g} ± " in text
    shown = embedded_words.tables(about, "classes")["error"]
    assert shown[1][1:] == [f"{left:.4g}", "exact"] and shown[2][2] != "exact"
    tried = {"row_landmarks": [40, 80], "column_landmarks": [10, 20], "left": [0.2, 0.1], "right": [0.2, 0.1],
             "left_deviation": [0.01, 0], "right_deviation": [0.01, 0.02]}  # fmt: skip
    rows = embedded_words.tables(about | {"landmark_error": tried}, "classes")["landmark_error"]
    assert [row[2:] for row in rows[1:]] == [["0.2 ± 0.01", "0.2 ± 0.01"], ["0.1, exact", "0.1 ± 0.02"]]
    for larger, name in (("left", "error"), ("right", "estimated error")):
        far = about | {"error": about["error"] | {larger: 0.5}, "parameters": about["parameters"] | {"tol": 0.01}}
        assert (name, "0.5") in embedded_words.cards(far)
        assert embedded_words.notes(far) == [
            ("Tolerance not reached", f"the {name} is above 0.01: allow more landmarks.")
        ]
        assert f" rows, {name} 0.5" in in_words(far | {"step": "embed"})


def test_fewer_components_than_asked_for_are_told(embedded):
    about, *rest = parts(embedded, "few")
    assert about["n_components"] == 2
    assert (
        "Fewer components: 2 of the 5 asked for were found: the kernel matrix has no more."
        in Page(render_embedding(about, *rest)).text
    )
    assert "2 of 5 components of 2 rows" in in_words(about | {"step": "embed"})
    about, *rest = parts(embedded, "classes")
    about["parameters"] |= {"n_components": 9}
    assert (
        "4 of the 9 asked for were found: the kernel matrix has no more, or more landmarks are needed"
        in Page(render_embedding(about, *rest)).text
    )
    assert "Fewer components" not in page(embedded, "values")


def test_the_error_is_drawn_over_the_landmarks_with_the_tolerance(embedded):
    about, *rest = parts(embedded, "classes")
    tried = {
        "row_landmarks": [10, 20, 40], "column_landmarks": [15, 30, 60], "left": [0.5, 0.1, 0.02],
        "right": [0.6, 0.2, 0.0], "left_deviation": [0.1, 0.02, 0.01], "right_deviation": [0.1, 0.02, 0.01],
    }  # fmt: skip
    text = render_embedding(about | {"landmark_error": tried}, *rest)
    left, right, tolerance = figures(text)["landmark_error"]["data"]
    assert (left["x"], left["y"], left["error_y"]["array"]) == ([10, 20, 40], [0.5, 0.1, 0.02], [0.1, 0.02, 0.01])
    assert (right["x"], right["y"]) == ([15, 30], [0.6, 0.2])  # zero has no place on a log axis, but in the table
    assert (tolerance["x"], tolerance["y"]) == ([10, 40], [0.01, 0.01])
    assert "the tolerance is 0.01" in figures(text)["landmark_error"]["alt"]
    for other in ({}, {key: values[:1] for key, values in tried.items()}):
        assert "landmark_error" not in figures(render_embedding(about | {"landmark_error": other}, *rest))
    del about["landmark_error"]
    assert "landmark_error" not in figures(render_embedding(about, *rest))
    far = {"error": about["error"] | {"left": 0.5}, "parameters": about["parameters"] | {"tol": 0.01}}
    assert "Tolerance not reached: the estimated error is above 0.01" in Page(render_embedding(about | far, *rest)).text


def test_residuals_of_an_exact_fit_are_drawn(embedded):
    about, *rest = parts(embedded, "nodes")
    (line,) = figures(render_embedding(about | {"residuals": [0.1, 1e-3, 1e-7]}, *rest))["residuals"]["data"]
    assert (line["x"], line["y"]) == ([1, 2, 3], [0.1, 1e-3, 1e-7])


def test_what_comes_from_the_input_is_text_and_never_tags(embedded):
    about, values, sources, targets = parts(embedded, "classes")
    sources = replace(sources, y=np.where(sources.y == "no", NASTY, sources.y), id=np.full(80, NASTY))
    data = about["data"] | {"path": NASTY, "format": NASTY, "label_counts": {NASTY: 1}}
    data["files"] = [{"path": NASTY, "rows": 1, "rejected": 1, "bytes": 1, "fingerprint": NASTY}]
    about |= {"data": data, "kernel": {"name": NASTY}, "steps": [{"step": NASTY, "seconds": 1.0, "peak_bytes": 1}]}
    about["parameters"] |= {"landmarks": NASTY}
    about["recipe"] = {"parameters": {NASTY: NASTY}}
    text = render_embedding(about, values, sources, targets)
    found = Page(text)
    assert not found.named("img") and len(found.named("script")) == 2
    assert not any(name.startswith("on") for _, attrs in found.tags for name in attrs)
    assert NASTY in found.text
    assert "<img" not in json.dumps([figure["data"] for figure in figures(text).values()])


def test_of_many_classes_the_most_frequent_have_a_colour():
    y = np.repeat(np.arange(12), np.arange(2, 14))
    scores = np.arange(2.0 * len(y)).reshape(-1, 2)
    drawn = embedding.scores_figure(embedding.Points(scores, np.arange(len(y)), len(y), "classes", y), "U S", "sources")
    assert [trace["name"] for trace in drawn["data"]] == ["others", *map(str, range(4, 12))]
    assert len({trace["marker"]["color"] for trace in drawn["data"]}) == 9
    assert [len(trace["x"]) for trace in drawn["data"]] == [2 + 3 + 4 + 5, *range(6, 14)]


def test_points_are_thinned_and_read_a_chunk_at_a_time(tmp_path, monkeypatch):
    U = np.random.default_rng(0).random((9000, 8))
    with store.create(tmp_path / "e.zarr", "embedding") as group:
        monkeypatch.setattr("ask_dask.budget.CHUNK_BYTES", 1 << 14)
        monkeypatch.setattr("ask_dask.budget.SHARD_BYTES", 1 << 16)
        for name in ("left", "right"):
            store.create_aligned(group, {name: (U.shape, U.dtype)})[name][...] = U
        store.write_array(group, "singular_values", np.arange(8, 0, -1.0))
    group, most = store.open_store(tmp_path / "e.zarr"), 0
    read = store.read

    def watched(array, start=0, stop=None):
        nonlocal most
        found = read(array, start, stop)
        most = max(most, len(found))
        return found

    monkeypatch.setattr(store, "read", watched)
    sources, _ = embedding.drawn(group)
    assert most <= group["left"].chunks[0] < len(U) / 4
    assert (len(sources.rows), sources.of, sources.scores.shape[1]) == (embedding.MOST_POINTS, 9000, 6)
    assert set(np.diff(sources.rows)) == {1, 2} and (sources.rows[0], sources.rows[-1]) == (0, 8999)
    np.testing.assert_array_equal(sources.scores, (U * np.arange(8, 0, -1.0))[sources.rows, :6])


def test_as_a_step_of_a_job_it_is_written_once(embedded, tmp_path, done):
    job, text = tmp_path / "job.toml", '[[step]]\ndo = "report"\nembedding = "e.zarr"\nto = "e.html"\n'
    job.write_text(text)
    os.symlink(embedded / "classes.zarr", tmp_path / "e.zarr")
    assert [result["skipped"] for result in done("run", job)] == [False]
    assert [result["skipped"] for result in done("run", job)] == [True]
    assert "<h1>Embedding</h1>" in (tmp_path / "e.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("", "give one of --model and --embedding"),
        ("--model values.zarr --embedding values.zarr", "give one of --model and --embedding"),
        ("--embedding values.zarr --predictions p.zarr", "leave them out with --embedding"),
        ("--embedding values.zarr --data d.zarr", "leave them out with --embedding"),
        ("--model values.zarr", "is an embedding store, where a model store is needed"),
        ("--embedding none.zarr", "There is no store at"),
    ],
)
def test_bad_input(embedded, tmp_path, monkeypatch, ask, options, says):
    monkeypatch.chdir(embedded)
    code, out, err = ask("report", "--to", tmp_path / "r.html", "--quiet", *options.split())
    assert (code, out) == (1, "") and err.count("\n") == 1 and says in err, err
    assert not list(tmp_path.iterdir())


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_draws_every_figure_and_nothing_overflows(embedded, tmp_path, browser, width):
    """More classes than colours on one side, with long names, and values on the other."""
    about, values, sources, _ = parts(embedded, "classes")
    *_, targets = parts(embedded, "values")
    sources = replace(sources, y=np.array([f"a_class_with_a_long_name_{i % 11}" for i in range(80)]))
    path = tmp_path / "e.html"
    path.write_text(render_embedding(about, values, sources, targets), encoding="utf-8")
    shots = os.environ.get("ASK_DASK_SHOTS")  # a folder to look at the page in
    found = asyncio.run(browse(browser, path.as_uri(), width, shots and Path(shots, f"embedding {width}.png")))
    assert found["inner"] == width and found["wide"] <= width
    assert found["drawn"] == found["plots"] == 6
    assert found["cut"] == []
    assert found["errors"] == [] and found["loads"] == []

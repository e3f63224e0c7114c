"""fit, predict, score, report and run on graphs, tables and samples, through the command line."""

import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from commands import STOPPED, hidden, refused
from machines import program, wait_until
from pages import Page, figures
from small import QUICK

from ask_dask import AsKLSClassifier, AsKLSRegressor, load, store
from ask_dask.ingest import read_graph
from ask_dask.kernels import DirectedGraph

PATIENT = """
import time
from ask_dask import cli
from ask_dask.store import checkpoint
checkpoint.SECONDS, checkpoint.SHARE = 0, float("inf")
offer = checkpoint.Checkpoint.offer
checkpoint.Checkpoint.offer = lambda *given, **facts: (offer(*given, **facts), time.sleep(0.2))
cli.main()
"""
"""The command, with a checkpoint after each iteration and time to look at it."""


@pytest.fixture
def here(small, tmp_path, monkeypatch):
    """A folder to work in, with links to what was made."""
    for path in small.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit(done, data, to, *more):
    return done("fit", "--data", f"{data}.zarr", "--to", f"{to}.zarr", *QUICK, *more)


def page_of(done, model, *more):
    done("report", "--model", f"{model}.zarr", "--to", f"{model}.html", *more)
    page = Path(f"{model}.html").read_text()
    return Page(page).text, figures(page)


def stored(name, array):
    return store.open_store(f"{name}.zarr")[array][:]


def test_a_graph_exactly(here, done):
    options = ("--exact", "--damping", "1", "--merge", "balanced", "--scoring", "f1_macro", "--gamma", "1")
    found = done("fit", "--data", "g.zarr", "--to", "m.zarr", "--cv", "3", *options)
    assert found["kernel"]["name"] == "DirectedGraph" and found["solver"] == {"name": "dense"}
    done("predict", "--model", "m.zarr", "--data", "more.zarr", "--to", "p.zarr")
    group = store.open_store("g.zarr")
    kernel = DirectedGraph(read_graph(group))
    same = AsKLSClassifier(kernel, 1.0, None, cv=3, merge="balanced", scoring="f1_macro", damping=1, random_state=0)
    same.fit(group["X"][:], group["y"][:])
    nodes, y = np.arange(60, 90), stored("more", "y")
    np.testing.assert_allclose(stored("p", "score"), same.decision_function(nodes), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(stored("p", "row_id"), nodes)  # the numbers of the nodes, not of rows
    scored = done("score", "--predictions", "p.zarr")
    assert scored["accuracy"] == pytest.approx(same.score(nodes, y)) and scored["accuracy"] > 0.6
    page, drawn = page_of(done, "m", "--predictions", "p.zarr")
    for said in (
        "AsKLSClassifier was fitted on 60 nodes of g.zarr, with the DirectedGraph kernel.",
        "The graph has 90 nodes and", "and the model learned the labels of 60 nodes.",
        f"How asymmetric the kernel is: ||K - K'|| / ||K|| = {found['asymmetry']:.4g} (0 is symmetric",
        "It uses gamma = 1 and all training points", "training points, all used 60",
        "The exact system, on all training points, was solved by one dense decomposition.",
        "With damping 1 the condition number is", "kernel DirectedGraph(adjacency = array kernel_",
    ):  # fmt: skip
        assert said in page
    assert "landmarks 60" not in page and "residuals" not in drawn and not hidden(here)


def test_a_graph_on_landmarks_beside_the_exact_solution(here, done):
    found = fit(done, "g", "m", "--n-landmarks", "20,60", "--compare-exact")
    assert found["landmark_error"]["reference"] == "exact, dense"
    for role in ("source", "target"):
        few, every = found["landmark_error"][role]
        assert every < 1e-10 and few > 0.01
    page, drawn = page_of(done, "m")
    assert "landmark_error" in drawn and "The system was solved on landmarks." in page
    assert "Relative error of f (reference: exact, dense)" in page


def test_a_graph_by_minres(here, ask, done):
    found = fit(done, "g", "m", "--exact", "--solver", "minres")
    assert found["solver"]["converged"] and found["solver"]["relative_residual"] <= 1e-8 and not hidden(here)
    fit(done, "g", "direct", "--exact")
    X = store.open_store("more.zarr")["X"][:]
    one, other = (load(f"{name}.zarr").discriminants(X) for name in ("m", "direct"))
    np.testing.assert_allclose(one, other, atol=1e-6)
    page, drawn = page_of(done, "m")
    assert f"was solved by MINRES in {found['solver']['iterations']} iterations, to a relative" in page
    assert len(drawn["residuals"]["data"][0]["y"]) == found["solver"]["iterations"]
    text = ask("info", "m.zarr")[1]
    assert f"({found['solver']['iterations']} in all)" in text and "adjacency:\n    array: kernel_" in text
    assert "indptr" not in text and all(len(line) < 300 for line in text.splitlines())


def test_landmarks_by_minres_from_a_job(here, done):
    job = '[[step]]\ndo = "fit"\ndata = "kind.zarr"\nn_landmarks = 20\ncv = 2\ngamma = 0.5\n'
    Path("job.toml").write_text(f'{job}solver = "minres"\nto = "m.zarr"\n{job}solver = "direct"\nto = "direct.zarr"\n')
    done("run", "job.toml")
    one, other = load("m.zarr"), load("direct.zarr")
    assert one.solver_["converged"] and one.solver_["name"] == other.solver_["name"] == "landmarks"
    X = stored("kind", "X")
    np.testing.assert_allclose(one.discriminants(X), other.discriminants(X), atol=1e-6)
    page, drawn = page_of(done, "m")
    assert f"solved on landmarks by MINRES in {one.solver_['iterations']} iterations" in page
    assert len(drawn["residuals"]["data"][0]["y"]) == one.solver_["iterations"]


def test_a_killed_fit_goes_on_from_its_checkpoint(here, ask, done):
    arguments = ("fit", "--data", "g.zarr", *QUICK, "--exact", "--solver", "minres", "--to")
    process = program(here, PATIENT, *arguments, "m.zarr", "--quiet")
    wait_until(Path(".m.zarr.checkpoint").exists, process=process)
    time.sleep(0.5)
    process.send(signal.SIGTERM)
    assert process.ended() == (2, "", STOPPED)
    assert hidden(here) == [".m.zarr.checkpoint"] and not Path("m.zarr").exists()
    before = store.open_store(".m.zarr.checkpoint", "checkpoint")["residuals"][:].tolist()
    kept = done("status", "m.zarr")["checkpoint"]
    assert (kept["done"], kept["residual"]) == (len(before), before[-1]) and kept["seconds_left"] > 0
    refused(
        ask(*arguments, "m.zarr", "--damping", "1", "--quiet"), ".m.zarr.checkpoint is the checkpoint of another fit"
    )
    after = done(*arguments, "m.zarr")["solver"]["residuals"]
    assert 0 < len(before) < len(after) and after[: len(before)] == before and not hidden(here)
    done(*arguments, "straight.zarr")
    X = store.open_store("more.zarr")["X"][:]
    np.testing.assert_allclose(load("m.zarr").discriminants(X), load("straight.zarr").discriminants(X), atol=1e-6)


JOB = """
[[step]]
do = "ingest"
format = "graph"
files = "edges.txt"
nodes = "nodes.txt"
labels = "train.txt"
to = "made.zarr"

[[step]]
do = "fit"
data = "made.zarr"
to = "m.zarr"
gamma = 0.5
cv = 2
exact = true
solver = "minres"
merge = "balanced"

[[step]]
do = "predict"
model = "m.zarr"
data = "more.zarr"
to = "p.zarr"

[[step]]
do = "score"
predictions = "p.zarr"

[[step]]
do = "report"
model = "m.zarr"
predictions = "p.zarr"
to = "r.html"

[[step]]
do = "fit"
data = "node.zarr"
to = "k.zarr"
kernel = "precomputed"
matrix = "own.zarr"
gamma = 1
n_landmarks = 20
cv = 2
"""


def test_a_job_of_a_graph_and_of_a_matrix(here, ask, done):
    Path("job.toml").write_text(JOB)
    shutil.copytree("K.zarr", "own.zarr")

    def skipped(*more):
        return [step["skipped"] for step in done("run", "job.toml", *more)]

    assert skipped() == [False] * 6 and not hidden(here)
    assert skipped() == [True, True, True, False, True, True]  # scores are printed each time
    zarr.open_array("own.zarr", mode="r+")[0, 0] = 2.0
    code, out, err = ask("run", "job.toml", "--quiet")
    assert code == 1 and out.startswith("n         30\n")  # of the step before, which is done each time
    assert err.startswith("ask-dask: step 6 of 6, fit: k.zarr was made with other parameters or from other")
    assert skipped("--overwrite") == [True, True, True, False, True, False]


def test_a_model_finds_its_matrix_from_any_folder(here, done, monkeypatch):
    fit(done, "node", "k", "--kernel", "precomputed", "--matrix", "K.zarr", "--n-landmarks", "20")
    fit(done, "s", "d", "--n-landmarks", "14")
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    for model, data in (("k", "node"), ("d", "s2")):
        done("predict", "--model", f"../{model}.zarr", "--data", f"../{data}.zarr", "--to", f"{model}.zarr")


def test_a_table_of_real_labels_and_weights(here, ask, done):
    found = fit(done, "light", "m", "--n-landmarks", "30")
    assert found["task"] == "regression" and found["held_out"]["r2"] > 0.2
    X, y, weight = (stored("light", name) for name in ("X", "y", "weight"))
    same, other = (
        AsKLSRegressor(gamma=0.5, n_landmarks=30, cv=2, random_state=0).fit(X, y, w).predict(X) for w in (weight, None)
    )
    done("predict", "--model", "m.zarr", "--data", "light.zarr", "--to", "p.zarr")
    score = stored("p", "score")[:, 0]
    np.testing.assert_allclose(score, same, rtol=1e-5, atol=1e-5)
    assert abs(score - other).max() > 1e-3
    code, out, _ = ask("score", "--predictions", "p.zarr", "--quiet")
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == ["n", "r2", "rmse", "mae"]
    assert float(out.split()[-1]) == pytest.approx(np.average(abs(score - y), weights=weight), abs=1e-6)
    page, drawn = page_of(done, "m", "--predictions", "p.zarr")
    assert "AsKLSRegressor was fitted on 80 rows and 4 features" in page and "R² ↑" in page and "predicted" in drawn
    assert f"kernel SNE(bandwidth = {found['kernel']['bandwidth']:.4g}" in page


def test_a_table_of_several_labels_and_one_of_names(here, done):
    assert fit(done, "counts", "c", "--task", "regression", "--n-landmarks", "20")["n_outputs"] == 2
    for data, task, width in (("multi", "multilabel", 2), ("kind", "classification", 2)):
        found = fit(done, data, data + "-m", "--n-landmarks", "30", "--class-weight", "balanced")
        assert found["task"] == task and found["parameters"]["class_weight"] == "balanced"
        done("predict", "--model", f"{data}-m.zarr", "--data", f"{data}.zarr", "--to", f"{data}-p.zarr")
        p, y = stored(f"{data}-p", "probability"), stored(data, "y")
        assert p.shape == (80, width)
        right = (p > 0.5) == y if data == "multi" else np.array(["no", "yes"])[p.argmax(1)] == y
        scored = done("score", "--predictions", f"{data}-p.zarr")
        assert scored["accuracy"] == pytest.approx(right.reshape(80, -1).all(1).mean()) and scored["accuracy"] > 0.7
        page, _ = page_of(done, f"{data}-m", "--predictions", f"{data}-p.zarr")
        assert ("Scores of each label, test" in page) == (data == "multi") and "AUROC" in page


def test_samples_by_their_divergence(here, ask, done):
    found = fit(done, "s", "m", "--n-landmarks", "14", "--scale", "0.5")
    assert found["kernel"]["name"] == "ExpNegative" and found["kernel"]["scale"] == 0.5
    done("predict", "--model", "m.zarr", "--data", "s2.zarr", "--to", "p.zarr")
    assert stored("p", "row_id").tolist() == list(range(14, 20))
    assert done("score", "--predictions", "p.zarr")["accuracy"] > 0.8
    error = found["data"]["mean_standard_error"]
    for name in ("s", "m"):
        assert f"mean_standard_error: {error}" in ask("info", f"{name}.zarr")[1]
    page, _ = page_of(done, "m")
    assert "was fitted on 14 items of s.zarr, with exp(-0.5 D), D being a precomputed matrix." in page
    assert f"with a standard error of {error:.4g} on average." in page
    same = fit(done, "s", "again", "--kernel", "kl", "--exact", "--symmetrise", "mean")
    assert same["asymmetry"] == 0.0 < found["asymmetry"]


@pytest.mark.parametrize(
    ("data", "kernel"),
    [
        ("real", ("local-rbf", "--neighbours", "3")),
        ("real", ("conditional-probability",)),
        ("real", ("kl", "--scale", "2")),
        ("real", ("kl-gaussian",)),
        ("node", ("precomputed", "--matrix", "K.zarr")),
        ("g", ("graph", "--normalise", "out-degree", "--no-self-loops")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_each_asymmetric_kernel_and_what_is_left_of_it_when_symmetrised(here, done, data, kernel):
    X = stored(data, "X")[:9]
    for how in (None, "mean", "K'K", "KK'"):
        more = ("--symmetrise", how) if how else ()
        away = ("--damping", "0.1")  # on so few rows a resonance is near somewhere, and is warned of
        found = fit(done, data, "m", "--kernel", *kernel, "--n-landmarks", "16", "--overwrite", *away, *more)
        source, target = np.split(load("m.zarr").discriminants(X), 2, axis=1)
        alike = np.allclose(source, target, atol=1e-8)
        assert (found["asymmetry"] == 0.0, alike, found["kernel"].get("how")) == (bool(how), bool(how), how)


def test_help_of_fit_is_in_groups(ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = ask("fit", "--help")
    places = [out.index(f"─ {title}") for title in ("Kernel", "What is learned", "Landmarks", "Exact", "Solver")]
    assert code == 0 and places == sorted(places)
    assert places[0] < out.index("--bandwidth") < places[1] < out.index("--gamma") < places[2] < out.index("--exact ")

import asyncio
import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from ask_dask import store
from ask_dask.errors import StoreError
from ask_dask.report import render, write_report
from ask_dask.report.figures import spectrum_figure
from ask_dask.score import Scores, curves, summary

NASTY = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>.csv'
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def scores(n=4000, n_classes=2, seed=0, signal=1.2):
    """Metrics and curves as a fit keeps them."""
    rng = np.random.default_rng(seed)
    codes = (rng.random(n) < 0.26).astype(int) if n_classes == 2 else rng.integers(0, n_classes, n)
    raw = rng.normal(size=(n, n_classes)) + signal * (codes[:, None] == np.arange(n_classes))
    raw[:, 0] += 1.0
    p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    block = Scores.of(codes, raw if n_classes > 2 else raw[:, 1] - raw[:, 0], p, n_classes)
    labels = list(range(n_classes))
    return summary(block, labels) | curves(block, labels)


def facts(n_classes=2, **other):
    """What a model store says of itself."""
    gammas, counts = [0.01, 0.1, 1.0, 10.0, 100.0], [100, 300, 1000]
    pairs = list(product(gammas, counts))
    auroc = [0.74 + 0.012 * np.log10(m) - 0.006 * (np.log10(g) - 0.4) ** 2 for g, m in pairs]
    sigma = spectrum()
    return {
        "estimator": "AsKLSClassifier",
        "parameters": {
            "kernel": {"name": "sne", "bandwidth": 12.5}, "gamma": gammas, "n_landmarks": counts, "cv": 5,
            "ridge": 0.0, "damping": None, "merge": "stack", "random_state": 0,
        },
        "gamma": 1.0, "n_landmarks": 1000, "classes": list(range(n_classes)), "n_features": 39, "n_rows": 4_000_000,
        "dtype": "float32",
        "data": {
            "path": "/data/criteo/day_0.zarr", "fingerprint": "8d3c51a09be24a7f8d3c51a09be24a7f", "format": "criteo",
            "n_rows": 4_000_000,
            "files": [
                {"path": f"/data/criteo/raw/part-{i:03d}.tsv.gz", "rows": 1_000_000, "rejected": 3 + i,
                 "bytes": 240 << 20, "fingerprint": f"{i}a0b1c2d3e4f5a6b7c8d9"} for i in range(4)
            ],
            "rejected": {
                "count": 18, "by_reason": {"39 tabs expected, 12 found": 11, "the label is not a number": 7},
                "first": [{"file": "/data/criteo/raw/part-000.tsv.gz", "line": 1234 * (i + 1),
                           "reason": "39 tabs expected, 12 found"} for i in range(4)],
            },
            "label_counts": {"0": 2_970_000, "1": 1_030_000},
        },
        "steps": [
            {"step": "ingest", "seconds": 312.4, "peak_bytes": 1 << 30},
            {"step": "landmarks", "seconds": 4.1, "peak_bytes": 600 << 20},
            {"step": "moments", "seconds": 401.9, "peak_bytes": 1900 << 20},
            {"step": "solve", "seconds": 12.7, "peak_bytes": 1500 << 20},
        ],
        "resonance": {
            "gamma": 1.0, "sigma": float(sigma[np.abs(sigma - 1).argmin()]), "gap": 0.004, "condition_number": 2.1e5,
            "nearest": [float(s) for s in sigma[np.argsort(np.abs(sigma - 1))[:3]]], "treatment": "none",
            "safe_gamma": 1.18,
            "warning": "gamma = 1 is 0.4 % away from a resonance (condition number 2.1e+05): use gamma = 1.18, "
                       "damping or ridge.",
        },
        "scoring": "roc_auc",
        "cv_results": {
            "param_gamma": [g for g, _ in pairs], "param_n_landmarks": [m for _, m in pairs],
            "mean_test_roc_auc": auroc, "std_test_roc_auc": [0.0015] * len(pairs),
            "mean_test_log_loss": [0.47] * len(pairs), "std_test_log_loss": [0.001] * len(pairs),
            "rank_test_score": list(range(1, len(pairs) + 1)),
        },
        "held_out": scores(n_classes=n_classes),
        "made_by": {"time": "2026-01-05T10:20:30Z", "python": "3.12.1", "ask_dask": "0.1.0", "numpy": "2.4.6"},
    } | other  # fmt: skip


def spectrum(r=1000):
    return 40 * np.arange(1, r + 1) ** -1.1


def new_rows(**other):
    return {"data": "/data/criteo/day_1.zarr", "data_fingerprint": "other", **scores(seed=1, signal=1.1)} | other


def model(path, values=None, **other):
    with store.create(path, "model") as group:
        store.describe(group, **(facts() | other))
        store.write_array(group, "singular_values", spectrum() if values is None else values)
    return store.open_store(path, "model")


class Page(HTMLParser):
    """Tags, their attributes, and the text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self._hidden = [], "", False
        self.feed(page)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._hidden = False

    def handle_data(self, data):
        self.text += "" if self._hidden else data

    def named(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def figures(page):
    """The figures of a page, as the script in it reads them."""
    start = page.rindex("const figures = ") + len("const figures = ")
    return json.JSONDecoder().raw_decode(page[start:])[0]


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
    assert set(drawn) == {"roc", "calibration", "gamma", "landmarks", "spectrum", "seconds", "peak_bytes"}
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
    drawn = figures(render(facts(cv_results=results, scoring="neg_log_loss"), spectrum()))["gamma"]
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
    assert path.read_text() == "mine"
    assert write_report(group, path, overwrite=True).read_text(encoding="utf-8") != "mine"


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    group = model(tmp_path / "m.zarr")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"^Cannot write .*r\.html: .*; choose another place\.$"):
        write_report(group, tmp_path / "file" / "r.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match=r"^Cannot write .*folder: .*; choose another place"):
        write_report(group, tmp_path / "folder", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder", "m.zarr"]


async def browse(port, url, width, picture=None):
    """Load a page as a screen of that width; what was drawn, what overflowed and what went wrong."""
    from tornado.httpclient import HTTPRequest
    from tornado.websocket import websocket_connect

    new = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
    address = json.load(urllib.request.urlopen(new))["webSocketDebuggerUrl"]
    socket_ = await websocket_connect(HTTPRequest(address), max_message_size=1 << 28)
    events, sent = [], 0

    async def tell(method, **params):
        nonlocal sent
        sent += 1
        await socket_.write_message(json.dumps({"id": sent, "method": method, "params": params}))
        while True:
            said = json.loads(await socket_.read_message() or "{}")
            if said.get("id") == sent:
                return said["result"]
            events.append(said)

    for domain in ("Page", "Runtime", "Log", "Network"):
        await tell(f"{domain}.enable")
    await tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    await tell("Page.navigate", url=url)
    script = """new Promise(done => { const look = () => document.readyState == 'complete' ? setTimeout(() => done(
        JSON.stringify({
            drawn: [...document.querySelectorAll('.plot')].filter(p => p.querySelector('svg .xy path')).length,
            cut: [...document.querySelectorAll('.plot')].flatMap(p => [...p.querySelectorAll('svg text')].filter(t => {
                const a = t.getBoundingClientRect(), b = p.getBoundingClientRect();
                return a.width && (a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1
                    || a.bottom > b.bottom + 1); }).map(t => t.textContent)),
            plots: document.querySelectorAll('.plot').length, inner: innerWidth,
            wide: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight})), 800)
        : setTimeout(look, 50); look(); })"""
    found = json.loads((await tell("Runtime.evaluate", expression=script, awaitPromise=True))["result"]["value"])
    if picture:
        clip = {"x": 0, "y": 0, "width": width, "height": found["height"], "scale": 1}
        shot = await tell("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        picture.write_bytes(base64.b64decode(shot["data"]))
    socket_.close()
    found["errors"] = [e for e in events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
    asked = (e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent")
    found["loads"] = [u for u in asked if not u.startswith(("data:", "blob:")) and u != url]
    return found


@pytest.fixture
def browser(tmp_path):
    """The debugging port of a headless Chromium."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine to look at the page with")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
               "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
               f"--user-data-dir={tmp_path}/profile", f"--remote-debugging-port={port}", "about:blank"]  # fmt: skip
    process = subprocess.Popen([CHROMIUM, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(150):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/json/version", timeout=1)
                break
            except OSError:
                time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["two classes", "many classes", "long names"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_draws_every_figure_and_nothing_overflows(tmp_path, browser, width, kind):
    other = {"two classes": {}, "many classes": {"held_out": scores(n_classes=6)}, "long names": long_names()}[kind]
    test = new_rows() if kind == "two classes" else None
    path = write_report(model(tmp_path / "m.zarr", **other), tmp_path / "r.html", test=test)
    shots = os.environ.get("ASK_DASK_SHOTS")  # a folder to look at the page in
    found = asyncio.run(browse(browser, path.as_uri(), width, shots and Path(shots, f"{kind} {width}.png")))
    assert found["inner"] == width and found["wide"] <= width
    assert found["drawn"] == found["plots"] == 7
    assert found["cut"] == []
    assert found["errors"] == [] and found["loads"] == []


def long_names():
    """Names that do not fit, of files, classes, steps and parameters."""
    long = "a_name_that_is_much_longer_than_a_phone_is_wide_" * 3
    held_out = scores(n_classes=3)
    for key in ("roc", "calibration"):
        held_out[key] = [curve | {"class": long} for curve in held_out[key]]
    steps = [{"step": long, "seconds": 1.0, "peak_bytes": 1 << 30}]
    data = facts()["data"] | {"path": f"/{long}", "label_counts": {long: 3}}
    data["files"] = [{"path": long, "rows": 1, "rejected": 1, "bytes": 1, "fingerprint": long}]
    data["rejected"] = {"count": 1, "by_reason": {long: 1}, "first": [{"file": long, "line": 1, "reason": long}]}
    return {"held_out": held_out, "steps": steps, "data": data, "parameters": {long: long}, "estimator": long}

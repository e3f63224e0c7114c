"""What the tests of the report share: facts of a model, a page taken apart, and a real browser to look at it with."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pytest

from ask_dask import store
from ask_dask.score import Scores, curves, summary

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
            "kernel": "SNE", "gamma": gammas, "n_landmarks": counts, "cv": 5,
            "ridge": 0.0, "damping": None, "merge": "stack", "random_state": 0,
        },
        "kernel": {"name": "sne", "bandwidth": 12.5}, "gamma": 1.0, "n_landmarks": 1000,
        "classes": list(range(n_classes)), "n_features": 39, "n_rows": 4_000_000,
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
    """Tags, their attributes, and the text outside scripts and styles, cells of a table apart."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self._hidden = [], "", False
        self.feed(page)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag in ("script", "style")
        self.text += " " if tag in ("td", "th", "dt", "dd") else ""

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


async def browse(port, url, width, picture=None):
    """Load a page as a screen of that width; what was drawn, what overflowed and what went wrong."""
    from tornado.httpclient import HTTPRequest
    from tornado.websocket import websocket_connect

    new = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
    tab = json.load(urllib.request.urlopen(new))
    socket_ = await websocket_connect(HTTPRequest(tab["webSocketDebuggerUrl"]), max_message_size=1 << 28)
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
    urllib.request.urlopen(f"http://127.0.0.1:{port}/json/close/{tab['id']}")  # each takes 160 MB
    found["errors"] = [e for e in events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
    asked = (e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent")
    found["loads"] = [u for u in asked if not u.startswith(("data:", "blob:")) and u != url]
    return found


@contextmanager
def chromium(folder):
    """The debugging port of a headless Chromium that keeps its profile in the folder."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine to look at the page with")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
               "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
               f"--user-data-dir={folder}/profile", f"--remote-debugging-port={port}", "about:blank"]  # fmt: skip
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

"""Every step and every option that reads or writes a place, on S3 as on a disk (run with -m slow)."""

import gzip
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pytest
import zarr
from buckets import SECRET, objects
from small import QUICK

from ask_dask import store
from ask_dask.ingest.formats import AVAZU
from ask_dask.ingest.synthetic import make_criteo
from ask_dask.store import places

RNG = np.random.default_rng(0)


def raw_files():
    """A click log of both kinds, sparse rows, a table of each kind, and samples, in this folder."""
    make_criteo("train.txt", 600)
    Path("train.txt.gz").write_bytes(gzip.compress(Path("train.txt").read_bytes()))
    make_criteo("new.txt", 200, first=600)
    names = list(dict.fromkeys(("id", "click", "hour", *AVAZU.columns(True))))
    cells = RNG.integers(0, 9, (300, len(names) - 3))
    rows = (f"{i},{i % 2},141021{i % 24:02}," + ",".join(f"a{cell}" for cell in row) for i, row in enumerate(cells))
    Path("avazu.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    X = RNG.random((150, 2)).round(4)
    y = (X[:, 0] > X[:, 1]).astype(int)
    Path("points.svm").write_text("".join(f"{k} 1:{a} 3:{b}\n" for (a, b), k in zip(X, y, strict=True)))
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    table.to_csv("table.csv.gz", index=False)
    table.to_parquet("table.parquet")
    pd.DataFrame({"node": np.arange(150), "y": y}).to_csv("nodes.csv", index=False)
    Path("points.txt").write_text("".join(f"i{i % 12} {i % 2} {a} {b}\n" for i, (a, b) in enumerate(X)))
    Path("labels.txt").write_text("".join(f"i{i} {i % 2}\n" for i in range(12)))
    np.save("K.npy", np.exp(-((X[:, None] - X) ** 2).sum(2) * (1 + 3 * X[:, :1])))


STEPS = {
    "clicks.zarr": "ingest criteo {}/train.txt.gz --buckets 64",
    "new.zarr": "ingest criteo {}/new.txt --encoder {}/clicks.zarr",
    "avazu.zarr": "ingest avazu {}/avazu.csv --buckets 64",
    "made.zarr": "make criteo --rows 500 --store --buckets 64",
    "more.zarr": "make criteo --rows 200 --first 500 --store --encoder {}/made.zarr",
    "sparse.zarr": "ingest svmlight {}/points.svm",
    "table.zarr": "ingest table {}/table.parquet --label y",
    "text.zarr": "ingest table {}/table.csv.gz --label y",
    "nodes.zarr": "ingest table {}/nodes.csv --label y",
    "samples.zarr": "ingest samples {}/points.txt --labels {}/labels.txt --components 1 --draws 50",
    "matrix.zarr": "fit --data {}/nodes.zarr --kernel precomputed --matrix {}/K.zarr --n-landmarks 20",
    "items.zarr": "fit --data {}/samples.zarr --exact",
    "processes.zarr": "fit --data {}/clicks.zarr --bandwidth 9 --n-landmarks 20 --cluster processes --workers 1",
    "predictions.zarr": "predict --model {}/processes.zarr --data {}/new.zarr --cluster processes --workers 1",
    "embedding.zarr": "embed --data {}/table.zarr --bandwidth 1 --n-components 3 --n-landmarks 20",
    "all.zarr": "embed --data {}/table.zarr --bandwidth 1 --n-components 3 --exact",
    "embedding.html": "report --embedding {}/embedding.zarr",
}
"""What makes each thing of what lies in a folder, in an order in which each finds what it needs."""

JOB = """
[[step]]
do = "ingest"
format = "table"
files = ["{0}/table.parquet"]
label = ["y"]
to = "{0}/job-data.zarr"

[[step]]
do = "fit"
data = "{0}/job-data.zarr"
to = "{0}/job-model.zarr"
gamma = [0.5]
cv = 2
n_landmarks = [20]
bandwidth = 1

[[step]]
do = "predict"
model = "{0}/job-model.zarr"
data = "{0}/job-data.zarr"
to = "{0}/job-predictions.zarr"

[[step]]
do = "report"
model = "{0}/job-model.zarr"
predictions = "{0}/job-predictions.zarr"
to = "{0}/job.html"
"""


def same(one, other):
    """Every array of two stores is equal."""
    first, second = (dict(store.open_store(path).members(max_depth=None)) for path in (one, other))
    assert set(first) == set(second)
    arrays = [name for name, found in first.items() if isinstance(found, zarr.Array)]
    for name in arrays:
        np.testing.assert_array_equal(first[name][:], second[name][:], err_msg=f"{one}/{name}")
    return bool(arrays)


def known_by(path):
    return store.about(store.open_store(path))["fingerprint"]


@pytest.fixture
def places_of_both(s3, tmp_path, monkeypatch):
    """This folder and the URL of a bucket, with the same files and matrix in both."""
    monkeypatch.chdir(tmp_path)
    raw_files()
    K = np.load("K.npy")
    for file in Path().iterdir():
        fsspec.filesystem("s3").put_file(str(file), f"{s3}/{file.name}")
    for base in (".", s3):
        zarr.create_array(store.zarr_store(store.located(f"{base}/K.zarr")), data=K, chunks=(50, 150))
    return ".", s3


@pytest.mark.slow
def test_every_step_against_s3_is_the_step_on_a_disk(places_of_both, done):
    """python -m pytest -m slow tests/test_s3_steps.py"""
    for base in places_of_both:
        for name, command in STEPS.items():
            quick = QUICK if command.startswith("fit") else ()
            done(*command.format(*[base] * 2).split(), *quick, "--to", f"{base}/{name}")
    here, there = places_of_both
    for name in (name for name in STEPS if name.endswith(".zarr")):
        one, other = f"{here}/{name}", f"{there}/{name}"
        assert same(one, other) and not done("verify", other)["problems"]
        if name not in ("matrix.zarr", "items.zarr"):  # known by where their matrices are and when they were written
            assert known_by(one) == known_by(other), name
    assert fsspec.filesystem("s3").size(f"{there}/embedding.html") > 1e6
    nothing_left(there)


@pytest.mark.slow
def test_iterations_go_on_from_a_checkpoint_on_s3(places_of_both, ask, done):
    """Those of a fit that was allowed too few. python -m pytest -m slow tests/test_s3_steps.py"""
    for base in places_of_both:
        done("ingest", "svmlight", f"{base}/points.svm", "--to", f"{base}/d.zarr")
        fit = ("fit", "--data", f"{base}/d.zarr", *QUICK, "--bandwidth", "0.1", "--exact", "--solver", "minres",
               "--preconditioner", "0", "--to", f"{base}/m.zarr")  # fmt: skip
        code, _, err = ask(*fit, "--max-iter", "4", "--quiet")
        assert code == 0 and "minres stopped after 4 iterations" in err
        few = iterations(f"{base}/m.zarr")
        assert len(few) == 4 and set(objects(f"{base}/.m.zarr.checkpoint")) > {"zarr.json"}
        done(*fit, "--overwrite")
        every = iterations(f"{base}/m.zarr")
        assert len(every) > 10 and every[:4] == few and not objects(f"{base}/.m.zarr.checkpoint")
    here, there = places_of_both
    assert same(f"{here}/m.zarr", f"{there}/m.zarr")
    nothing_left(there)


def iterations(path):
    """The residual after each iteration of a fit."""
    return store.about(store.open_store(path))["solver"]["residuals"]


@pytest.mark.slow
def test_a_job_on_s3_is_run_once(places_of_both, done):
    """python -m pytest -m slow tests/test_s3_steps.py"""
    for base in places_of_both:
        Path("job.toml").write_text(JOB.format(base))
        first, second = (done("run", "job.toml") for _ in range(2))
        assert [[step["skipped"] for step in run] for run in (first, second)] == [[False] * 4, [True] * 4]
    for name in ("data", "model", "predictions"):
        one, other = (f"{base}/job-{name}.zarr" for base in places_of_both)
        assert same(one, other) and known_by(one) == known_by(other)
    nothing_left(places_of_both[1])


def nothing_left(url):
    """No secret, and nothing of a writer or of a checkpoint."""
    fs, bucket = places.opened(url)
    assert SECRET.encode() not in b"".join(fs.cat(fs.find(bucket)).values())
    left = {name for name in objects(url) if name.startswith(".") or "/lease-" in name}
    assert not left, left

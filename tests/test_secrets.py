"""Secrets in URLs are never printed, stored or reported; names from input stay in their store."""

import json
import logging
import pickle

import fsspec
import numpy as np
import pytest
import zarr
from commands import refused
from small import QUICK

from ask_dask import AsKLSClassifier, store
from ask_dask.errors import AskDaskError, InputError, StoreError, mask
from ask_dask.ingest.synthetic import make_criteo
from ask_dask.store import listing

SECRETS = ("hunter2", "wJalr/XUtn", "tok3n", "s1gn")
HOST = "memory://me:hunter2@host"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://AKIA:wJalr/XUtn@bucket/a.zarr", "s3://***@bucket/a.zarr"),
        ("https://me:hunter2@host:8443/a/b.csv", "https://***@host:8443/a/b.csv"),
        ("https://tok3n@host/a.csv", "https://***@host/a.csv"),
        ("https://host/a.csv?sv=1&sig=s1gn", "https://host/a.csv?***"),
        ("ftp://me:hun@hunter2@host/a", "ftp://***@host/a"),
        ("memory://host/a", "memory://host/a"),
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
        ("/data/a@b?c", "/data/a@b?c"),
    ],
)
def test_what_is_shown_of_a_url(url, shown):
    assert mask(url) == str(store.located(url)) == f"{store.located(url)}" == shown
    for slashes in (":/", ":///"):  # a Path of it has one, and fsspec's name for it three
        assert mask(url.replace("://", slashes)) == shown.replace("://", slashes)
    said = f"There is no store at {url}: check the path."
    for kind in (AskDaskError, InputError, StoreError):
        error = pickle.loads(pickle.dumps(kind(said)))  # as it comes from a worker
        assert str(error) == said.replace(url, shown) and shown in repr(error)


def put(name, text):
    with fsspec.open(f"{HOST}/{name}", "wb") as file:
        file.write(text)
    return f"{HOST}/{name}"


def safe(*texts):
    for text in texts:
        assert not [secret for secret in SECRETS if secret in text], text
    return True


def test_nothing_of_a_job_tells_the_secrets_of_its_inputs(tmp_path, ask, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    make_criteo("train.txt", 1500)
    url = put("train.txt?token=tok3n", (tmp_path / "train.txt").read_bytes())
    for command in (
        ("ingest", "criteo", url, "--to", "data.zarr", "--buckets", "64"),
        ("fit", "--data", "data.zarr", *QUICK, "--n-landmarks", "20", "--bandwidth", "9", "--to", "model.zarr"),
        ("predict", "--model", "model.zarr", "--data", url, "--to", "out.zarr"),
        ("report", "--model", "model.zarr", "--predictions", "out.zarr", "--to", "page.html"),
        ("info", "data.zarr"), ("info", "model.zarr"), ("verify", "out.zarr"),
    ):  # fmt: skip
        for more in (("--json", "--verbose"), ("--overwrite",) if "--to" in command else ()):
            code, out, err = ask(*command, *more)
            assert code == 0 and safe(out, err), err
    kept = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(kept) > 50 and not [secret for secret in SECRETS for content in kept if secret.encode() in content]
    assert b"***@host/train.txt" in (tmp_path / "page.html").read_bytes()
    assert safe(caplog.text)


def test_nothing_of_a_job_tells_the_secrets_of_its_stores_and_its_file(tmp_path, ask, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_criteo("train.txt", 600)
    put("train.txt", (tmp_path / "train.txt").read_bytes())
    job = put("job.toml", TOLD.encode())
    for command in (
        ("run", job, "--json", "--verbose"), ("run", job, "--log", "json"),  # then all is complete
        ("score", "--predictions", f"{HOST}/out.zarr", "--data", f"{HOST}/data.zarr", "--json"),
        ("report", "--model", f"{HOST}/model.zarr", "--predictions", f"{HOST}/out.zarr", "--to", "page.html"),
        ("info", f"{HOST}/model.zarr"), ("verify", f"{HOST}/out.zarr"), ("status", f"{HOST}/out.zarr", "--json"),
    ):  # fmt: skip
        code, out, err = ask(*command)
        assert code == 0 and safe(out, err), err
    fs, place = store.opened(HOST)
    kept = [fs.cat_file(name) for name in fs.find(place) if not name.endswith("job.toml")]
    kept.append((tmp_path / "page.html").read_bytes())
    assert len(kept) > 50 and not [secret for secret in SECRETS for content in kept if secret.encode() in content]
    damaged = next(name for name in fs.find(f"{place}/data.zarr") if "/X/c/" in name)
    fs.pipe_file(damaged, fs.cat_file(damaged)[:50] + b"?" + fs.cat_file(damaged)[51:])
    code, out, err = ask("verify", f"{HOST}/data.zarr")
    assert code == 1 and "/X is damaged" in out and safe(out, err)
    code, out, err = ask("fit", "--data", f"{HOST}/data.zarr", *QUICK, "--n-landmarks", "20", "--to", f"{HOST}/m.zarr")
    assert code == 1 and "/X is damaged" in err and safe(out, err)


def test_a_job_script_keeps_no_secret(ask):
    for url in ("s3://AKIA:wJalr/XUtn@bucket/d.zarr", "https://host/d.zarr?sig=s1gn"):
        result = ask("cluster", "script", "slurm", "--", "fit", "--data", url, "--to", "m.zarr")
        assert refused(result, "give credentials in environment variables") and safe(result[2])


def test_a_graph_and_its_files_beside(tmp_path, ask, monkeypatch):
    monkeypatch.chdir(tmp_path)
    edges, nodes = put("e.txt?sig=s1gn", b"a b\nb c\n"), put("n.txt?sig=s1gn", b"a\nb\nc\n")
    labels = put("l.txt?sig=s1gn", b"a 1\nb 2\n")
    code, out, err = ask("ingest", "graph", edges, "--nodes", nodes, "--labels", labels, "--to", "g.zarr", "--json")
    assert code == 0 and safe(out, err, json.dumps(store.about(store.open_store("g.zarr"))))
    few = put("few.txt?sig=s1gn", b"a\n")
    result = ask("ingest", "graph", edges, "--nodes", few, "--to", "h.zarr", "--quiet")
    assert refused(result, "node 'b' is not in few.txt") and safe(result[2])


TOLD = """
[[step]]
do = "ingest"
format = "criteo"
files = ["train.txt"]
to = "data.zarr"
buckets = 64

[[step]]
do = "fit"
data = "data.zarr"
to = "model.zarr"
gamma = [0.5]
cv = 2
n_landmarks = [20]
bandwidth = 9

[[step]]
do = "predict"
model = "model.zarr"
data = "memory://me:hunter2@host/data.zarr"
to = "out.zarr"

[[step]]
do = "report"
model = "model.zarr"
predictions = "out.zarr"
to = "page.html"
"""
JOB = '[[step]]\ndo = "ingest"\nformat = "criteo"\nfiles = ["{url}"]\nto = "d.zarr"\n'


@pytest.mark.parametrize(
    "command",
    [
        ("ingest", "criteo", f"{HOST}/nowhere", "--to", "x.zarr"),
        ("ingest", "criteo", "nosuch://AKIA:wJalr/XUtn@host/a?sig=s1gn", "--to", "x.zarr"),
        ("ingest", "table", f"{HOST}/nowhere.parquet?token=tok3n", "--to", "x.zarr"),
        ("fit", "--data", "nosuch://me:hunter2@host/a", "--to", "x.zarr"),
        ("fit", "--data", "nosuch://me:hunter2@host/a", "--to", "x.zarr", "--gama", "s3://me:hunter2@host/a"),
        ("fit", "--data", "s3://me:hunter2@host/a", "--to", "x.zarr", "--kernel", "s3://me:hunter2@host/a"),
        ("predict", "--model", "x.zarr", "--data", f"{HOST}/nowhere", "--to", "nosuch://me:hunter2@h/x"),
        ("report", "--model", "nosuch://me:hunter2@host/a?token=tok3n", "--to", "x.html"),
        ("info", "nosuch://me:hunter2@host/a"),
        ("verify", "nosuch://me:hunter2@host/a"),
        ("demo", "--to", "nosuch://me:hunter2@host/a"),
        ("make", "criteo", "--rows", "10", "--to", "nosuch://me:hunter2@host/a"),
        ("run", "job.toml"),
        ("run", f"{HOST}/nowhere.toml"),
        ("run", "nosuch://AKIA:wJalr/XUtn@host/job.toml"),
    ],
)
def test_no_refusal_tells_a_secret(tmp_path, ask, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB.replace("{url}", f"{HOST}/nowhere?token=tok3n"))
    code, out, err = ask(*command)
    assert code == 1 and out + err and safe(out, err)


@pytest.mark.parametrize("user", ["AKIA:wJalr/XUtn", "me:hunter2"])
def test_what_s3_says_of_a_url_tells_no_secret(s3, tmp_path, ask, monkeypatch, user):
    """It takes what comes before the first slash for the bucket, and says so."""
    monkeypatch.chdir(tmp_path)
    url = s3.replace("://", f"://{user}@") + "/t.txt"
    for command in (("info", url), ("status", url), ("run", url), ("ingest", "criteo", url, "--to", "x.zarr"),
                    ("ingest", "criteo", f"{s3}/t.txt?sig=s1gn", "--to", "x.zarr"), ("info", f"{s3}/m.zarr?sig=s1gn"),
                    ("make", "criteo", "--rows", "10", "--to", f"{url}.zarr", "--store")):  # fmt: skip
        code, out, err = ask(*command)
        assert code == 1 and out + err and safe(out, err)


def test_a_model_keeps_no_secret_of_its_checkpoint(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = AsKLSClassifier(gamma=1.0, cv=2, random_state=0, checkpoint="memory://me:hunter2@host/kept")
    model.fit(X, X[:, 0] > 0).save(tmp_path / "m.zarr")
    assert safe((tmp_path / "m.zarr" / "zarr.json").read_text())
    assert store.about(store.open_store(tmp_path / "m.zarr"))["parameters"]["checkpoint"].endswith("host/kept")


def test_names_from_a_store_do_not_lead_out_of_it(tmp_path):
    zarr.save_array(tmp_path / "outside", np.ones(3))
    with store.create(tmp_path / "s.zarr", "dataset") as group:
        store.write_array(group, "x", np.zeros(3))
    group = store.open_store(tmp_path / "s.zarr")
    for name in ("../outside", "/../outside", "x/../../outside", "..", "a/./b", "a\\..\\b"):
        for get in (store.array, store.subgroup):
            with pytest.raises(StoreError, match=r"has no (array|group)"):
                get(group, name)
    listed = store.about(group)["listed"] | {"../outside/zarr.json": [1, None], "x/../../outside/zarr.json": [1, None]}
    writable = zarr.open_group(tmp_path / "s.zarr")
    store.describe(writable, listed=listed)
    store.describe(writable, seal=listing._seal(store.about(writable)))
    with pytest.raises(StoreError, match=r"s\.zarr is damaged, .*outside/zarr.json is missing"):
        store.open_store(tmp_path / "s.zarr")


def test_names_in_raw_files_do_not_become_paths(tmp_path, done, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("../../y,/etc/x,a b,..\n1,2,3,4\n0,2,5,6\n")
    (tmp_path / "e.txt").write_text("../../a ../b\n../b /etc/passwd\n")
    (tmp_path / "p.txt").write_text("../../i 1\n../../i 2\n/j 3\n/j 4\n")
    done("ingest", "table", "t.csv", "--label", "../../y", "--to", "deep/t.zarr")
    done("ingest", "graph", "e.txt", "--to", "deep/g.zarr")
    done("ingest", "samples", "p.txt", "--components", "1", "--draws", "9", "--to", "deep/s.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "e.txt", "p.txt", "t.csv"]
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["g.zarr", "s.zarr", "t.zarr"]
    assert store.about(store.open_store("deep/t.zarr"))["feature_names"] == ["/etc/x", "a b", ".."]
    for path in ("deep/t.zarr", "deep/g.zarr", "deep/s.zarr"):
        assert not done("verify", path)["problems"]


def test_the_log_tells_no_secret(caplog):
    with caplog.at_level(logging.DEBUG, "ask_dask"), pytest.raises(StoreError):
        store.open_store("nosuch://me:hunter2@host/a")
    assert safe(caplog.text)

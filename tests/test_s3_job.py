"""The whole job against an S3 server: as on a disk, through failures of storage, and after it was killed."""

import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

import fsspec
import numpy as np
import pytest
from buckets import SECRET, connect, objects
from proxy import FAULTS, Proxy
from small import QUICK

from ask_dask import store
from ask_dask.ingest.synthetic import make_criteo
from ask_dask.store import leases, places

RNG = np.random.default_rng(0)


@pytest.mark.slow
def test_the_whole_job_against_s3_is_the_job_on_a_disk(s3, tmp_path, done, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_criteo("train.txt", 1500)
    make_criteo("new.txt", 400, first=1500)
    fsspec.filesystem("s3").put("*.txt", s3)
    found = {}
    for base in (".", s3):
        data, model, out = (f"{base}/{name}.zarr" for name in ("data", "model", "predictions"))
        done("ingest", "criteo", f"{base}/train.txt", "--to", data, "--buckets", "256")
        done("fit", *QUICK, "--n-landmarks", "20", "--bandwidth", "20", "--data", data, "--to", model)
        done("predict", "--model", model, "--data", f"{base}/new.txt", "--to", out)
        scores = done("score", "--predictions", out)
        page = done("report", "--model", model, "--predictions", out, "--to", f"{base}/report.html")
        assert page["path"] == f"{base}/report.html".removeprefix("./") and page["bytes"] > 1e6
        checked = [done("verify", path) for path in (data, model, out)]
        assert not any(one["problems"] for one in checked)
        groups = [store.open_store(path) for path in (data, model, out)]
        found[base] = scores, [one["arrays"] for one in checked], groups
    (scores, arrays, here), (other, others, there) = found.values()
    assert other.pop("data") == store.place(there[2])
    assert scores.pop("data") == "predictions.zarr" and scores == other and arrays == others
    for one, two in zip(here, there, strict=True):
        for name, array in one.arrays():
            np.testing.assert_array_equal(store.read(array), store.read(store.array(two, name)))
    assert store.about(here[0])["fingerprint"] == store.about(there[0])["fingerprint"]
    fs, bucket = places.opened(s3)
    assert SECRET.encode() not in b"".join(fs.cat(fs.find(bucket)).values())
    left = {name for name in objects(s3) if name.startswith(".") or "/lease-" in name}
    assert not left, left


def test_samples_and_their_matrix(memory, tmp_path, done, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"i{i} {3 * (i % 2) + RNG.normal():.3f} {RNG.normal():.3f}\n" for i in range(12) for _ in range(8)]
    Path("points.txt").write_text("".join(rows))
    Path("labels.txt").write_text("".join(f"i{i} {i % 2}\n" for i in range(12)))
    for base in (".", memory):
        done("ingest", "samples", "points.txt", "--labels", "labels.txt", "--components", "1", "--draws", "50",
             "--to", f"{base}/s.zarr")  # fmt: skip
        done("fit", "--data", f"{base}/s.zarr", *QUICK, "--exact", "--to", f"{base}/m.zarr")
        done("predict", "--model", f"{base}/m.zarr", "--data", f"{base}/s.zarr", "--to", f"{base}/p.zarr")
    here, there = (store.open_store(f"{base}/p.zarr")["score"][:] for base in (".", memory))
    np.testing.assert_array_equal(here, there)
    assert not [name for name in objects(memory) if ".work" in name or "checkpoint" in name]


def test_the_job_survives_errors_delays_and_lost_connections(moto, tmp_path, done, monkeypatch):
    monkeypatch.setitem(places.PATIENCE, "read_timeout", 1)
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{a:.4f},{b:.4f},{int(a > b)}\n" for a, b in RNG.random((300, 2)))
    Path("t.csv").write_text(f"a,b,y\n{rows}")
    s3 = f"s3://b{uuid.uuid4().hex}"
    connect(monkeypatch, moto).mkdir(s3)
    with Proxy(moto, every=23, late=0.002, silence=1.5) as proxy:
        connect(monkeypatch, proxy.server_address[1]).put("t.csv", f"{s3}/t.csv")
        found = {}
        for base in (".", s3):
            data, model, out = (f"{base}/{name}.zarr" for name in ("data", "model", "predictions"))
            done("ingest", "table", f"{base}/t.csv", "--label", "y", "--to", data)
            done("fit", *QUICK, "--n-landmarks", "20", "--bandwidth", "1", "--data", data, "--to", model)
            done("predict", "--model", model, "--data", data, "--to", out)
            page = done("report", "--model", model, "--predictions", out, "--to", f"{base}/report.html")
            assert page["bytes"] > 1e6 and not done("verify", out)["problems"]
            found[base] = done("score", "--predictions", out), store.read(store.open_store(out)["score"])
        assert all(proxy.failed[fault] for fault in FAULTS), proxy.failed
    (scores, here), (other, there) = found.values()
    assert {**other, "data": scores["data"]} == scores
    np.testing.assert_array_equal(here, there)
    connect(monkeypatch, moto)
    fs, bucket = places.opened(s3)
    assert SECRET.encode() not in b"".join(fs.cat(fs.find(bucket)).values())
    left = {name for name in objects(s3) if name.startswith(".") or "/lease-" in name}
    assert not left, left


SLOW = """
import time
from ask_dask import blocks, cli
from ask_dask.moments import gathering
from ask_dask.store import checkpoint, leases
checkpoint.SECONDS, checkpoint.SHARE = 0, float("inf")
leases.RENEW, leases.WATCH = 0.1, 0.5
blocks.most_rows = lambda X: 100
of_shard = gathering._of_shards
def patient(*given):
    time.sleep(0.3)
    return of_shard(*given)
gathering._of_shards = patient
cli.main()
"""
"""The command, with time to kill it between two shards, and dead writers found out at once."""
HELD = SLOW.replace("time.sleep(0.3)", "while not os.path.exists('go'): time.sleep(0.1)").replace("time", "os, time", 1)
"""The same, which waits in its first shard."""


def fit_of_a_table(s3, done):
    """The command of a fit of 600 rows, but for its place."""
    rows = "".join(f"{a:.4f},{b:.4f},{int(a > b)}\n" for a, b in RNG.random((600, 2)))
    fsspec.filesystem("s3").pipe_file(f"{s3}/t.csv", f"a,b,y\n{rows}".encode())
    done("ingest", "table", f"{s3}/t.csv", "--label", "y", "--to", f"{s3}/d.zarr")
    return ("fit", "--data", f"{s3}/d.zarr", *QUICK, "--n-landmarks", "20", "--bandwidth", "1", "--to")


def wait_for(name, place, process):
    """Until there is such an object at a place, or the process has ended."""
    while process.poll() is None and name not in objects(place):
        time.sleep(0.05)


@pytest.mark.slow
def test_of_two_commands_that_write_the_same_store_the_second_is_refused(s3, tmp_path, done, monkeypatch):
    """Each in a process of its own; the first is not disturbed: python -m pytest -m slow tests/test_s3_job.py"""
    monkeypatch.chdir(tmp_path)
    fit = fit_of_a_table(s3, done)
    command = [sys.executable, "-c", HELD, *fit, f"{s3}/m.zarr", "--quiet"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for("lease-1", f"{s3}/m.zarr", first)
    for more in ((), ("--overwrite",)):
        second = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        said = rf"ask-dask: {s3}/m\.zarr is being written by another job \(.*, process {first.pid}\): wait for it, .*"
        assert (second.returncode, second.stdout) == (1, "") and first.poll() is None
        assert re.fullmatch(said, second.stderr.splitlines()[-1]), second.stderr  # before: that it watches the lease
    Path("go").touch()
    assert first.communicate(timeout=120)[1] == "" and first.returncode == 0
    assert not done("verify", f"{s3}/m.zarr")["problems"]


@pytest.mark.slow
def test_a_killed_fit_goes_on_from_its_checkpoint(s3, done, monkeypatch):
    fit = fit_of_a_table(s3, done)
    command, straight = ([sys.executable, "-c", SLOW, *fit, f"{s3}/{name}.zarr", "--quiet"] for name in "ms")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for("zarr.json", f"{s3}/.m.zarr.checkpoint", process)
    process.kill()
    process.wait()
    assert "zarr.json" in objects(f"{s3}/.m.zarr.checkpoint") and "zarr.json" not in objects(f"{s3}/m.zarr")
    monkeypatch.setattr(leases, "WATCH", 3 * leases.RENEW)
    found = done("status", f"{s3}/m.zarr")
    assert (found["state"], found["goes_on"]) == ("stopped", True) and "last_sign" in found
    assert 0 < found["checkpoint"]["done"] < found["checkpoint"]["total"]
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    subprocess.run(straight, check=True, capture_output=True)
    one, other = (store.open_store(f"{s3}/{name}.zarr") for name in "ms")
    for name, array in one.arrays():
        np.testing.assert_array_equal(store.read(array), store.read(store.array(other, name)))
    left = {name for name in objects(s3) if name.startswith(".") or "/lease-" in name}
    assert not left, left

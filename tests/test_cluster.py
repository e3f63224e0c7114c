"""Clusters: who may join, where they listen, the same result on processes of "two machines" as on threads."""

import asyncio
import os
import re
import shlex
import signal
import socket
import ssl
import stat
from pathlib import Path

import dask
import numpy as np
import psutil
import pytest
from commands import refused
from distributed import LocalCluster, default_client
from distributed.core import rpc
from distributed.security import Security
from machines import job, program

from ask_dask import load, steps, store
from ask_dask.cluster import make_certificates, running_on
from ask_dask.cluster.places import DEATHS, STARTED
from ask_dask.cluster.security import NAMES, own_security
from ask_dask.errors import InputError, StoreError

PAGE = (Path(__file__).parents[1] / "cluster" / "README.md").read_text(encoding="utf-8")
FIT = ("fit", "--data", "data.zarr", "--gamma", "1", "--n-landmarks", "30", "--cv", "2", "--quiet")


def line(start, **changed):
    """The words after `dask` of a command of the page on two bare machines, with some changed."""
    found = re.search(rf"^\$ ({start} .*)$", PAGE, re.M)[1]
    for name, value in changed.items():
        found, times = re.subn(rf"--{name} \S+", f"--{name} {value}", found)
        assert times == 1, (name, found)
    return shlex.split(found)[1:]


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """A folder with data and certificates, and the address of a scheduler with a worker, as the page starts them."""
    folder = tmp_path_factory.mktemp("machines")
    X = np.random.default_rng(0).random((300, 2)).round(4)
    rows = "".join(f"{a},{b},{int(a > b)}\n" for a, b in X)
    (folder / "t.csv").write_text(f"a,b,y\n{rows}", encoding="utf-8")
    steps.IngestTable(files=[str(folder / "t.csv")], label=["y"], to=folder / "data.zarr").run()
    make_certificates(folder / "tls")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    worker = [part.replace("a:8786", address) for part in line("dask worker", nworkers=1)]
    commands = ([*line("dask scheduler"), "--port", address.split(":")[1]], worker)
    processes = [program(folder, "from dask.__main__ import main; main()", *words) for words in commands]
    for process, said in zip(processes, ("Scheduler at:", "Registered to:"), strict=True):
        process.wait_for(said)
    yield folder, address, processes
    for process in reversed(processes):
        process.send(signal.SIGTERM)
        process.ended(20)


def test_the_same_result_as_on_threads(machines, monkeypatch, ask):
    folder, address, _ = machines
    monkeypatch.chdir(folder)
    assert ask(*FIT, "--to", "threads.zarr")[0] == 0
    code, out, err = ask(*FIT, "--to", "machines.zarr", "--cluster", f"tls://{address}", "--tls", "tls")
    assert (code, err.replace(waiting(address), "")) == (0, "") and out.startswith("machines.zarr: gamma 1")
    X = store.open_store("data.zarr")["X"][:]
    values = [load(path).decision_function(X) for path in ("machines.zarr", "threads.zarr")]
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-4)


def waiting(address):
    return f"The scheduler at tls://{address} has no workers yet: waiting for the first.\n"


async def asked(address, security, timeout):
    """What a scheduler or a worker says it is."""
    async with rpc(address, connection_args=security.get_connection_args("client"), timeout=timeout) as there:
        return (await there.identity())["type"]


def assert_refused(address, folder):
    """One who comes without TLS, and one with a certificate of the authority of a folder, which is another."""
    for at, security in ((address.replace("tls", "tcp"), Security()), (address, own_security(folder))):
        with pytest.raises(OSError, match="before comm was established"):
            asyncio.run(asked(at, security, 5))


def test_who_has_no_certificate_of_the_scheduler_is_refused(machines, tmp_path):
    folder, address, _ = machines
    make_certificates(tmp_path / "others")
    assert asyncio.run(asked(f"tls://{address}", own_security(folder / "tls"), 30)) == "Scheduler"
    assert_refused(f"tls://{address}", tmp_path / "others")
    careless = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(address.split(":"), timeout=30) as plain,
        careless.wrap_socket(plain) as wrapped,
        pytest.raises((ssl.SSLError, ConnectionError), match=r"(?i)certificate required|reset"),
    ):
        wrapped.recv(64)


def test_the_command_says_that_it_is_refused(machines):
    folder, address, _ = machines
    result = job(folder, *FIT, "--to", "refused.zarr", "--cluster", f"tcp://{address}").ended()
    assert refused(result, f"No scheduler answers at tcp://{address}") and "give --tls FOLDER if it asks" in result[2]


def listening(processes):
    """Local addresses on which they and their children listen."""
    every = [one for process in processes for one in (process, *process.children(recursive=True))]
    return {one.laddr for process in every for one in process.net_connections("inet") if one.status == "LISTEN"}


def test_the_dashboard_of_the_machines_is_on_loopback_only(machines):
    """What listens wider talks TLS: it answers a plain request with nothing."""
    _, _, processes = machines
    found = listening([psutil.Process(process.pid) for process in processes])
    assert found
    for place in found:
        assert place.ip == "127.0.0.1" or not answers_http(place.port), place


def answers_http(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as to:
        to.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        try:
            return to.recv(64).startswith(b"HTTP")
        except ConnectionResetError:
            return False


def test_processes_listen_on_loopback_and_outlive_more_deaths_than_dask_allows():
    before = listening([psutil.Process()])
    with running_on("processes", workers=1):
        assert default_client().cluster.scheduler.allowed_failures == DEATHS > 3
        found = listening([psutil.Process()]) - before
        assert len(found) >= 2 and {place.ip for place in found} == {"127.0.0.1"}


@pytest.mark.parametrize("own", [False, True], ids=["temporary", "own"])
def test_processes_that_listen_wider_talk_tls(tmp_path, own):
    """Who has no certificate of theirs, or one of another authority, gets no answer of the scheduler or of a worker."""
    for name in ("tls", "others"):
        make_certificates(tmp_path / name)
    before = listening([psutil.Process()])
    with running_on("processes", workers=1, host="0.0.0.0", tls=tmp_path / "tls" if own else None):
        client = default_client()
        assert client.scheduler.address.startswith("tls://")
        assert dask.delayed(sum)([40, 2]).compute() == 42
        wide = {place for place in listening([psutil.Process()]) - before if place.ip != "127.0.0.1"}
        assert wide and not any(answers_http(place.port) for place in wide)
        ours = own_security(tmp_path / "tls") if own else client.security
        for address, kind in ((client.scheduler.address, "Scheduler"), (*client.scheduler_info()["workers"], "Worker")):
            assert asyncio.run(asked(address, ours, 30)) == kind
            assert_refused(address, tmp_path / "others")


@pytest.mark.parametrize(("host", "said"), [("127.0.0.1", None), ("192.0.2.77", "No cluster starts on 192.0.2.77: ")])
def test_slurm_talks_tls_wherever_it_listens(tmp_path, monkeypatch, host, said):
    """On a queue that takes jobs and starts none."""
    pytest.importorskip("dask_jobqueue")
    with queue(tmp_path, monkeypatch, sbatch="echo Submitted batch job 1", scancel=":"):
        if said:
            with pytest.raises(InputError, match=re.escape(said)), STARTED["slurm"](1, host, None):
                pass
            return
        with STARTED["slurm"](1, host, None) as client:
            address = client.scheduler.address
            assert address.startswith(f"tls://{host}:")
            make_certificates(tmp_path / "others")
            assert_refused(address, tmp_path / "others")


def queue(folder, monkeypatch, **commands):
    """A queue of these commands and no others, and dask-jobqueue configured for it."""
    for name, does in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    size = {"cores": 1, "processes": 1, "memory": "1GB", "shared-temp-directory": str(folder)}
    return dask.config.set({f"jobqueue.slurm.{name}": value for name, value in size.items()})


@pytest.mark.parametrize(
    "commands, said",
    [
        ({}, "No such file or directory: 'sbatch'"),
        ({"sbatch": "echo first >&2; echo error: no such partition >&2; exit 1"}, "first; error: no such partition"),
        ({"sbatch": "echo Hello"}, "Hello"),
    ],
)
def test_why_slurm_takes_no_job_is_said(tmp_path, monkeypatch, commands, said):
    pytest.importorskip("dask_jobqueue")
    said = rf"SLURM takes no job of workers \(.*{re.escape(said)}.*\): .*jobqueue.slurm"
    with (
        queue(tmp_path, monkeypatch, **commands),
        pytest.raises(InputError, match=said),
        running_on("slurm", workers=2, host="127.0.0.1"),
    ):
        pass


def test_jobs_that_slurm_does_not_take_are_told(tmp_path, monkeypatch, caplog):
    pytest.importorskip("dask_jobqueue")
    once = f"[ -e {tmp_path}/one ] && {{ echo limit >&2; exit 1; }}; : >{tmp_path}/one; echo Submitted batch job 1"
    with queue(tmp_path, monkeypatch, sbatch=once, scancel=":"), STARTED["slurm"](2, "127.0.0.1", None):
        assert "SLURM took 1 of 2 jobs of workers (limit)." in caplog.text


@pytest.mark.parametrize(
    "file, text, said",
    [("key.pem", "others", "KEY_VALUES_MISMATCH"), ("cert.pem", "nothing", "PEM lib"), ("ca.pem", "", "X509")],
)
def test_certificates_that_cannot_be_used_are_told(tmp_path, file, text, said):
    for name in ("tls", "others"):
        make_certificates(tmp_path / name)
    (tmp_path / "tls" / file).write_text((tmp_path / "others" / file).read_text() if text == "others" else text)
    with pytest.raises(InputError, match=rf"The certificates in \S+tls cannot be used \(.*{said}.*\): \S+cert.pem and"):
        own_security(tmp_path / "tls")


def test_certificates_are_this_users_alone_and_never_replaced(tmp_path, ask):
    folder = tmp_path / "a" / "tls"
    code, out, err = ask("cluster", "certificates", folder)
    assert (code, err) == (0, "") and out.startswith(f"{folder}: ca.pem, cert.pem and key.pem")
    assert {stat.S_IMODE(os.stat(folder / name).st_mode) for name in NAMES} == {0o600}
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    before = (folder / "key.pem").read_text()
    assert refused(ask("cluster", "certificates", folder), "ca.pem is there already")
    with pytest.raises(StoreError, match="is there already"):
        make_certificates(folder)
    assert (folder / "key.pem").read_text() == before
    (folder / "cert.pem").unlink()
    with pytest.raises(InputError, match=r"There is no .*cert.pem: .*ask-dask cluster certificates"):
        own_security(folder)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"spec": "threads", "host": "0.0.0.0"}, "for processes and slurm, which start a scheduler, not for threads"),
        ({"spec": "slurm"}, "slurm needs --workers"),
        ({"spec": "kubernetes"}, "There is no cluster 'kubernetes': apply the manifests of cluster/kubernetes"),
        ({"spec": "processes", "host": "192.0.2.77", "workers": 1}, "No cluster starts on 192.0.2.77"),
        ({"spec": "tls://127.0.0.1:1", "tls": "nowhere"}, "There is no nowhere/ca.pem"),
    ],
)
def test_places_that_cannot_be(options, said):
    with pytest.raises(InputError, match=re.escape(said)), running_on(**options):
        pass


def test_slurm_needs_its_configuration():
    pytest.importorskip("dask_jobqueue")
    said = r"jobqueue.yaml in ~/.config/dask: You must specify how much cores and memory"
    with pytest.raises(InputError, match=said), running_on("slurm", workers=2):
        pass


OTHER = """
import importlib.metadata as metadata, sys
from distributed.cli.dask_worker import main
version, (package, other) = metadata.version, sys.argv[1:3]
def told(name):
    if name == package:
        if other == "none":
            raise metadata.PackageNotFoundError(name)
        return other
    return version(name)
told.__module__, told.__qualname__ = "importlib.metadata", "version"
metadata.version = told
sys.argv[1:] = sys.argv[3:]
main()
"""
"""A worker, on which a package has another version, or none."""


@pytest.mark.parametrize(("name", "other"), [("ask_dask", "0.0.1"), ("zarr", "3.0.0"), ("ask_dask", "none")])
def test_a_worker_with_other_versions_is_refused(tmp_path, name, other):
    with LocalCluster(n_workers=0, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        worker = program(tmp_path, OTHER, name, other, address, "--no-dashboard", "--no-nanny")
        try:
            said = f"has no {name}: install" if other == "none" else f"has {name} {other}, and this job has"
            with pytest.raises(InputError, match=f"The worker at tcp://127.* {said}"), running_on(address):
                pass
        finally:
            worker.send(signal.SIGTERM)
            worker.ended(20)

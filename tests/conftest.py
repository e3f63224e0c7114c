"""Fixtures of several test files, and which versions a run is with."""

import importlib.metadata
import importlib.util
import json
import logging
import os
import signal
import subprocess
import uuid
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, and what they start, ignore it

collect_ignore = ["toys"]
DATA = Path(os.environ.get("ASK_DASK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


LONGEST = ("cli_fit", "cli", "damage", "watching", "predict_goes_on", "faults", "s3_job", "examples", "damage_read",
           "report", "promises", "pipelines", "cluster", "cluster_files", "compute")  # fmt: skip


def pytest_collection_modifyitems(items):
    """Files that take longest come first, so that both workers of a run end together."""
    place = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


def pytest_report_header():
    """The versions that decide which set this is, and which copy of ask_dask is tested."""
    names = ("dask", "distributed", "dask-ml", "scikit-learn", "numpy", "pandas", "zarr")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return [f"with: {versions}", f"ask_dask: {Path(importlib.util.find_spec('ask_dask').origin).parent}"]


@pytest.fixture
def ask(capsys):
    """Run the command in this process: exit code, stdout, stderr."""
    from ask_dask import cli

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main([str(argument) for argument in arguments])
        return left.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def done(ask):
    """Run a command that must succeed: its result as JSON."""

    def run(*arguments):
        code, out, err = ask(*arguments, "--quiet", "--json")
        assert (code, err) == (0, ""), (arguments, err)
        return json.loads(out)

    return run


@pytest.fixture(scope="session")
def moto():
    """The port of an S3 server on loopback."""
    pytest.importorskip("s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture
def s3(moto, monkeypatch):
    """The URL of an empty bucket."""
    from buckets import connect

    url = f"s3://b{uuid.uuid4().hex}"
    connect(monkeypatch, moto).mkdir(url)
    return url


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """The debugging port of a headless Chromium, one for all tests of a process."""
    from pages import chromium

    with chromium(tmp_path_factory.mktemp("browser")) as port:
        yield port


@pytest.fixture(scope="session")
def pool():
    """Two processes for dask's scheduler of processes, which would start some for every graph."""
    from machines import FORKED

    with ProcessPoolExecutor(2, FORKED) as processes:
        yield processes


@pytest.fixture
def memory():
    """The URL of an empty place in the memory of this process, which fsspec has as object storage."""
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture(params=["memory", "s3"])
def folder(request):
    """The URL of an empty place of object storage."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own: call it with a number of bytes, or "ro"."""
    place = tmp_path / "disk"
    place.mkdir()

    def sized(how):
        option = how if how == "ro" else f"rw,size={how}"
        again = ("-o", f"remount,{option}") if os.path.ismount(place) else ("-o", option)
        done = subprocess.run(["mount", "-t", "tmpfs", *again, "tmpfs", place], capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
        return place

    yield sized
    if os.path.ismount(place):
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A folder with small graphs, tables, samples and matrices, and a dataset store of each."""
    import small

    folder = tmp_path_factory.mktemp("small")
    small.make(folder)
    return folder


@pytest.fixture(scope="session")
def data():
    """The folder of real data sets."""
    if not DATA.is_dir():
        pytest.skip(f"the real data are not at {DATA}; set ASK_DASK_DATA to their folder")
    return DATA

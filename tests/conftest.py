"""Where the real data are, the oracle beside them, and which versions a run is with."""

import importlib.metadata
import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

DATA = Path(os.environ.get("ASK_DASK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


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


@pytest.fixture(scope="session")
def reference(data):
    """The folder of the dense reference implementations, beside the data."""
    folder = data.parent / "reference"
    if not folder.is_dir():
        pytest.skip(f"the reference implementations are not at {folder}")
    return folder


@pytest.fixture(scope="session")
def oracle(reference):
    """The dense reference implementations, as a module."""
    sys.path.insert(0, str(reference))
    try:
        import oracle
    finally:
        sys.path.pop(0)
    return oracle

"""A method, a kernel and an input format, each in one file that is not ours, work everywhere."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from commands import COMMAND, refused
from pages import Page

import ask_dask

TOYS = Path(__file__).parent / "toys"
USE = ",".join(str(TOYS / f"toy_{name}.py") for name in ("kernel", "format", "method"))
FIT = ("--kernel", "cauchy", "--width", "2", "--n-landmarks", "50")
JOB = """
[[step]]
do = "ingest"
format = "spaces"
files = ["a.txt"]
to = "a.zarr"
[[step]]
do = "fit"
method = "early-stopping"
data = "a.zarr"
to = "m.zarr"
kernel = "cauchy"
width = 2.0
rounds = [5, 500]
n_landmarks = [50]
[[step]]
do = "predict"
model = "m.zarr"
data = ["a.zarr"]
to = "p.zarr"
[[step]]
do = "score"
predictions = "p.zarr"
[[step]]
do = "report"
model = "m.zarr"
predictions = "p.zarr"
to = "m.html"
"""
PYTHON = """
import numpy as np
import toy_kernel
from toy_method import EarlyStopping
from ask_dask import load
rows = np.loadtxt("a.txt")
model = EarlyStopping(toy_kernel.Cauchy(2.0), [5, 500], 50, random_state=0).fit(rows[:, :2], rows[:, 2])
stored = load("m.zarr")
assert np.array_equal(model.predict(rows[:, :2]), stored.predict(rows[:, :2])) and stored.rounds_ == 500
print(stored.score(rows[:, :2], rows[:, 2]))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder where a job with all three has run."""
    folder = tmp_path_factory.mktemp("toys")
    X = np.random.default_rng(0).normal(size=(500, 2))
    np.savetxt(folder / "a.txt", np.column_stack([X, np.sin(X[:, 0])]))
    (folder / "job.toml").write_text(JOB)
    return folder, command(folder, "run", "job.toml", "--use", USE, "--json")


def command(folder, *arguments):
    found = subprocess.run([*COMMAND, *arguments, "-q"], cwd=folder, capture_output=True, text=True, check=False)
    return found.returncode, found.stdout, found.stderr


def test_a_job_uses_all_three(made):
    folder, (code, out, err) = made
    assert (code, err) == (0, "")
    _, fitted, predicted, scored, _ = json.loads(out)
    assert fitted["estimator"] == "EarlyStopping" and fitted["rounds"] == 500
    assert fitted["kernel"] == {"name": "Cauchy", "width": 2.0} and fitted["held_out"]["r2"] > 0.98
    assert predicted["arrays"]["score"]["shape"] == [500, 1] and scored["r2"] > 0.99
    page = Page((folder / "m.html").read_text()).text
    assert "EarlyStopping was fitted on 500 rows" in page and "rounds = 500 and 50 landmarks" in page
    assert "pairs of rounds" in page or "2 values" in page


def test_the_command_has_their_options(made):
    folder, _ = made
    code, out, _ = command(folder, "fit", "early-stopping", "--use", USE, "--help")
    assert code == 0 and "--rounds" in out and "Steps to choose from." in out and "--width" in out
    usual = ("fit", "--use", USE, "--data", "a.zarr", "--to", "u.zarr", *FIT, "--gamma", "10")
    code, out, err = command(folder, *usual)
    assert (code, err) == (0, "") and out.startswith("u.zarr: gamma 10, 50 landmarks, held-out R² 0.9")


def test_python_has_the_same_model(made):
    folder, _ = made
    paths = os.pathsep.join([str(TOYS), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run([COMMAND[0], "-c", PYTHON], cwd=folder, capture_output=True, text=True, check=False,
                           env=os.environ | {"PYTHONPATH": paths})  # fmt: skip
    assert found.returncode == 0 and float(found.stdout) > 0.99, found.stderr


def test_what_is_not_imported_is_asked_for(made):
    folder, _ = made
    given = ("predict", "--model", "m.zarr", "--data", "a.zarr", "--to", "x.zarr")
    assert refused(command(folder, *given), "EarlyStopping, which is not known here")
    assert refused(command(folder, *given, "--use", "nowhere.py"), "--use nowhere.py: No module named 'nowhere'")


@pytest.mark.parametrize("name", ["method", "kernel", "format"])
def test_the_page_shows_the_files_that_are_run(name):
    page = Path(ask_dask.__file__).with_name("README.md").read_text(encoding="utf-8")
    assert f"```python\n{(TOYS / f'toy_{name}.py').read_text(encoding='utf-8').rstrip()}\n```" in page

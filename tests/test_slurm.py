"""The job script on a real SLURM: the result of threads; told to end, it is requeued and goes on; cancelled, not."""

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from machines import kept_of
from slurm import missing, said, slurm, until

from ask_dask import load, store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"SLURM needs {', '.join(missing())}: apt-get install slurm-wlm munge"),
]
FIT = ("fit", "--data", "data.zarr", "--gamma", "10,100", "--n-landmarks", "200,600", "--cv", "5", "--quiet")


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """A folder with a dataset store, and the environment of commands there."""
    folder = tmp_path_factory.mktemp("slurm")
    with slurm(folder) as env:
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        run(folder, env, "ask-dask", "make", "criteo", "--rows", "100000", "--to", "data.zarr", "--store", "--quiet")
        yield folder, env


def run(folder, env, *command):
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def submitted(at, name, minutes="10"):
    """The number of the job that fits the model of that name by the script as `ask-dask` prints it."""
    folder, env = at
    size = ("--nodes", "1", "--cores", "2", "--memory", "3GiB", "--time", minutes)
    script = run(folder, env, "ask-dask", "cluster", "script", "slurm", *size, "--", *FIT, "--to", name)
    (folder / f"{name}.sbatch").write_text(script)
    return re.search(r"\d+", run(folder, env, "sbatch", f"{name}.sbatch"))[0]


def state(at, job):
    """(state, exit code, times it was requeued); of a busy controller, which does not answer, nothing"""
    text = said(at[1], "scontrol", "show", "job", job)
    found = [re.search(rf"\b{name}=(\S+)", text) for name in ("JobState", "ExitCode", "Restarts")]
    return tuple(match and match[1] for match in found)


def begin_now(at, job):
    """A requeued job, which waits two minutes; in the second in which it ended its node refuses it for good."""
    time.sleep(2)
    said(at[1], "scontrol", "update", f"JobId={job}", "StartTime=now")


def log(at, job):
    return (at[0] / f"ask-dask-{job}.log").read_text()


def assert_as_on_threads(at, name):
    folder, env = at
    if not (folder / "threads.zarr").exists():
        run(folder, env, "ask-dask", *FIT, "--to", "threads.zarr", "--workers", "2")
    X = store.open_store(folder / "data.zarr")["X"][:2000]
    values = [load(folder / path).decision_function(X) for path in (name, "threads.zarr")]
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-4)


def test_a_job_is_told_to_end_and_requeued_and_goes_on(at):
    folder, _ = at
    job = submitted(at, "told.zarr")
    until(lambda: list(folder.glob(".told.zarr.partial*")), 300)
    assert state(at, job) == ("RUNNING", "0:0", "0")
    said(at[1], "scancel", "--signal=TERM", "--batch", job)  # what --signal=B:TERM@120 sends before the time is over
    until(lambda: state(at, job)[2] == "1", 120)
    assert "stopped; complete stores and checkpoints are kept" in log(at, job)
    assert not (folder / "told.zarr").exists()
    begin_now(at, job)
    until(lambda: state(at, job)[0] == "COMPLETED", 600)
    assert state(at, job) == ("COMPLETED", "0:0", "1") and "told.zarr: gamma" in log(at, job)
    assert not list(folder.glob(".ask-dask-*"))  # certificates
    assert_as_on_threads(at, "told.zarr")


COMMAND = """\
#!{python}
from ask_dask import blocks, cli
blocks.most_rows = lambda X: 2500
cli.main()
"""
"""The command, whose fit has forty shards."""

SLOW = """\
import time
from ask_dask.moments import gathering
def patient(X, rows, shared, n_folds, first_row):
    with open("{folder}/begun", "a") as file:
        file.write(f"{{first_row}}\\n")
    with open("{folder}/pause") as file:
        time.sleep(float(file.read()))
    return of_shard(X, rows, shared, n_folds, first_row)
if gathering._of_shards.__name__ != "patient":  # dask loads this more than once, into the same module
    of_shard, gathering._of_shards = gathering._of_shards, patient
"""
"""Of a worker: each shard is noted when it begins, and takes as long as a file says."""


def test_a_job_whose_time_is_over_goes_on_where_it_was(at):
    """SLURM itself sends the signal, up to two and a half minutes before the six are over."""
    folder, env = at
    (folder / "bin").mkdir()
    (folder / "bin" / "ask-dask").write_text(COMMAND.format(python=sys.executable))
    (folder / "bin" / "ask-dask").chmod(0o755)
    (folder / "slow.py").write_text(SLOW.format(folder=folder))
    (folder / "pause").write_text("15")  # five minutes in all
    slow = {"PATH": f"{folder}/bin:{env['PATH']}", "DASK_DISTRIBUTED__WORKER__PRELOAD": str(folder / "slow.py")}
    job = submitted((folder, env | slow), "timed.zarr", "6")
    until(lambda: state(at, job)[2] == "1", 480)
    assert "stopped; complete stores and checkpoints are kept" in log(at, job)
    kept, before = kept_of(folder / ".timed.zarr.checkpoint"), begun(folder)
    assert kept and len(before) == len(set(before)) < 40 and len(set(before) - kept) <= 2  # one that ran on each worker
    (folder / "pause").write_text("0")
    begin_now(at, job)
    until(lambda: state(at, job)[0] == "COMPLETED", 600)
    assert sorted(begun(folder)[len(before) :]) == sorted(set(range(40)) - kept)
    print(log(at, job), f"{len(kept)} of 40 shards were kept, and {len(set(before) - kept)} begun again")
    assert_as_on_threads(at, "timed.zarr")


def begun(folder):
    """Numbers of the shards that workers began, in order."""
    return [int(first) // 2500 for first in (folder / "begun").read_text().split()]


def test_a_cancelled_job_is_not_requeued(at):
    folder, _ = at
    job = submitted(at, "cancelled.zarr")
    until(lambda: list(folder.glob(".cancelled.zarr.partial*")), 300)
    said(at[1], "scancel", job)
    until(lambda: state(at, job)[0] == "CANCELLED", 60)
    until(lambda: not said(at[1], "squeue", "-h", "-j", job).strip(), 60)
    assert state(at, job)[2] == "0"


def test_a_refused_job_fails_with_its_line(at):
    folder, _ = at
    (folder / "full.zarr").mkdir()
    (folder / "full.zarr" / "mine").write_text("")
    job = submitted(at, "full.zarr")
    until(lambda: state(at, job)[0] == "FAILED", 300)
    assert state(at, job)[1:] == ("1:0", "0")
    *waiting, last = log(at, job).splitlines()  # where the workers are slower to come than the job
    assert last.startswith("ask-dask: full.zarr exists already") and all("no workers yet" in line for line in waiting)


def test_workers_are_jobs(at):
    pytest.importorskip("dask_jobqueue")
    folder, env = at
    configured = {"CORES": 1, "PROCESSES": 1, "MEMORY": "1000MB", "WALLTIME": "00:10:00", "INTERFACE": "lo"}
    env = env | {f"DASK_JOBQUEUE__SLURM__{name}": str(value) for name, value in configured.items()}
    process = subprocess.Popen(
        ["ask-dask", *FIT, "--to", "jobs.zarr", "--cluster", "slurm", "--workers", "2"],
        cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(lambda: said(env, "squeue", "-h", "-n", "dask-worker", "-o", "%T").split() == ["RUNNING"] * 2, 120)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0 and out.startswith("jobs.zarr: gamma"), err
    until(lambda: not said(env, "squeue", "-h", "-n", "dask-worker").strip(), 30)
    assert_as_on_threads(at, "jobs.zarr")

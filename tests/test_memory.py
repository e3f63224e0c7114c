"""Memory budgets that are kept: each command takes no more than the least budget that it accepts."""

import subprocess
import sys

import pytest

from ask_dask import budget

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")

ALONE = r"""
import contextlib, io, json, re, sys
import numpy as np, pandas as pd, psutil
from ask_dask.cli import main

rng = np.random.default_rng(0)


def run(*words):
    "The exit code of a command, and what it says."
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main([*words, "--workers", "2"])
        except SystemExit as ended:
            return ended.code, said.getvalue()


def done(*words):
    code, said = run(*words)
    assert code == 0, said


def table(name, n_rows, n_columns):
    values = pd.DataFrame(rng.normal(size=(n_rows, n_columns)).astype("f4"), columns=map(str, range(n_columns)))
    values.assign(y=rng.integers(0, 2, n_rows)).to_parquet(f"{name}.parquet", row_group_size=1 << 15)
    return "ingest", "table", f"{name}.parquet", "--label", "y", "--dtype", "float32", "--to", f"{name}.zarr"


def stored(name, n_rows, n_columns):
    done(*table(name, n_rows, n_columns))
    return "--data", f"{name}.zarr", "--overwrite"


def of_landmarks(*command):
    "With few rows and landmarks, and then with more and more landmarks."
    small, large = stored("small", 4000, 30), stored("large", 50_000, 60)
    sizes = [(small, 50), (large, 100), (large, 400), (large, 900)]
    return [[*command, *data, "--n-landmarks", str(m)] for data, m in sizes]


def commands(name):
    "The command with something small, for what is loaded and compiled once, and with three larger things."
    if name == "fit":
        return of_landmarks("fit", "--to", "m.zarr", "--kernel", "sne", "--bandwidth", "9", "--solver", "direct")
    if name == "kernel-ridge":
        return of_landmarks("fit", "kernel-ridge", "--to", "r.zarr", "--kernel", "rbf", "--bandwidth", "9")
    if name == "embed":
        return of_landmarks("embed", "--to", "e.zarr", "--kernel", "sne", "--bandwidth", "9")
    if name == "predict":
        found = []
        for i, (n, d) in enumerate([(4000, 30), (150_000, 60), (30_000, 400), (10_000, 2000)]):
            data, fitting = stored(f"d{i}", n, d), ["--bandwidth", str(d**0.5), "--gamma", "10", "--n-landmarks", "200"]
            done("fit", *data, "--to", f"m{i}.zarr", "--kernel", "sne", *fitting)
            found.append(["predict", *data, "--model", f"m{i}.zarr", "--to", f"p{i}.zarr"])
        return found
    sizes = [(2000, 30), (400_000, 30), (50_000, 300), (12_000, 2000)]
    return [[*table(f"t{i}", *size), "--overwrite"] for i, size in enumerate(sizes)]


def peak():
    return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) << 10


first, *rest = commands(sys.argv[1])
done(*first)
for command in rest:
    memory, code = 1024, 1
    while code:  # with more where the refusal says how much
        before = psutil.Process().memory_info().rss
        open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
        code, said = run(*command, "--memory", str(memory))
        if code:
            number, unit = re.search(r"a budget of ([\d.]+) (.iB)", said).groups()
            memory = round((float(number) + 0.1) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit])
    print(memory, peak() - before)
"""


@pytest.mark.parametrize("command", ["fit", "kernel-ridge", "embed", "predict", "ingest"])
def test_three_budgets_are_kept(command, tmp_path):
    alone = [sys.executable, "-c", ALONE, command]
    printed = subprocess.run(alone, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    found = [[int(number) for number in line.split()] for line in printed.splitlines()]
    assert len(found) == 3
    for memory, peak in found:
        assert peak < memory, f"{budget.size(peak)} were used of {budget.size(memory)}"
    assert peak > memory / 4  # of the largest

"""What watches a job: the log as JSON, ask-dask status, and exit codes."""

import json
import re
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from commands import hidden, refused
from machines import EAGER, SMALL, checkpointed, dataset, job, program, same_arrays, wait_until

from ask_dask import cli, compute, steps, store
from ask_dask.errors import Stopped
from ask_dask.steps import prediction

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SLOW = {"change": EAGER, "pause": 0.2}
"""A job that can be caught between two shards."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset("d.zarr", 12)
    return tmp_path


def fit(*more):
    return ("fit", "--data", "d.zarr", "--to", "m.zarr", *SMALL, *more)


def test_a_log_of_json_lines(place):
    process = job(place, *fit("--log", "json"), **SLOW)
    code, out, err = process.ended()
    lines = [json.loads(line) for line in err.splitlines()]
    assert code == 0 and out.startswith("m.zarr: gamma 1")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    first, last = (line for line in lines if line.get("step") == "moments")
    assert first["message"] == "moments: started, 0/12 shards" and first["level"] == "info"
    assert (last["done"], last["total"], last["unit"], last["seconds_left"]) == (12, 12, "shards", 0)
    assert last["rows_per_second"] == pytest.approx(1200 / last["seconds"], rel=0.01) and last["seconds"] > 0.2
    assert 50 << 20 < last["memory_bytes"] < 4 << 30


def test_of_two_commands_that_write_the_same_store_the_second_is_refused(place):
    """Each in a process of its own; the first, which was stopped meanwhile, is not disturbed."""
    first = job(place, *fit("--quiet"))
    wait_until(Path(".m.zarr.lock").exists, process=first)
    first.send(signal.SIGSTOP)
    for more in ((), ("--overwrite",)):
        code, out, err = job(place, *fit("--quiet", *more)).ended()
        said = "ask-dask: m.zarr is being written by another job: wait for it, or choose another place.\n"
        assert (code, out, err) == (1, "", said)
    first.send(signal.SIGCONT)
    code, _, err = first.ended()
    assert (code, err) == (0, "") and not steps.verify(Path("m.zarr"))["problems"] and not hidden(place)


def test_a_record_on_the_way_has_an_estimate(monkeypatch, caplog):
    from ask_dask.compute import bars

    clock = iter(range(0, 1000, 11))
    monkeypatch.setattr(bars, "time", SimpleNamespace(monotonic=lambda: next(clock)))  # not the event loop's
    with (
        caplog.at_level("INFO", "ask_dask"),
        compute.progress_shown(logged=True),
        compute.progress("pass", 10, "shards", done=2, rows=1000) as advance,
    ):
        advance()
    (facts,) = [record.facts for record in caplog.records if record.facts["seconds_left"]]
    assert (facts["done"], facts["total"]) == (3, 10) and facts["seconds_left"] == 7 * facts["seconds"] > 70
    assert facts["rows_per_second"] == pytest.approx(100 / facts["seconds"], abs=0.1)


def test_what_is_said_and_what_is_wrong_is_json_too(place, ask, monkeypatch):
    monkeypatch.setenv("ASK_DASK_LOG", "json")
    code, out, err = ask("fit", "--data", "nowhere", "--to", "m.zarr")
    found = json.loads(err)
    assert (code, out, found["level"], found["exit_code"]) == (1, "", "error", 1)
    assert found["message"] == "There is no store at nowhere: check the path."
    Path("job.toml").write_text(
        '[[step]]\ndo = "fit"\ndata = "d.zarr"\nto = "m.zarr"\nbandwidth = 2\nn_landmarks = 20\n'
    )
    code, _, err = ask("run", "job.toml")
    said = [json.loads(line)["message"] for line in err.splitlines()]
    assert (
        code == 0
        and said[0] == "step 1 of 1, fit: started"
        and any(line.startswith("moments: started, 0/") for line in said)
    )
    code, _, err = ask("run", "job.toml", "--quiet")
    assert (code, err) == (0, "")


def test_status_of_a_job_from_nothing_to_complete(place, ask, done):
    refused(ask("status", "m.zarr"), "There is no store at m.zarr, and no job that writes one")
    running = job(place, *fit("--quiet"), **SLOW)
    wait_until(Path(".m.zarr.checkpoint").exists, process=running)
    found = done("status", "m.zarr")
    assert found["state"] == "running" and "made" not in found
    assert ask("status", "m.zarr")[1].startswith("m.zarr: a job is writing it; no store is there\n")
    running.kill()
    found = done("status", "m.zarr")
    kept = found["checkpoint"]
    assert (found["state"], found["goes_on"], kept["step"], kept["total"]) == ("stopped", True, "moments", 12)
    assert kept["seconds_left"] == pytest.approx(kept["seconds"] / kept["done"] * (12 - kept["done"]), abs=0.1)
    said = ask("status", "m.zarr")[1]
    assert said.startswith("m.zarr: stopped, and the same command goes on; no store is there\n")
    assert re.search(
        rf"checkpoint: moments, {kept['done']} of 12 shards in \d+ s, written .*, about \d+ s for the rest", said
    )
    assert job(place, *fit("--quiet")).ended()[0] == 0
    found = done("status", "m.zarr")
    assert (found["state"], found["schema"]) == ("complete", "model") and not hidden(place)
    assert ask("status", "m.zarr")[1].startswith("m.zarr: complete; a model store of 20")


DYING = """
import itertools, os, signal
from ask_dask.steps import prediction
own, calls = prediction._predict_shard, itertools.count()
def dying(*given):
    os.kill(os.getpid(), signal.SIGKILL) if next(calls) == 8 else own(*given)
prediction._predict_shard = dying
"""


def test_a_prediction_that_was_killed_goes_on(place, done, monkeypatch):
    """Finished shards stay; another model's predictions start again, and nothing is left beside them."""
    done(*fit())
    done("fit", "--data", "d.zarr", "--to", "other.zarr", *SMALL, "--seed", "1")
    predict = ("predict", "--data", "d.zarr", "--to")
    begun, own = [], prediction._predict_shard
    monkeypatch.setattr(prediction, "_predict_shard", lambda *given: (begun.append(given[2]), own(*given))[1])
    for model, again in (("m.zarr", False), ("other.zarr", True)):
        assert job(place, *predict, "p.zarr", "--model", "m.zarr", change=DYING).ended()[0] == -signal.SIGKILL
        found = done("status", "p.zarr")
        assert (found["state"], found["goes_on"]) == ("stopped", True)
        parts = found["written"]
        rest = parts["parts_planned"] / parts["parts"] - 1
        assert 0 < parts["seconds"] < 60 and parts["seconds_left"] == pytest.approx(parts["seconds"] * rest, abs=0.2)
        ready = {n for n, mark in enumerate(zarr.open_group(".p.zarr.work", mode="r")["done"][:]) if mark}
        assert 0 < len(ready) < 9
        lost, cut = sorted(ready)[:2]  # a machine that went down keeps the mark and loses what it marks
        Path(f".p.zarr.work/score/c/{lost}/0").unlink()
        Path(f".p.zarr.work/f_source/c/{cut}/0").write_bytes(b"")
        ready -= {lost, cut}
        begun.clear()
        done(*predict, "p.zarr", "--model", model)
        assert set(begun) == set(range(12)) - (set() if again else ready) and not hidden(place)
        done(*predict, "q.zarr", "--model", model)
        assert same_arrays("p.zarr", "q.zarr")
        shutil.rmtree("p.zarr")
        shutil.rmtree("q.zarr")


LESS = [pytest.param(name, marks=pytest.mark.slow) for name in ("done/c/0", "score/zarr.json")]


@pytest.mark.parametrize("damaged", ["zarr.json", "done/zarr.json", *LESS])
def test_damaged_work_starts_again(place, done, damaged):
    done(*fit())
    predict = ("predict", "--model", "m.zarr", "--data", "d.zarr", "--to")
    assert job(place, *predict, "p.zarr", change=DYING).ended()[0] == -signal.SIGKILL
    for text in ("{}", '{"zarr_format": 3, "node_type": "group", "attributes": []}', "[" * 5000, "5"):
        for file in (Path(".p.zarr.work") / damaged, *Path(".p.zarr.work").glob(f"{damaged}*")):
            file.write_text(text) if file.exists() else None
        found = done("status", "p.zarr")
        assert found["state"] == "stopped" and found["written"]["bytes"] > 0
    done(*predict, "p.zarr")
    done(*predict, "q.zarr")
    assert same_arrays("p.zarr", "q.zarr") and not hidden(place)


@pytest.mark.parametrize("since", [float("nan"), 1e12])
def test_a_clock_that_was_set_gives_no_absurd_time(tmp_path, since):
    with pytest.raises(KeyboardInterrupt), store.create(tmp_path / "p.zarr", "predictions", work="w") as group:
        store.write_array(group, "x", np.ones(3))
        store.describe(group, work={"of": "w", "since": since})
        raise KeyboardInterrupt
    written = store.state(tmp_path / "p.zarr")["written"]
    assert written["parts"] == 1 and written.get("seconds", 0) == 0 and written.get("seconds_left", 0) == 0


def test_what_is_in_the_way_of_unfinished_work_is_named(place, ask, done):
    done(*fit())
    Path(".p.zarr.work").write_text("mine")
    refused(ask("predict", "--model", "m.zarr", "--data", "d.zarr", "--to", "p.zarr"), ".p.zarr.work is in the way")
    assert Path(".p.zarr.work").read_text() == "mine"


def test_status_of_what_keeps_nothing(place, ask, done):
    """A job that was killed while it wrote what it cannot go on with starts again."""
    dying = (
        "import os, signal, numpy as np\nfrom ask_dask import store\n"
        "with store.create('p.zarr', 'predictions') as group:\n"
        "    made = group.create_array('score', shape=(4, 2), chunks=(1, 2), dtype=float)\n    made[:3] = 1\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert program(place, dying).ended()[0] == -signal.SIGKILL
    found = done("status", "p.zarr")
    assert (found["state"], found["goes_on"]) == ("stopped", False)
    assert (found["written"]["parts"], found["written"]["parts_planned"]) == (3, 4)
    said = ask("status", "p.zarr")[1]
    assert "stopped, and the same command starts again" in said and "3 of 4 chunks" in said


@pytest.mark.parametrize("command", ["fit", "run"])
def test_a_nightly_job_replaces_the_checkpoint_of_an_older_one(place, ask, command):
    """Interrupted with yesterday's data, it is started with today's: refused, unless it may overwrite."""
    running = job(place, *fit("--quiet"), **SLOW)
    wait_until(Path(".m.zarr.checkpoint").exists, process=running)
    running.kill()
    dataset("e.zarr", 12, seed=1)
    today = ("fit", "--data", "e.zarr", "--to", "m.zarr", *SMALL, "--quiet")
    if command == "run":
        options = "".join(
            f"{key[2:].replace('-', '_')} = {value}\n" for key, value in zip(SMALL[::2], SMALL[1::2], strict=True)
        )
        step = f"[[step]]\ndo = 'fit'\ndata = 'e.zarr'\nto = 'm.zarr'\n{options}"
        Path("job.toml").write_text(step, encoding="utf-8")
        today = ("run", "job.toml", "--quiet")
    refused(ask(*today), ".m.zarr.checkpoint is the checkpoint of another fit (other data or parameters): remove it")
    assert Path(".m.zarr.checkpoint").exists()
    code, _, err = ask(*today, "--overwrite")
    assert code == 0 and not hidden(place)
    said = ".m.zarr.checkpoint is the checkpoint of another fit (other data or parameters): it is replaced.\n"
    assert err.endswith(said) and err.count("\n") == 1
    assert store.about(store.open_store("m.zarr"))["data"]["path"] == "e.zarr"


def test_its_own_checkpoint_is_used_with_overwrite_too(place, ask, tmp_path):
    """The nightly command itself, started again, goes on."""
    running = job(place, *fit("--quiet", "--overwrite"), **SLOW)
    wait_until(Path(".m.zarr.checkpoint").exists, process=running)
    running.kill()
    kept = len(checkpointed(".m.zarr.checkpoint"))
    code, _, err = job(place, *fit("--overwrite", "--log", "json")).ended()
    lines = [json.loads(line) for line in err.splitlines()]
    begun = next(line for line in lines if line.get("step") == "moments")
    assert code == 0 and begun["done"] == kept > 0 and not any("replaced" in line["message"] for line in lines)


def test_wrong_input_leaves_no_checkpoint(place):
    """It could never be gone on from: its data have to change."""
    with store.create("bad.zarr", "dataset") as group:
        X = np.random.default_rng(0).normal(size=(600, 3))
        X[550, 1] = np.nan
        for name, values in (("X", X), ("y", (X[:, 0] > 0).astype(int))):
            made = group.create_array(name, shape=values.shape, chunks=(100, *values.shape[1:]), dtype=values.dtype,
                                      compressors=store.QUICK)  # fmt: skip
            made[:] = values
        store.describe(group, fingerprint="bad", n_rows=600)
    code, _, err = job(place, "fit", "--data", "bad.zarr", "--to", "m.zarr", *SMALL, "--quiet", change=EAGER).ended()
    assert code == 1 and "first in row 550, column 1" in err and not hidden(place)


def codes(text):
    return {int(code) for code in re.findall(r"(?:^\| |: |; |\()(\d+)(?=[\s)])", text, re.M)}


def test_exit_codes_are_in_the_help_and_in_the_readme(ask):
    table = README[README.index("| code | means") : README.index("`--log json`")]
    assert codes(cli.EXIT_CODES) == codes(table) == {0, 1, 2, 130, 137}
    assert "2 stopped from outside" in " ".join(ask("--help")[1].split())


def test_exit_codes(place, ask, monkeypatch):
    """0 done, 1 wrong, 2 stopped from outside; 2 of SIGTERM, 130 of SIGINT and 137 of SIGKILL in processes."""
    assert ask("info", "d.zarr")[0] == 0 and ask("info", "nowhere")[0] == ask("fit", "--wrong")[0] == 1
    for error, code in (
        (Stopped("gone"), 2),
        (MemoryError("8 GiB"), 1),
        (KeyboardInterrupt(), 130),
        (OSError(5, "x"), 1),
    ):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr(steps, "info", fail)
        found, out, err = ask("info", "d.zarr")
        assert (found, out, err.count("\n")) == (code, "", 1) and err.startswith("ask-dask: "), error
    for number, code in ((signal.SIGTERM, 2), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
        shutil.rmtree(".m.zarr.checkpoint", ignore_errors=True)
        running = job(place, *fit("--quiet"), **SLOW)
        wait_until(Path(".m.zarr.checkpoint").exists, process=running)
        for _ in range(3):  # again when nothing happens, as a person would: a library may swallow the first
            running.send(number)
            running.process.join(5)
        assert running.ended()[0] == code and Path(".m.zarr.checkpoint").exists()


CLOSING = """
import time
from ask_dask.cli import run
show = run.Run.show
run.Run.show = lambda *given: (time.sleep(2), show(*given))
"""


def test_who_is_told_to_stop_when_all_is_done_ends_with_0(place):
    """Else what schedules it starts it again, and is told 1: the model is there already."""
    running = job(place, *fit("--quiet"), change=CLOSING)
    wait_until(Path("m.zarr").exists, process=running)
    running.process.join(1)
    running.send(signal.SIGTERM)
    code, out, err = running.ended()
    assert (code, err) == (0, "") and out.startswith("m.zarr: gamma 1")

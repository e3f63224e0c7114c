"""The command line, run as its users run it: results on stdout, one line on stderr when something is wrong."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from commands import COMMAND, hidden, interrupted, refused
from machines import Machines

from ask_dask import cli, load, store
from ask_dask.ingest.synthetic import make_criteo

SMALL = ("--n-landmarks", "20", "--gamma", "1", "--cv", "3", "--bandwidth", "20")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Raw files, and a store of each kind."""
    folder = tmp_path_factory.mktemp("made")
    before = Path.cwd()
    os.chdir(folder)
    try:
        make_criteo("train.txt", 2000)
        make_criteo("more.txt.gz", 500, random_state=1)
        make_criteo("new.txt", 400, random_state=2)
        for arguments in (
            ("ingest", "criteo", "train.txt", "more.txt.gz", "--to", "data.zarr", "--buckets", "512"),
            ("ingest", "criteo", "new.txt", "--encoder", "data.zarr", "--to", "new.zarr"),
            ("fit", "--data", "data.zarr", "--to", "model.zarr", "--gamma", "1,10", "--n-landmarks", "20,40",
             "--cv", "3", "--kernel", "sne", "--bandwidth", "20"),
            ("predict", "--model", "model.zarr", "--data", "new.zarr", "--to", "predictions.zarr"),
        ):  # fmt: skip
            with pytest.raises(SystemExit) as left:
                cli.main([*arguments, "--quiet"])
            assert left.value.code == 0, arguments
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A folder to work in, with links to what was made."""
    for path in made.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["data", "model", "predictions"])
def test_verify_reads_all_of_a_store_and_names_what_is_damaged(here, ask, name):
    shutil.copytree(f"{name}.zarr", "copy.zarr")
    code, out, _ = ask("verify", "copy.zarr")
    assert code == 0 and out.endswith("all as they were written\n") and out.startswith("copy.zarr: ")
    chunks = sorted(path for path in Path("copy.zarr").rglob("c/*") if path.is_file() and path.stat().st_size > 100)
    hurt = {chunks[0], chunks[-1]}
    for path in hurt:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    code, out, _ = ask("verify", "copy.zarr", "--json")
    found = json.loads(out)
    assert code == 1 and len(found["problems"]) == len(hurt)
    for path in hurt:
        array = path.parts[: path.parts.index("c")]
        assert any(f"{'/'.join(array)} is damaged between rows 0 and" in problem for problem in found["problems"])
    chunks[0].unlink()
    code, out, _ = ask("verify", "copy.zarr")
    assert code == 1 and f"{chunks[0].relative_to('copy.zarr')} is missing" in out
    assert out.endswith(f"{len(hurt)} problem{'s' * (len(hurt) > 1)}\n")
    assert ask("verify", "nowhere.zarr")[0] == 1


def test_demo_makes_everything_and_then_skips_it(tmp_path, ask):
    code, out, err = ask("demo", "--rows", 1000, "--to", tmp_path / "X")
    assert code == 0 and "held-out AUROC" in out and "report.html" in out and "step 6 of 6, report: started" in err
    assert {path.name for path in (tmp_path / "X").iterdir()} == {
        "train.txt", "new.txt", "job.toml", "data.zarr", "new.zarr", "model.zarr", "predictions.zarr", "report.html"
    }  # fmt: skip
    page = (Path(__file__).parents[1] / "cluster" / "README.md").read_text(encoding="utf-8")
    removed = re.search(r"^\$ rm -r (.*?) +#", page, re.M)[1].split()  # so that all of it is to be done again
    left = [path for path in (tmp_path / "X").iterdir() if not any(path.match(Path(name).name) for name in removed)]
    assert {path.name for path in left} == {"train.txt", "new.txt", "job.toml"}
    job, model = tmp_path / "X" / "job.toml", tmp_path / "X" / "model.zarr" / "zarr.json"
    made = model.stat().st_mtime_ns
    for again in (("demo", "--rows", 1000, "--to", tmp_path / "X"), ("run", job)):
        code, out, err = ask(*again)
        assert code == 0 and err.count("skipped") == 5 and model.stat().st_mtime_ns == made
    refused(ask("demo", "--rows", 2000, "--to", tmp_path / "X"), "not of a demo with rows=2000")
    job.write_text(re.sub(r"gamma = \[.*\]", "gamma = [3]", job.read_text()))
    refused(ask("run", job, "--quiet"), f"step 3 of 6, fit: {tmp_path / 'X' / 'model.zarr'} was made with other")
    code, out, err = ask("run", job, "--overwrite", "--json")
    assert code == 0 and [step["skipped"] for step in json.loads(out)] == [True, True, False, False, False, False]
    assert not hidden(tmp_path)


def test_raw_text_and_its_store_give_the_same_predictions(here, ask):
    assert ask("predict", "--model", "model.zarr", "--data", "new.txt", "--to", "raw.zarr")[0] == 0
    text = (here / "new.txt").read_bytes().splitlines(keepends=True)
    (here / "bare.txt").write_bytes(b"".join(line.partition(b"\t")[2] for line in text))
    assert ask("predict", "--model", "model.zarr", "--data", "bare.txt", "--to", "bare.zarr")[0] == 0
    whole, raw, bare = (store.open_store(f"{name}.zarr") for name in ("predictions", "raw", "bare"))
    for name, array in whole.arrays():
        np.testing.assert_array_equal(array[:], raw[name][:], err_msg=name)
        assert name == "y" or (array[:] == bare[name][:]).all()
    assert "y" not in bare and not hidden(here)
    refused(ask("score", "--predictions", "bare.zarr"), "has no labels")
    code, out, _ = ask("score", "--predictions", "raw.zarr", "--json")
    assert code == 0 and json.loads(out)["n"] == 400


def test_each_result_in_words_and_as_json(here, ask):
    predicted = ("--predictions", "predictions.zarr")
    commands = {
        "ingest": ("ingest", "criteo", "new.txt", "--to", "i.zarr", "--buckets", "64"),
        "fit": ("fit", "--data", "data.zarr", "--to", "f.zarr", *SMALL),
        "predict": ("predict", "--model", "model.zarr", "--data", "new.zarr", "--to", "p.zarr"),
        "score": ("score", *predicted),
        "score data": ("score", *predicted, "--data", "new.zarr"),
        "report": ("report", "--model", "model.zarr", "--to", "r.html", *predicted),
    }
    for name, arguments in commands.items():
        code, out, err = ask(*arguments)
        assert code == 0 and out and "Traceback" not in err, name
        more = () if name.startswith("score") else ("--overwrite",)
        code, out, err = ask(*arguments, "--json", "--quiet", *more)
        assert (code, err) == (0, ""), name
        assert json.loads(out)["step"] == name.split()[0]
    for name in ("data", "new", "model", "predictions"):
        found = json.loads(ask("info", f"{name}.zarr", "--json")[1])
        assert found["schema"] == {"new": "dataset", "data": "dataset"}.get(name, name) and found["bytes"] > 0
        assert f"schema: {found['schema']}" in ask("info", f"{name}.zarr")[1]
    code, out, err = ask("fit", "--data", "data.zarr", "--to", "v.zarr", *SMALL, "-v")
    assert code == 0 and out.count("\n") == 1
    assert re.search(r"moments: done, \d shards", err) and re.search(r"moments: \d shards in", err)


def bad_files(folder):
    lines = (folder / "train.txt").read_bytes().splitlines(keepends=True)[:200]
    cells = lines[5].split(b"\t")
    packed = (folder / "more.txt.gz").read_bytes()

    def sixth(line):
        return b"".join([*lines[:5], line, *lines[6:]])

    files = {
        "truncated": b"".join(lines)[:-60],
        "columns": sixth(b"1\t2\n"),
        "label": sixth(b"\t".join([b"2", *cells[1:]])),
        "number": sixth(b"\t".join([cells[0], b"12x", *cells[2:]])),
        "utf": sixth(b"\t".join([*cells[:-1], b"\xff\n"])),
        "empty": b"",
        "one": b"".join(b"1" + line[1:] for line in lines),
        "prose": b"It was a dark and stormy night.\n" * 9,
        "bare": b"".join(line.partition(b"\t")[2] for line in lines),
        "cut.gz": packed[: len(packed) // 2],
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "directory").mkdir()


BAD_FILES = [
    ("truncated", "truncated, line 200: "),
    ("columns", "columns, line 6: 2 columns where 40 are needed"),
    ("label", "label, line 6: label is '2', not 0 or 1"),
    ("number", "number, line 6: column I1 is '12x', not a finite number"),
    ("utf", "utf, line 6: not valid UTF-8 at column C26"),
    ("empty", "empty is empty"),
    ("one", "one has only the label 1"),
    ("prose", "prose, line 1: 1 columns"),
    ("bare", "bare has no column label"),
    ("cut.gz", "cut.gz is cut short or damaged near line"),
    ("directory", "directory is a directory"),
    ("missing", "There is no file missing"),
]


def test_bad_files_are_refused(here, ask):
    bad_files(here)
    for name, message in BAD_FILES:
        refused(ask("ingest", "criteo", name, "--to", "x.zarr", "--buckets", "64", "--quiet"), message)
        if name not in ("one", "bare", "directory"):
            arguments = ("--model", "model.zarr", "--data", name, "--to", "x.zarr", "--quiet")
            refused(ask("predict", *arguments), message)
        assert not hidden(here) and not (here / "x.zarr").exists()
    arguments = ("ingest", "criteo", "truncated", "--to", "x.zarr", "--buckets", "64", "--max-rejects", "0.01")
    code, out, _ = ask(*arguments)
    assert code == 0 and "199 rows" in out and "1 rejected" in out


FIT = ("fit", "--data", "data.zarr", "--quiet")
PREDICT = ("predict", "--data", "new.zarr", "--quiet")
X = ("--to", "x.zarr")
REFUSED = [
    ((*FIT, *X, "--gamma", "0"), "gamma=0.0 must be a finite number above 0"),
    ((*FIT, *X, "--gamma=-1"), "gamma=-1.0 must be a finite number above 0"),
    ((*FIT, *X, "--gamma", "1e308"), "gamma=1e+308 must be from 1e-100 to 1e100"),
    ((*FIT, *X, "--bandwidth", "1e-300"), "bandwidth is 1e-300 and must be from 1e-100 to 1e100"),
    ((*FIT, *X, "--gamma", "a"), "--gamma: input should be a valid number"),
    ((*FIT, *X, "--n-landmarks", "3000"), "n_landmarks=3000 is more than the 2500 rows"),
    ((*FIT, *X, "--cv", "1"), "--cv: input should be greater than or equal to 2 (given '1')"),
    ((*FIT, *X, "--cv", "2400", "--n-landmarks", "9"), "rows of the smallest class: use fewer folds"),
    ((*FIT, *X, "--kernel", "rbf"), "give --bandwidth"),
    ((*FIT, *X, "--memory", "lots"), "--memory: not a size such as 2GiB or 512MiB (given 'lots')"),
    ((*FIT, *X, "--memory", "700MiB", "--n-landmarks", "2000", "--workers=1", "--solver=direct"), "use n_landmarks="),
    ((*FIT, *X, "--seed", "99999999999"), "--seed: input should be less than"),
    ((*FIT, *X, "--gama", "1"), "Unknown option: --gama. Did you mean --gamma?"),
    ((*FIT, *X, "--cluster", "moon"), "There is no cluster 'moon'"),
    ((*FIT, *X, "--workers", "0"), "workers=0 must be 1 or more"),
    ((*FIT, "--to", "model.zarr"), "model.zarr exists already: choose another place, or pass --overwrite"),
    ((*FIT, "--to", "new.zarr", "--overwrite"), "new.zarr is no model store, so it is not replaced"),
    ((*FIT, "--to", "train.txt/x"), "Cannot write train.txt/x"),
    ((*FIT, "--to", "/proc/x"), "Cannot write /proc/x"),
    ((*FIT, "--to", "nosuch://me:secret@host/x"), "nosuch://***@host/x cannot be reached"),
    (FIT, "--to is missing"),
    (("fit", "--data", "model.zarr", *X), "is a model store, where a dataset store is needed"),
    (("fit", "--data", "nowhere", *X), "There is no store at nowhere"),
    ((*PREDICT, *X, "--model", "data.zarr"), "is a dataset store, where a model store is needed"),
    ((*PREDICT, "--to", "/proc/x", "--model", "model.zarr"), "Cannot write /proc/x"),
    (("predict", "--data", "new.txt", "--to", "/proc/x", "--model", "model.zarr"), "Cannot write /proc/x"),
    (("predict", "--data", "model.zarr", *X, "--model", "model.zarr"), "is a model store, where a dataset"),
    (("score", "--predictions", "predictions.zarr", "--data", "data.zarr"), "score against the data that was"),
    (("score", "--predictions", "model.zarr"), "where a predictions store is needed"),
    (("report", "--model", "model.zarr", "--to", "train.txt"), "train.txt exists already"),
    (("report", "--model", "model.zarr", "--to", "/proc/x.html"), "Cannot write /proc/x.html"),
    (("ingest", "criteo", "new.txt", *X, "--memory", "100MiB"), "use a budget of "),
    (("ingest", "criteo", "new.txt", *X, "--encoding-folds", "1"), "--encoding-folds: input should be greater"),
    (("ingest", "criteo", "new.txt", "--to", "new.txt", "--overwrite"), "new.txt is no dataset store"),
    (
        ("ingest", "csv", "new.txt", *X),
        'Unknown command "csv". Available commands: criteo, avazu, graph, table, svmlight, samples',
    ),
    (("ingest", "criteo", "new.txt", *X, "--labels", "l"), "Unknown option: --labels."),
    (("ingest", "criteo", "new.txt"), "--to requires an argument"),
    (("ingest", "graph", *X), "No edge list was given"),
    (("ingest", "graph", "new.txt", *X, "--buckets", "9"), "Unknown option: --buckets"),
    (("ingest", "graph", "new.txt", *X), "new.txt, line 1 has 40 columns: give two ids a line"),
    (("ingest", "graph", "nowhere", *X), "There is no file nowhere"),
    (
        ("ingest", "table", "new.txt", *X, "--label", "y"),
        "column 2 has no name, like the index of a data frame; name it in",
    ),
    (("ingest", "table", "new.txt", *X, "--dtype", "int8"), "--dtype: input should be 'float64' or 'float32'"),
    (("ingest", "samples", "new.txt", *X, "--components", "0"), "--components: input should be greater"),
    (("info", "train.txt"), "train.txt is not a store that ask-dask wrote"),
    (("inof", "data.zarr"), 'Did you mean "info"?'),
    (("demo", "--rows", "10"), "make 1000 or more"),
    ((*FIT, *X, "--memory", "1e400GiB"), "--memory: not a size such as 2GiB"),
    (("run", "nowhere.toml"), "nowhere.toml cannot be read: No such file or directory"),
]


def test_wrong_commands_are_refused(here, ask):
    for arguments, message in REFUSED:
        refused(ask(*arguments), message)
        assert not hidden(here) and not (here / "x.zarr").exists(), arguments


def write_graph(folder):
    (folder / "edges.tsv").write_text("0\t1\n1\t2\n0\t1\n2\t2\n")
    (folder / "labels.txt").write_text("0 a\n2 b\n")
    (folder / "t.csv").write_text("height,kind,id\n1,cat,7\n2,dog,8\n3,dog,9\n")


def test_graphs_and_tables_in_words_and_as_json(here, ask):
    write_graph(here)
    code, out, _ = ask("ingest", "graph", "edges.tsv", "--labels", "labels.txt", "--to", "g.zarr")
    assert code == 0 and out.startswith("g.zarr: 3 nodes, 3 edges, 1 duplicates, 1 self loops, 2 labelled (")
    code, out, _ = ask("ingest", "graph", "edges.tsv", "--to", "g.zarr", "--overwrite", "--json")
    assert code == 0 and json.loads(out)["n_edges"] == 3 and "no labels" in ask(
        "ingest", "graph", "edges.tsv", "--to", "g.zarr", "--overwrite"
    )[1]  # fmt: skip
    code, out, _ = ask("ingest", "table", "t.csv", "--label", "kind", "--drop", "id,", "--to", "t.zarr")
    assert code == 0 and out.startswith("t.zarr: 3 rows x 1 features (")
    for name, found in (("g", "n_edges: 3"), ("t", "format: table")):
        assert found in ask("info", f"{name}.zarr")[1] and not hidden(here)


@pytest.mark.parametrize("kind", ["criteo", "avazu", "graph", "table", "svmlight", "samples"])
def test_help_of_each_kind_of_file(ask, kind):
    code, out, err = ask("ingest", kind, "--help")
    assert (code, err) == (0, "") and f"ask-dask ingest {kind} --to PATH" in out and "--overwrite" in out
    assert ("--buckets" in out) == (kind in ("criteo", "avazu"))


STEP = '[[step]]\ndo = "fit"\ndata = "data.zarr"\nto = "x.zarr"\n'
INGEST = '[[step]]\ndo = "ingest"\nfiles = "new.txt"\nto = "x.zarr"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "cannot be read as TOML"),
        ("", "step is missing"),
        ("other = 1\n" + STEP, "other: there is no such option here"),
        (STEP + "gama = 1", "job.toml, step 1 (fit): gama: there is no such option here"),
        (STEP + 'gamma = "a"', "step 1 (fit): gamma: input should be a valid number"),
        (STEP + 'memory = "lots"', "step 1 (fit): memory: not a size such as 2GiB"),
        (STEP + '[[step]]\ndo = "fly"', "step 2 (fly): do: is one of make, ingest, fit, embed, predict, score, report"),
        ('[[step]]\nto = "a"', "step 1 (no do): do is missing"),
        (INGEST, "step 1 (ingest): format is missing"),
        (
            INGEST + 'format = "csv"',
            "(ingest): format: is one of criteo, avazu, graph, table, svmlight, samples (given 'csv')",
        ),
        (INGEST + 'format = "graph"\nbuckets = 9', "step 1 (ingest): buckets: there is no such option here"),
        (INGEST + 'format = "criteo"\nlabels = "l"', "step 1 (ingest): labels: there is no such option here"),
        (INGEST + 'format = "samples"\ndraws = "x"', "step 1 (ingest): draws: input should be a valid integer"),
        ('[[step]]\ndo = "ingest"\nformat = "table"\nto = "x"', "step 1 (ingest): files is missing"),
        ('[[step]]\ndo = "fit"\nto = "a"', "step 1 (fit): data is missing"),
        (STEP.replace("data.zarr", "nowhere"), "step 1 of 1, fit: There is no store at"),
    ],
)
def test_wrong_jobs_are_refused(here, ask, text, message):
    (here / "job.toml").write_text(text)
    refused(ask("run", "job.toml", "--quiet"), message)


def test_what_steps_have_found_is_told_though_a_later_one_fails(here, ask):
    (here / "job.toml").write_text(STEP + '[[step]]\ndo = "predict"\nmodel = "x.zarr"\ndata = "nowhere"\nto = "p.zarr"')
    code, out, err = ask("run", "job.toml", "--overwrite", "--quiet")
    assert code == 1 and re.fullmatch(r"\S*x.zarr: gamma .*\n", out) and "step 2 of 2, predict: There is no" in err
    assert refused(ask("run", "job.toml", "--quiet", "--json"), "step 2 of 2, predict: There is no")


def test_a_resonance_is_one_line(here, ask):
    arguments = ("fit", "--data", "data.zarr", "--to", "x.zarr", "--bandwidth", "5", "--n-landmarks", "20", "--quiet")
    assert ask(*arguments, "--gamma", "1")[0] == 0
    values = load("x.zarr").singular_values_
    code, _, err = ask(*arguments, "--gamma", repr(float(1 / values[2])), "--overwrite")
    assert code == 0 and err.count("\n") == 1 and err.startswith("Warning: ") and "gamma" in err


def test_damage_is_named_and_never_a_number(here, ask):
    for name, array in (("new", "X"), ("model", "row_points"), ("model", "encoder/sums"), ("predictions", "score")):
        damaged = shutil.copytree(here / f"{name}.zarr", here / f"{name}-damaged.zarr", dirs_exist_ok=True)
        file = next(file for file in (damaged / array).rglob("*") if file.is_file() and file.name != "zarr.json")
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 4
        file.write_bytes(content)
        arguments = {
            "X": ("predict", "--model", "model.zarr", "--data", damaged, *X),
            "row_points": ("predict", "--model", damaged, "--data", "new.zarr", *X),
            "encoder/sums": ("predict", "--model", damaged, "--data", "new.txt", *X),
            "score": ("score", "--predictions", damaged),
        }[array]
        refused(ask(*arguments, "--quiet"), f"{damaged.name}/{array} is damaged")
        assert not hidden(here) and not (here / "x.zarr").exists()
        shutil.rmtree(damaged)


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("ingest", signal.SIGINT),
        ("ingest", signal.SIGTERM),
        ("fit", signal.SIGTERM),
        ("predict", signal.SIGINT),
    ],
)
@pytest.mark.slow
def test_an_interrupted_command_leaves_nothing_and_runs_again(here, ask, command, number):
    arguments = {
        "ingest": ["ingest", "criteo", "train.txt", "--to", "x.zarr", "--quiet"],
        "fit": ["fit", "--data", "data.zarr", "--to", "x.zarr", "--n-landmarks", "1500", "--quiet"],
        "predict": ["predict", "--model", "model.zarr", "--data", "train.txt", "--to", "x.zarr", "--quiet"],
    }[command]
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not hidden(here):
        time.sleep(0.01)
    assert interrupted(process, number)
    assert not hidden(here) and not (here / "x.zarr").exists()
    assert command == "fit" or ask(*arguments)[0] == 0


def test_a_closed_pipe_is_no_error(here):
    command = f"{sys.executable} -c 'from ask_dask.cli import main; main()' info data.zarr | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "path: data.zarr\n", "")


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-", "2> >(exec true)", "2>&- >&- <&-"],
                         ids=["full", "closed", "gone", "all closed"])  # fmt: skip
def test_nobody_who_hears_of_progress_is_no_error(here, tmp_path, stderr):
    program = f"{sys.executable} -c 'import sys; from ask_dask.cli import main; main(sys.argv[1:])'"
    command = f"{program} fit --data data.zarr --to {tmp_path}/m.zarr --bandwidth 9 --gamma 1 --cv 2 --n-landmarks 9"
    code = subprocess.run(["bash", "-c", f"{command} {stderr}"], stdout=subprocess.DEVNULL, check=False).returncode
    assert code == 0 and load(tmp_path / "m.zarr").n_landmarks_ == 9


def test_a_result_that_cannot_be_printed(here):
    command = f"{sys.executable} -c 'from ask_dask.cli import main; main()' info data.zarr > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    said = "The result could not be printed (No space left on device): what was made is complete."
    assert refused((done.returncode, done.stdout, done.stderr), said)


def assert_same_model(one, other):
    X = store.open_store("new.zarr")["X"][:]
    values = (load(path).decision_function(X) for path in (one, other))
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_whole_fit_on_processes(here, ask):
    fit = ("fit", "--data", "data.zarr", *SMALL, "--quiet")
    assert ask(*fit, "--to", "threads.zarr")[0] == 0
    code, out, err = ask(*fit, "--to", "processes.zarr", "--cluster", "processes", "--workers", 2)
    assert (code, err) == (0, "") and out.startswith("processes.zarr: gamma 1, 20 landmarks")
    assert_same_model("processes.zarr", "threads.zarr")


def test_a_whole_fit_on_a_scheduler(here, ask):
    fit = ("fit", "--data", "data.zarr", *SMALL, "--quiet")
    assert ask(*fit, "--to", "threads.zarr")[0] == 0
    machines = Machines(here, workers=1, pause=0)
    try:
        assert ask(*fit, "--to", "file.zarr", "--cluster", machines.file)[0] == 0
        address = json.loads(machines.file.read_text())["address"]
        assert ask(*fit, "--to", "address.zarr", "--cluster", address)[0] == 0
    finally:
        machines.close()
    for name in ("file.zarr", "address.zarr"):
        assert_same_model(name, "threads.zarr")


def test_many_names_of_a_file(here, ask):
    (here / "a b").mkdir()
    shutil.copy(here / "more.txt.gz", here / "a b" / "ünïcode 数.txt.gz")
    code, out, _ = ask("ingest", "criteo", "a b/ünïcode 数.txt.gz", "--to", "a b/d 数.zarr", "--buckets", "64")
    assert code == 0 and out.startswith("a b/d 数.zarr: 500 rows")
    assert ask("info", here / "a b" / "d 数.zarr")[0] == 0

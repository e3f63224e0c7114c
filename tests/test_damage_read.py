"""A flipped byte in any array of a store, and every command that reads it: damage is named, or was in nobody's way."""

import os
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ask_dask import cli, store
from ask_dask.ingest.synthetic import make_criteo

QUICK = ("--gamma", "1", "--cv", "2", "--seed", "1")
FEW = ("--n-landmarks", "20", "--bandwidth", "9", *QUICK)
MAKING = {
    "data.zarr": ("ingest", "criteo", "train.txt", "--buckets", "64"),
    "table.zarr": ("ingest", "table", "points.csv", "--label", "y", "--weight", "w"),
    "sparse.zarr": ("ingest", "svmlight", "points.svm"),
    "graph.zarr": ("ingest", "graph", "edges.txt", "--labels", "labels.txt"),
    "samples.zarr": ("ingest", "samples", "samples.txt", "--labels", "some.txt", "--components", "1", "--draws", "20"),
    "model.zarr": ("fit", "--data", "data.zarr", *FEW),
    "graph-model.zarr": ("fit", "--data", "graph.zarr", "--exact", *QUICK),
    "embedding.zarr": (
        "embed",
        "--data",
        "table.zarr",
        "--bandwidth",
        "9",
        "--n-components",
        "3",
        "--n-landmarks",
        "20",
    ),
    "predictions.zarr": ("predict", "--model", "model.zarr", "--data", "data.zarr"),
}
"""What makes each store, in an order in which each finds what it needs."""

READING = [
    ("data.zarr", MAKING["model.zarr"]),
    ("data.zarr", ("score", "--predictions", "predictions.zarr", "--data", "data.zarr")),
    ("table.zarr", ("fit", "--data", "table.zarr", *FEW)),
    ("sparse.zarr", ("fit", "--data", "sparse.zarr", *FEW)),
    ("graph.zarr", MAKING["graph-model.zarr"]),
    ("graph.zarr", ("predict", "--model", "graph-model.zarr", "--data", "graph.zarr")),
    ("samples.zarr", ("fit", "--data", "samples.zarr", "--exact", "--damping", "1", *QUICK)),
    (
        "samples.zarr",
        ("fit", "--data", "samples.zarr", "--n-landmarks", "9", "--landmarks", "stratified", "--damping", "1", *QUICK),
    ),
    ("model.zarr", MAKING["predictions.zarr"]),
    ("model.zarr", ("report", "--model", "model.zarr")),
    ("embedding.zarr", ("report", "--embedding", "embedding.zarr")),
    ("predictions.zarr", ("score", "--predictions", "predictions.zarr")),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small store of each kind."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("made"))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 2)).round(3)
    make_criteo("train.txt", 200)
    Path("points.csv").write_text("a,b,y,w\n" + "".join(f"{a},{b},{i % 2},1.5\n" for i, (a, b) in enumerate(rows)))
    Path("points.svm").write_text("".join(f"{i % 2} 1:{a} 3:{b}\n" for i, (a, b) in enumerate(rows)))
    Path("edges.txt").write_text("".join(f"{a} {b}\n" for a, b in rng.integers(0, 60, (400, 2))))
    Path("labels.txt").write_text("".join(f"{i} {i % 2}\n" for i in range(60)))
    Path("samples.txt").write_text("".join(f"i{i % 20} {a + i % 2} {b}\n" for i, (a, b) in enumerate(rows)))
    Path("some.txt").write_text("".join(f"i{i} {i % 2}\n" for i in range(20)))
    try:
        for name, command in MAKING.items():
            with pytest.raises(SystemExit) as left:
                cli.main([*command, "--to", name, "--quiet"])
            assert left.value.code == 0, name
        yield Path.cwd()
    finally:
        os.chdir(before)


def result(ask, command):
    """Exit code, what is on stderr, and all that came of it: what was printed, arrays byte for byte, a page."""
    to = () if command[0] == "score" else ("--to", "out")
    code, out, err = ask(*command, *to, "--quiet", *("--json",) * (not to))
    files = [Path("out")] if Path("out").is_file() else sorted(Path("out").rglob("c/*"))
    content = {str(file): file.read_bytes() for file in files if file.is_file()}
    store.remove(Path("out"))
    return code, err, (content, "" if to else out)


@pytest.fixture
def damaged(made, monkeypatch):
    """Flip a byte in the first file of each array of a store: {array: a function that puts it right}."""
    monkeypatch.chdir(made)
    whole = {}

    def flip(name):
        for file in sorted(Path(name).rglob("*"), reverse=True):
            if file.is_file() and file.name != "zarr.json":
                whole["/".join(file.parts[: file.parts.index("c")])] = partial(file.write_bytes, file.read_bytes())
        for right in whole.values():
            (content,), middle = right.args, len(right.args[0]) // 2
            right.func(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        return whole

    yield flip
    for right in whole.values():
        right()


@pytest.mark.parametrize(("name", "command"), READING, ids=lambda value: value if isinstance(value, str) else value[0])
def test_damage_of_any_array_is_named_by_whoever_reads_it(damaged, ask, name, command):
    """One after another, until what is damaged still is not read."""
    code, err, whole = result(ask, command)
    assert (code, err) == (0, "") and any(whole)
    left = damaged(name)
    code, err, found = result(ask, command)
    assert code == 1
    while code:
        assert (code, err.count("\n"), found[0]) == (1, 1, {}), err
        (named,) = re.findall(rf"({name}/\S+) is damaged between rows \d+ and", err)
        left.pop(named)()
        code, err, found = result(ask, command)
    assert found == whole and err == ""

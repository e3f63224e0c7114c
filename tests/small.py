"""Small graphs, tables, samples and matrices as files, and a dataset store of each."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

from ask_dask import cli

QUICK = ("--cv", "2", "--gamma", "0.5")
"""Options of a quick fit."""


def graph_files(rng):
    """A graph of 90 nodes whose edges run from one class to the next, labels of 60 and of 30; and another graph."""
    code = np.arange(90) % 3
    ends = [(i, int(j)) for i in range(90) for j in rng.integers(0, 90, 16)]
    edges = "".join(f"n{i} n{j}\n" for i, j in ends if code[j] == (code[i] + (rng.random() < 0.8)) % 3)
    every = [f"n{i} {'abc'[code[i]]}\n" for i in range(90)]
    return {
        "edges.txt": edges, "other.txt": edges + "n0 n3\nn3 n6\nn6 n0\n",
        "nodes.txt": "".join(f"n{i}\n" for i in range(90)),
        "train.txt": "".join(every[:60]), "test.txt": "".join(every[60:]), "column.txt": "1\n2\n",
        "unknown.txt": "n1 a\nzz b\n",
    }  # fmt: skip


def table_files(rng):
    """A table with labels of every kind, and tables of point numbers."""
    X = rng.random((80, 4))
    one, two = (X[:, 0] > X[:, 1]).astype(int), (X[:, 2] > 0.5).astype(int)
    real = (X[:, 0] - X[:, 3]).round(6)
    rows = [
        ",".join(map(str, [*X[i].round(6), real[i], one[i], two[i], ["no", "yes"][one[i]], 1 + 9 * (i % 2), i]))
        for i in range(80)
    ]
    return {
        "t.csv": "a,b,c,d,real,one,two,kind,w,node\n" + "\n".join(rows) + "\n",
        "signed.csv": "a,b,one\n" + "".join(f"{-1 if i == 20 else i % 3},{+(i != 19)},{i % 2}\n" for i in range(21)),
        "far.csv": "node\n3\n200\n", "half.csv": "node\n3\n2.5\n",
    }  # fmt: skip


def sample_files(rng):
    points = "".join(f"i{i} {3 * (i % 2) + rng.normal():.3f} {rng.normal():.3f}\n" for i in range(20) for _ in range(9))
    every = [f"i{i} {'ab'[i % 2]}\n" for i in range(20)]
    return {"points.txt": points, "some.txt": "".join(every[:14]), "rest.txt": "".join(every[14:])}


INGESTED = {
    "g": "graph edges.txt --nodes nodes.txt --labels train.txt",
    "more": "graph edges.txt --nodes nodes.txt --labels test.txt",
    "other": "graph other.txt --nodes nodes.txt --labels test.txt",
    "real": "table t.csv --label real --drop one,two,kind,w,node",
    "light": "table t.csv --label real --weight w --drop one,two,kind,node",
    "multi": "table t.csv --label one,two --drop real,kind,w,node",
    "counts": "table t.csv --label one,node --drop real,two,kind,w",
    "kind": "table t.csv --label kind --drop real,one,two,w,node",
    "node": "table t.csv --label real --drop a,b,c,d,one,two,kind,w",
    "far": "table far.csv",
    "half": "table half.csv",
    "signed": "table signed.csv --label one",
    "s": "samples points.txt --labels some.txt --components 1 --draws 50",
    "s2": "samples points.txt --labels rest.txt --components 1 --draws 50",
}


def make(folder):
    """Write everything into a folder: raw files, a store of each kind, matrices good and bad."""
    rng = np.random.default_rng(0)
    for name, text in {**graph_files(rng), **table_files(rng), **sample_files(rng)}.items():
        (folder / name).write_text(text)
    X = rng.random((80, 2))
    K = np.exp(-((X[:, None] - X) ** 2).sum(2) * (1 + 3 * X[:, :1]))
    holed = np.where(np.arange(80) == 7, np.nan, K)
    for name, matrix in {"K": K, "wide": K[:50], "holed": holed, "deep": K[None], "text": K.astype("U8")}.items():
        with warnings.catch_warnings(action="ignore"):
            zarr.save_array(folder / f"{name}.zarr", matrix)
    before = Path.cwd()
    os.chdir(folder)
    try:
        for name, arguments in INGESTED.items():
            with pytest.raises(SystemExit) as left:
                cli.main(["ingest", *arguments.split(), "--to", f"{name}.zarr", "--quiet"])
            assert left.value.code == 0, name
    finally:
        os.chdir(before)
    return folder

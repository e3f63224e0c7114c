"""What fit, ingest and predict refuse of graphs, tables and samples: one sentence, and nothing left behind."""

from pathlib import Path

import pytest
from commands import hidden, refused
from small import QUICK


@pytest.fixture
def here(small, tmp_path, monkeypatch):
    """A folder to work in, with links to what was made."""
    for path in small.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


FIT = ("fit", *QUICK, "--to", "x.zarr", "--data")
MATRIX = (*FIT, "node.zarr", "--n-landmarks", "9", "--kernel", "precomputed", "--matrix")
SIGNED = (*FIT, "signed.zarr", "--n-landmarks", "9")
REFUSED = [
    (("fit", "--to", "x.zarr", "--data", "kind.zarr", "--gamma", ","), "gamma is an empty list: give at least one"),
    (("fit", "--to", "x.zarr", "--data", "kind.zarr", "--gamma", "1,,2"), "--gamma: a value is missing beside a comma"),
    (("ingest", "graph", "edges.txt,,", "--to", "x.zarr"), "a value is missing beside a comma"),
    ((*FIT, "real.zarr", "--class-weight", "balanced"), "--class-weight is of classes, and this is a regression"),
    ((*FIT, "real.zarr", "--task", "classification"), "y holds continuous values"),
    ((*FIT, "kind.zarr", "--task", "regression"), "give numbers"),
    ((*FIT, "kind.zarr", "--scoring", "r2"), "scoring='r2' must be one of auroc, log_loss, accuracy"),
    ((*FIT, "counts.zarr"), "The label columns of counts.zarr are not all 0 or 1: for numbers give --task regression"),
    ((*FIT, "kind.zarr", "--solver", "minres", "--ridge", "1"), "ridge goes with solver='direct', not 'minres'"),
    ((*FIT, "kind.zarr", "--exact", "--compare-exact"), "--compare-exact is of landmarks, and --exact has none"),
    ((*FIT, "kind.zarr", "--n-landmarks", ","), "n_landmarks=[] must be one or more whole numbers above 0"),
    ((*FIT, "kind.zarr", "--kernel", "graph"), "kind.zarr holds no graph: make it with ask-dask ingest graph."),
    ((*FIT, "g.zarr", "--kernel", "sne"), "the rows of g.zarr are numbers of nodes: use --kernel graph"),
    ((*FIT, "s.zarr", "--kernel", "kl-gaussian"), "the rows of s.zarr are numbers of items: use --kernel kl"),
    ((*FIT, "g.zarr", "--bandwidth", "3"), "The graph kernel has no --bandwidth, which is of sne, rbf, laplacian"),
    (
        (*FIT, "kind.zarr", "--matrix", "K.zarr"),
        "The sne kernel has no --matrix, which is of precomputed",
    ),
    ((*FIT, "kind.zarr", "--no-self-loops"), "The sne kernel has no --self-loops, which is of graph"),
    ((*SIGNED, "--kernel", "kl"), "signed.zarr, row 20 holds -1 in column 'a'"),
    ((*SIGNED, "--kernel", "conditional-probability"), "row 20 holds -1 in column 'a', and this kernel"),
    ((*SIGNED, "--kernel", "kl-gaussian"), "row 19 holds 0 in column 'b', and this kernel takes means, then as many"),
    ((*FIT, "real.zarr", "--kernel", "precomputed"), "give --matrix, the path of a zarr array"),
    ((*MATRIX, "nowhere.zarr"), "nowhere.zarr is not a zarr array of format 3: give --matrix the path of one"),
    ((*MATRIX, "t.csv"), "t.csv is not a zarr array"),
    ((*MATRIX, "kind.zarr"), "kind.zarr is not a zarr array"),
    ((*MATRIX, "wide.zarr"), "wide.zarr is an array of shape (50, 80) and dtype float64, and a kernel matrix must be"),
    ((*MATRIX, "deep.zarr"), "deep.zarr is an array of shape (1, 80, 80)"),
    ((*MATRIX, "text.zarr"), "text.zarr is an array of shape (80, 80) and dtype <U8"),
    ((*MATRIX, "holed.zarr"), ", 7] is nan: every entry of a kernel must be finite"),
    (("ingest", "graph", "column.txt", "--to", "x.zarr"), "column.txt, line 1 has 1 column: give two ids a line"),
    (("ingest", "graph", "edges.txt", "--labels", "unknown.txt", "--to", "x.zarr"), "unknown.txt, line 2: a label for"),
    (("ingest", "samples", "points.txt", "--labels", "unknown.txt", "--to", "x.zarr"), "unknown.txt, line 1: the item"),
]


def test_wrong_fits_are_refused(here, ask):
    for arguments, message in REFUSED:
        refused(ask(*arguments, "--quiet"), message)
        assert not hidden(here) and not Path("x.zarr").exists(), arguments


def test_wrong_predictions_are_refused(here, ask, done):
    kernel = ("--kernel", "precomputed", "--matrix", "K.zarr")
    done("fit", "--data", "node.zarr", "--to", "k.zarr", *QUICK, "--n-landmarks", "20", *kernel)
    done("fit", "--data", "g.zarr", "--to", "m.zarr", *QUICK, "--n-landmarks", "20")
    done("fit", "--data", "real.zarr", "--to", "r.zarr", *QUICK, "--n-landmarks", "20")
    for model, data, message in (
        ("k", "far", "X names the point 200 (row 1 of those given), and the kernel has the points 0 to 79"),
        ("k", "half", "X names the point 2.5 (row 1 of those given)"),
        ("m", "other", "other.zarr was not made as the data of m.zarr: it is another graph"),
        ("m", "node", "the model is of the format graph, and this is table"),
        ("r", "signed", "it has other columns"),
    ):
        refused(
            ask("predict", "--model", f"{model}.zarr", "--data", f"{data}.zarr", "--to", "x.zarr", "--quiet"), message
        )
        assert not hidden(here) and not Path("x.zarr").exists()

"""Edge lists and labels in, a store with the graph out; what is not right is refused with its line."""

import gzip

import fsspec
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ask_dask import store
from ask_dask.errors import BudgetError, InputError, StoreError
from ask_dask.ingest import files as raw
from ask_dask.ingest import ingest_graph, read_graph


@pytest.fixture
def made(tmp_path):
    """Ingest edges (text of one file, or {name: text}) with labels and nodes as text; returns the open store."""

    def make(edges, labels=None, nodes=None, to="g.zarr", **options):
        texts = edges if isinstance(edges, dict) else {"edges.tsv": edges}
        beside = {"labels": labels, "nodes": nodes}
        for name, text in {**texts, **{f"{k}.txt": v for k, v in beside.items() if v is not None}}.items():
            content = text if isinstance(text, bytes) else text.encode()
            (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        paths = {k: tmp_path / f"{k}.txt" for k, v in beside.items() if v is not None}
        files = [tmp_path / name for name in texts]
        ingest_graph(files, tmp_path / to, **paths, **{"overwrite": True} | options)
        return store.open_store(tmp_path / to, "dataset")

    return make


def facts(group, *names):
    about = store.about(group)
    return [about[name] for name in names] if len(names) > 1 else about[names[0]]


COUNTS = ("n_nodes", "n_edges", "duplicate_edges", "self_loops")


def two_columns(path):
    """Index and class of the file that also has the papers' ids."""
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    return "".join(f"{index}\t{label}\n" for index, _, label in lines)


@pytest.mark.parametrize(
    ("name", "labels", "counts", "classes"),
    [
        ("cora", "labels.txt", [2708, 5429, 0, 0], 7),
        ("citeseer", "labels.tsv", [3312, 4715, 0, 124], 6),
        ("pubmed", "labels.txt", [19717, 44338, 0, 3], 3),
    ],
)
def test_real_graphs(made, data, name, labels, counts, classes):
    path = data / name / labels
    text = two_columns(path) if name == "citeseer" else path.read_text()
    group = made((data / name / "directed_edges.tsv").read_text(), text)
    assert facts(group, *COUNTS) == counts and len(facts(group, "label_counts")) == classes
    np.testing.assert_array_equal(group["X"][:], np.arange(counts[0])[:, None])
    np.testing.assert_array_equal(group["y"][:], [int(line.split("\t")[-1]) for line in text.splitlines()])
    edges = np.loadtxt(data / name / "directed_edges.tsv", dtype=int)
    wanted = sp.coo_matrix((np.ones(len(edges)), edges.T), shape=(counts[0],) * 2).tocsr()
    assert (read_graph(group) != wanted).nnz == 0 and "names" not in group


def test_the_authors_kernel_of_cora_is_in_the_store(made, data):
    mat = scipy.io.loadmat(data / "cora" / "askls_authors_cora.mat")
    group = made((data / "cora" / "directed_edges.tsv").read_text())
    a = (read_graph(group) + sp.identity(2708)).T.toarray()
    G = mat["G"].toarray() if sp.issparse(mat["G"]) else mat["G"]
    np.testing.assert_allclose(a / a.sum(1, keepdims=True), G, atol=1e-12)


def test_papers_with_their_own_ids(made, data):
    text = (data / "cora" / "cora.cites").read_text()
    ids = sorted({int(part) for part in text.split()})
    listed = made(text, nodes="".join(f"{i}\n" for i in ids))
    assert facts(listed, *COUNTS) == [2708, 5429, 0, 0] and listed["names"][:].tolist() == [str(i) for i in ids]
    named = made("p" + text.replace("\t", "\tp").replace("\n", "\np")[:-1], to="n.zarr")
    assert facts(named, *COUNTS) == [2708, 5429, 0, 0] and named["names"][0] == "p35"
    assert facts(made(text, to="own.zarr"), "n_nodes") == max(ids) + 1


SAME = [
    "0\t1\n1\t2\n2\t2\n",
    "0,1\n1,2\n2,2",
    "0 1\n1 2\n2 2\n",
    "  0    1 \n1 \t 2\n\t2 2\n",
    "0, 1\r\n1, 2\r\n2, 2\r\n",
    "# from to\n\n0\t1\n% more\n1\t2\n   \n  # indented\n2\t2\n\n",
    "\ufeff0\t1\n1\t2\n2\t2\n",
]


@pytest.mark.parametrize("text", SAME)
def test_ways_to_write_the_same_edges(made, text):
    group = made(text)
    assert read_graph(group).toarray().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert facts(group, *COUNTS) == [3, 3, 0, 1] and group["X"][:].ravel().tolist() == [0, 1, 2]
    assert "y" not in group and facts(group, "label_counts") is None
    assert facts(group, "files")[0]["rows"] == 3


def test_the_store_is_what_the_docstring_says(made):
    group = made("0 1 .5\n1 0 2\n0 1 1\n", "a\nb\n", facts={"recipe": {"a": 1}})
    graph = group["graph"]
    assert {n: graph[n].dtype for n in graph.array_keys()} == {"indptr": int, "indices": int, "data": float}
    assert graph["data"][:].tolist() == [1.5, 2] and facts(group, "n_edges", "duplicate_edges", "weighted") == [
        2,
        1,
        True,
    ]
    assert group["X"].dtype == np.int64 and group["y"][:].tolist() == ["a", "b"] and group["y"].dtype.kind == "U"
    assert facts(group, "recipe", "format", "n_rows", "n_features") == [{"a": 1}, "graph", 2, 1]
    assert [step["step"] for step in facts(group, "steps")] == ["read", "write"]


def test_duplicates_count_once_without_weights(made):
    group = made("0 1\n0 1\n1 1\n1 1\n1 0\n")
    assert read_graph(group).toarray().tolist() == [[0, 1], [1, 1]] and facts(group, *COUNTS) == [2, 3, 2, 1]


def test_ids_of_any_kind_in_order_of_appearance(made):
    group = made("b,New York\n007,b\nnode é,7\n", "7,2\nb,1\n")
    assert group["names"][:].tolist() == ["b", "New York", "007", "node é", "7"]
    assert group["X"][:].ravel().tolist() == [0, 4] and group["y"][:].tolist() == [1, 2]
    assert read_graph(group).nonzero()[1].tolist() == [1, 0, 4]


def test_numbers_that_turn_out_to_be_names(made, monkeypatch):
    text = "".join(f"{i % 7} {i % 5}\n" for i in range(100)) + "x 3\n3 9\n"
    whole = made(text)
    assert whole["names"][:].tolist() == ["0", "1", "2", "3", "4", "5", "6", "x", "9"]
    monkeypatch.setattr(raw, "PIECE_BYTES", 64)
    parted = made(text, to="p.zarr")
    assert facts(parted, "fingerprint") == facts(whole, "fingerprint")
    assert (read_graph(parted) != read_graph(whole)).nnz == 0


def test_files_may_be_many_and_compressed(made):
    one = made("0 1\n1 2\n0 1\n")
    many = made({"a.tsv": "0\t1\n", "b.csv.gz": "1,2\n", "c.txt": "0 1\n"}, to="m.zarr")
    assert facts(one, "fingerprint", *COUNTS) == facts(many, "fingerprint", *COUNTS)
    assert [file["rows"] for file in facts(many, "files")] == [1, 1, 1]


def test_a_url(made, tmp_path):
    with fsspec.open("memory://me:secret@host/e.tsv", "wb") as file:
        file.write(b"0\t1\n")
    ingest_graph(["memory://me:secret@host/e.tsv"], tmp_path / "u.zarr")
    assert "secret" not in (tmp_path / "u.zarr" / "zarr.json").read_text()


def test_labels(made):
    assert facts(made("0 1\n", "5\n6\n5\n"), "n_nodes", "label_counts") == [3, {"5": 2, "6": 1}]
    some = made("0 1\n2 3\n", "3 +1\n# a comment\n1 -1\n")
    assert some["X"][:].tolist() == [[1], [3]] and some["y"][:].tolist() == [-1, 1] and some["y"].dtype == np.int64
    text = made("0 1\n", "0\tNeural Networks\n1\tTheory\n")
    assert text["y"][:].tolist() == ["Neural Networks", "Theory"]
    ordered = made("b a\n", "1\n2\n3\n", nodes="a\nb\nNew York\n")
    assert ordered["y"][:].tolist() == [1, 2, 3] and read_graph(ordered)[1, 0] == 1 and facts(ordered, "n_nodes") == 3


def test_fingerprints_tell_graphs_and_labels_apart(made):
    about = [
        store.about(made(*arguments))
        for arguments in (("0 1\n", "0\n1\n"), ("0\t1\n", "0\n1\n"), ("0 1\n", "0\n2\n"), ("1 0\n", "0\n1\n"),
                          ("a b\n", None), ("b a\n", None))
    ]  # fmt: skip
    graphs, whole = ([a[name] for a in about] for name in ("encoder_fingerprint", "fingerprint"))
    assert graphs[0] == graphs[1] == graphs[2] and len(set(graphs)) == 4
    assert whole[0] == whole[1] and len(set(whole)) == 5


@settings(max_examples=25, deadline=None)
@given(edges=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=60),
       piece=st.integers(5, 400), named=st.booleans())  # fmt: skip
def test_any_graph_in_any_pieces(tmp_path_factory, edges, piece, named):
    folder = tmp_path_factory.mktemp("any")
    name = "n{}".format if named else str
    (folder / "e.txt").write_text("".join(f"{name(a)} {name(b)}\n" for a, b in edges))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw, "PIECE_BYTES", piece)
        ingest_graph(folder / "e.txt", folder / "g.zarr")
    group = store.open_store(folder / "g.zarr")
    names = group["names"][:].tolist() if "names" in group else [str(i) for i in range(facts(group, "n_nodes"))]
    found = read_graph(group).tocoo()
    pairs = {(names[i], names[j]) for i, j in zip(found.row, found.col, strict=True)}
    assert pairs == {(name(a), name(b)) for a, b in edges} and len(pairs) == found.nnz == facts(group, "n_edges")
    assert facts(group, "duplicate_edges") == len(edges) - len(set(edges))
    assert facts(group, "self_loops") == sum(a == b for a, b in set(edges))


REFUSED = [
    (("0\n1\n",), r"edges.tsv, line 1 has 1 column: give two ids"),
    (("0 1\n# x\n2\n",), r"edges.tsv, line 3 has 1 column and the lines before it 2: give two ids"),
    (("0 1 1 1\n",), r"edges.tsv, line 1 has 4 columns"),
    (("0 1\n1 2 3\n",), r"line 2 has 3 columns and the lines before it 2"),
    ((b"0\t1\n\xff\t2\n",), r"line 2: not valid UTF-8"),
    (("0\t1\n\t2\n",), r"line 2: column 1 is empty"),
    (("0\t1\n2\r3\t4\n",), r"line 2: a carriage return inside the line"),
    (("# nothing\n\n",), r"edges.tsv has no edges: give two ids"),
    (("",), r"edges.tsv is empty"),
    (("from,to\n0,1\n",), r"line 1: 'from' and 'to' are names of columns"),
    (("0 1 1\n0 1 x\n",), r"line 2: the weight 'x' is no finite number above 0"),
    (("0 1 1\n0 1 -1\n",), r"line 2: the weight '-1'"),
    (("0 1 0\n",), r"line 1: the weight '0'"),
    (("0 1 nan\n",), r"column 3 is 'nan', a mark of a missing value"),
    (("0 1 inf\n",), r"the weight 'inf'"),
    (("0 1 1e400\n",), r"the weight '1e400'"),
    (("0 1 1e308\n0 1 1e308\n",), r"sum to infinity"),
    (({"a": "0 1\n", "b": "0 1 1\n"},), r"b, line 1 has 3 columns: give two ids .* in all files or in none"),
    (("5 99999999999\n",), r"Node numbers run to 99999999999 and there are 1 edges: give --nodes"),
    (("0 1\n", "1\n"), r"edges.tsv, line 1: node 1 is beyond the 1 labels of .*labels.txt, .* nodes 0 to 0"),
    (("0 1\n", "1\n\n2\n"), r"labels.txt, line 2 is blank"),
    (("0 1\n", "0 a\n2 b\n"), r"labels.txt, line 2: a label for the unknown node '2', no edge names a node beyond 1"),
    (("0 1\n", "0 a\nx b\n"), r"labels.txt, line 2: a label for the unknown node 'x'"),
    (("a b\n", "a 1\nc 1\n"), r"labels.txt, line 2: a label for the unknown node 'c', no edge names it"),
    (("a b\n", "c 1\n", "a\nb\n"), r"labels.txt, line 1: a label for the unknown node 'c', nodes.txt lacks it"),
    (("0 1\n", "0 a\n1 a\n# c\n0 a\n"), r"labels.txt, line 4: '0' is there twice, before in line 1"),
    (("0 1\n", "0 a b\n"), r"labels.txt, line 1 has 3 columns: give one column"),
    (("0 1\n", "0\ta\n1\t\n"), r"labels.txt, line 2: column 2 is empty"),
    (("0 1\n", "# none\n"), r"labels.txt has no rows"),
    (("a b\n", "1\n2\n"), r"labels.txt has one column and the nodes of the edges are not numbered"),
    (("a b\n", "1\n", "a\nb\n"), r"labels.txt has 1 labels and nodes.txt 2 nodes"),
    (("0 1\n2 7\n", None, "0\n1\n2\n"), r"edges.tsv, line 2: node '7' is not in nodes.txt"),
    (("0 1\n", None, "0\n1\n0\n"), r"nodes.txt, line 3: '0' is there twice, before in line 1"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_wrong_files_are_refused_in_one_sentence_and_leave_nothing(made, tmp_path, arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        made(*arguments)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert all(path.suffix in (".tsv", ".txt", "") for path in tmp_path.iterdir())


def test_lines_are_counted_over_pieces(made, monkeypatch):
    monkeypatch.setattr(raw, "PIECE_BYTES", 50)
    with pytest.raises(InputError, match="line 61 has 1 column"):
        made("# c\n\n" + "0 1\n" * 58 + "5\n" + "0 1\n" * 9)


def test_memory_and_places(made, tmp_path):
    with pytest.raises(BudgetError, match=r"edges=\d+ needs .* budget is 257.0 MiB: use edges=\d+ or less"):
        made("0 1\n" * 20_000, memory=257 << 20)
    made("0 1\n")
    with pytest.raises(StoreError, match="exists already"):
        made("0 1\n", overwrite=False)
    with pytest.raises(InputError, match="No edge list"):
        ingest_graph([], tmp_path / "x.zarr")
    with pytest.raises(InputError, match="There is no file"):
        ingest_graph([tmp_path / "nowhere"], tmp_path / "x.zarr")
    with store.create(tmp_path / "plain.zarr", "dataset") as group:
        store.write_array(group, "X", np.zeros((2, 1)))
    with pytest.raises(InputError, match="holds no graph: make it with ask-dask ingest graph"):
        read_graph(store.open_store(tmp_path / "plain.zarr"))


def test_arrays_of_many_shards(made, monkeypatch):
    monkeypatch.setattr("ask_dask.budget.SHARD_BYTES", 1)
    monkeypatch.setattr("ask_dask.budget.CHUNK_BYTES", 1)
    edges = np.random.default_rng(0).integers(0, 3000, (9000, 2))
    group = made("".join(f"{a} {b}\n" for a, b in edges))
    assert group["graph/indices"].shards == (2048,) and group["graph/indices"].nchunks > 3
    wanted = sp.coo_matrix((np.ones(9000), edges.T), shape=(edges.max() + 1,) * 2).tocsr()
    wanted.data[:] = 1
    assert (read_graph(group) != wanted).nnz == 0

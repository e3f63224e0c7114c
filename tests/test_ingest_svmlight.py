"""SVMLight text in, sparse rows out: sliced like an array, fitted on, and a wrong line refused with its place."""

import gzip
import json

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from ask_dask import AsKLSClassifier, blocks, budget, sparse, store
from ask_dask.errors import BudgetError, InputError, StoreError
from ask_dask.ingest import files as raw
from ask_dask.ingest import ingest_svmlight, pairs
from ask_dask.kernels import SNE
from ask_dask.sparse import SparseRows


@pytest.fixture
def made(tmp_path):
    """Ingest text (of one file, or {name: text}); returns the open store."""

    def make(texts, to="s.zarr", **options):
        texts = texts if isinstance(texts, dict) else {"s.txt": texts}
        for name, text in texts.items():
            content = text if isinstance(text, bytes) else text.encode()
            (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        ingest_svmlight([tmp_path / name for name in texts], tmp_path / to, **{"overwrite": True} | options)
        return store.open_store(tmp_path / to, "dataset")

    return make


@pytest.fixture
def cut_small(monkeypatch):
    """Pieces, chunks and shards so small that a few thousand rows fill many."""
    monkeypatch.setattr(raw, "PIECE_BYTES", 20_000)
    monkeypatch.setattr(budget, "CHUNK_BYTES", 1)
    monkeypatch.setattr(budget, "SHARD_BYTES", 1)


def rows_and_labels(n=300, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 1000, (n, d)) / 1000 * (rng.random((n, d)) < 0.15)
    X[n // 3] = 0  # a row without pairs
    X[0, 0] = X[0, d - 1] = 1  # so that the text tells the number of columns and where they start
    X = sp.csr_matrix(X)
    return X, np.where(np.asarray(X[:, :5].sum(1)).ravel() > 0.3, 1, -1)


def text_of(X, y, path, zero_based=False):
    dump_svmlight_file(X, y, str(path), zero_based=zero_based)
    return path.read_text()


def same(found, wanted):
    assert sp.issparse(found) and found.format == "csr" and found.dtype == wanted.dtype
    assert found.shape == wanted.shape and abs(found - wanted).nnz == 0


def about(group, *names):
    return [store.about(group)[name] for name in names]


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("told", [True, False])
def test_as_scikit_learn_reads_it(made, tmp_path, zero_based, told):
    X, y = rows_and_labels()
    group = made(text_of(X, y, tmp_path / "d", zero_based), zero_based=zero_based if told else None)
    wanted, labels = load_svmlight_file(str(tmp_path / "d"), zero_based="auto")
    same(SparseRows(group["X"])[:], wanted)
    assert group["y"].dtype == np.int64 and (group["y"][:] == labels).all()
    assert about(group, "format", "n_rows", "n_features", "n_values", "zero_based") == [
        "svmlight", 300, 40, wanted.nnz, zero_based
    ]  # fmt: skip
    assert about(group, "label_counts") == [{"-1": int((y < 0).sum()), "1": int((y > 0).sum())}]


VALUES = st.floats(-1e9, 1e9, allow_subnormal=False)
ROW = st.tuples(st.integers(-3, 3) | VALUES, st.dictionaries(st.integers(0, 10**6), VALUES, max_size=6))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, min_size=1, max_size=12), st.sampled_from([1, 40, 1 << 20]), st.booleans())
def test_any_rows_in_any_pieces(made, tmp_path, rows, piece, zero_based):
    shift = 1 - zero_based
    lines = [" ".join([repr(y), *(f"{i + shift}:{v!r}" for i, v in sorted(row.items()))]) for y, row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw, "PIECE_BYTES", piece)
        patch.setattr(budget, "CHUNK_BYTES", 1)
        group = made("\n".join(lines), columns=10**6 + 1, zero_based=zero_based)
    (tmp_path / "s").write_text("\n".join(lines))
    wanted, labels = load_svmlight_file(str(tmp_path / "s"), n_features=10**6 + 1, zero_based=zero_based)
    X = SparseRows(group["X"])
    same(X[:], wanted)
    assert (group["y"][:] == labels).all() and (group["y"].dtype == np.int64) == (labels == labels.round()).all()
    for row in range(len(rows)):
        same(X[row : row + 1], wanted[row])


def test_comments_query_ids_and_other_harmless_differences(made):
    group = made("\ufeff# 1 2 3\n\n+1 qid:7 1:2  3:4 # 5:6\r\n-1\tqid:8\t2:1e0\n 0 #\n   \n# the end")
    assert SparseRows(group["X"])[:].toarray().tolist() == [[2, 0, 4], [0, 1, 0], [0, 0, 0]]
    assert group["y"][:].tolist() == [1, -1, 0]


def test_many_files_plain_and_compressed_are_one(made, tmp_path):
    X, y = rows_and_labels()
    lines = text_of(X, y, tmp_path / "d").splitlines(keepends=True)
    whole = made("".join(lines))
    parted = made({"1.txt": "".join(lines[:90]), "2.gz": "".join(lines[90:91]), "3.txt.gz": "".join(lines[91:])})
    for name in ("fingerprint", "encoder_fingerprint"):
        assert about(parted, name) == about(whole, name)
    assert [file["rows"] for file in store.about(parted)["files"]] == [90, 1, 209]


def test_real_labels_and_float32(made):
    group = made("0.5 1:0.1\n2 2:3\n", dtype="float32")
    X = SparseRows(group["X"])
    assert group["y"][:].tolist() == [0.5, 2] and about(group, "label_counts") == [None]
    assert X.dtype == np.float32 and X[:].toarray().tolist() == [[np.float32(0.1), 0], [0, 3]]


def test_an_index_0_that_comes_late(made, cut_small, tmp_path):
    X, y = rows_and_labels(5000)
    last = sp.csr_matrix(([1.0], ([0], [0])), (1, 39))
    X = sp.vstack([sp.hstack([sp.csr_matrix((5000, 1)), X[:, 2:]]), last], format="csr")
    group = made(text_of(X, np.r_[y, 1], tmp_path / "d", zero_based=True))
    same(SparseRows(group["X"])[:], X)
    first = made(text_of(X[::-1], np.r_[y, 1][::-1], tmp_path / "d", zero_based=True), to="t.zarr")
    assert about(first, "zero_based", "n_features") == [True, 39]
    told = made(text_of(X, np.r_[y, 1], tmp_path / "d", zero_based=True), zero_based=True, to="u.zarr")
    assert about(told, "fingerprint") == about(group, "fingerprint")


def test_pieces_and_shards_change_nothing(made, monkeypatch, request, tmp_path):
    X, y = rows_and_labels(5000)
    text = text_of(X, y, tmp_path / "d")
    whole = made(text, to="w.zarr")
    monkeypatch.setattr(raw, "PIECE_BYTES", 7000)
    assert about(made(text), "fingerprint") == about(whole, "fingerprint")
    request.getfixturevalue("cut_small")
    parted = made(text)
    assert parted["X"]["data"].shards == (2048,) and parted["y"].shards == (2048,)
    rows = SparseRows(parted["X"])
    same(rows[:], X)
    assert (parted["y"][:] == y).all()
    picked = np.random.default_rng(0).integers(-5000, 5000, 60)
    for part in (slice(2040, 2060), slice(-5, None), slice(7, 3), slice(1, 5000, 1000), picked, [3000], []):
        same(rows[part], X[part])
        same(SparseRows(whole["X"])[part], X[part])
    assert len(blocks.shards(rows)) == 3


def test_memory_does_not_grow_with_the_rows(made, cut_small, monkeypatch, tmp_path):
    """What is parsed, held and written at a time is the same for five times the rows."""
    largest = {}

    def watch(owner, name, size):
        inner = getattr(owner, name)

        def watched(*arguments):
            largest[name] = max(largest.get(name, 0), size(*arguments))
            return inner(*arguments)

        monkeypatch.setattr(owner, name, watched)

    watch(pairs, "_load", lambda text, limits: len(text))
    watch(sparse.Growing, "_write", lambda growing, values: len(values))
    watch(sparse.Growing, "add", lambda growing, values: sum(map(len, growing._held)))
    text = text_of(*rows_and_labels(3000, 20), tmp_path / "d")
    seen = []
    for copies in (1, 5):
        largest.clear()
        made(text * copies)
        seen.append(dict(largest))
    assert max(seen[1].values()) < 25_000 and seen[1]["_load"] <= seen[0]["_load"] + 2000
    assert seen[1]["_write"] == seen[0]["_write"] == 2048 and seen[1]["add"] <= 2048


def test_a_million_columns_stay_sparse(made):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    columns = [np.unique(rng.integers(500_000 * k, 500_000 * (k + 1), 20) + 1) for k in y]
    columns[0][-1] = 1_000_000
    group = made("\n".join(f"{k} {' '.join(f'{j}:1' for j in sorted(js))}" for k, js in zip(y, columns, strict=True)))
    X = SparseRows(group["X"])
    assert X.shape == (400, 1_000_000) and X.nnz <= 8000 and store.stored_bytes(store.place(group)) < 100_000
    model = AsKLSClassifier(n_landmarks=30, cv=2, gamma=1.0, memory="1GiB", random_state=0).fit(X, group["y"])
    assert model.decision_function(X).compute().shape == (400,) and model.row_landmarks_.shape == (30,)


def test_fitting_on_it_equals_fitting_in_memory(made, cut_small, tmp_path):
    X, y = rows_and_labels(5000)
    group = made(text_of(X, y, tmp_path / "d"))
    rows = SparseRows(group["X"])
    options = {"gamma": [1, 10], "n_landmarks": [20, 40], "cv": 2, "random_state": 0}
    stored, held = (AsKLSClassifier(**options).fit(data, y) for data in (rows, X))
    found = stored.decision_function(rows)
    assert isinstance(found, da.Array) and found.numblocks[0] > 1
    np.testing.assert_allclose(found.compute(), held.decision_function(X), atol=1e-9, rtol=0)
    assert stored.gamma_ == held.gamma_ and stored.n_landmarks_ == held.n_landmarks_
    assert (stored.predict(rows).compute() == held.predict(X)).all()
    exact = {"kernel": SNE(2.0), "n_landmarks": None, "cv": 2, "gamma": 1.0, "random_state": 0}
    few = made(text_of(X[:200], y[:200], tmp_path / "d"), to="few.zarr", columns=40)
    stored, held = (AsKLSClassifier(**exact).fit(d, y[:200]) for d in (SparseRows(few["X"]), X[:200]))
    np.testing.assert_allclose(stored.decision_function(X), held.decision_function(X), atol=1e-9, rtol=0)
    with pytest.raises(ValueError, match="40 features"):
        held.predict(SparseRows(made("1 1:1\n")["X"]))


def test_blocks_of_it(made, cut_small, tmp_path):
    X, y = rows_and_labels(5000)
    rows = SparseRows(made(text_of(X, y, tmp_path / "d"))["X"])
    picked = np.random.default_rng(0).integers(0, 5000, 50)
    same(blocks.take_rows(rows, picked), X[picked])
    sums = blocks.map_rows(rows, lambda block: np.asarray(block.sum(1)), 1, "sums")
    np.testing.assert_allclose(sums.compute(), X.sum(1))
    assert [(s.start, s.stop) for s in blocks.shards(rows)] == [(0, 2048), (2048, 4096), (4096, 5000)]
    assert blocks.asymmetry(SNE(1.0), rows) == pytest.approx(blocks.asymmetry(SNE(1.0), X))
    large = SparseRows(made("1 2:1\n1 1:1 3:1e200\n")["X"])
    with pytest.raises(InputError, match=r"1e\+200, too large to be squared, first in row 1, column 2"):
        blocks.map_rows(large, lambda block: block, 3, "none").compute()


def test_wrong_rows_and_damage(made, tmp_path):
    X = SparseRows(made("1 2:1\n2 1:1\n")["X"])
    for wrong in ([2], [-3]):
        with pytest.raises(IndexError, match="There are 2 rows"):
            X[wrong]
    for wrong in ([True, False], 1, [0.5], "a"):
        with pytest.raises(TypeError, match="a slice or by whole numbers"):
            X[wrong]
    opened = zarr.open_group(tmp_path / "s.zarr", mode="r+")["X"]
    for values in ([0, 2], [-1, 0]):
        opened["indices"][:] = values
        with pytest.raises(StoreError, match=r"X is damaged \(rows 0 to 2, .* must be .*\): make the store again"):
            SparseRows(opened)[:]
    opened["indptr"][:] = [0, 9, 2]
    with pytest.raises(StoreError, match="damaged"):
        SparseRows(opened)[:1]
    opened["indices"].resize((1,))
    with pytest.raises(StoreError, match="do not belong together"):
        SparseRows(opened)
    chunk = next(file for file in (tmp_path / "s.zarr" / "X" / "data" / "c").rglob("*") if file.is_file())
    chunk.write_bytes(bytes(byte ^ 1 for byte in chunk.read_bytes()))
    with pytest.raises(StoreError, match="damaged"):
        X[:]


REFUSED = [
    ("1 1:2\nx 1:2\n", {}, r"s.txt, line 2: the label 'x' is no finite number; give each row one number"),
    ("1 1:2\n1,2 1:2\n", {}, r"line 2: the label '1,2' is no finite number"),
    ("# a\n\n1 1:2\nnan 1:2\n", {}, r"line 4: the label 'nan'"),
    ("1:2 2:3\n", {}, r"line 1: the label '1:2'"),
    ("1 1:2\n1 hello\n", {}, r"line 2: 'hello' is no index:value pair; give each value as one, such as 3:0.5"),
    ("1 1:2\n1 a:2\n", {}, r"line 2: 'a:2' is no index:value pair"),
    ("1 1:2\n1 1:2 qid:3\n", {}, r"line 2: 'qid:3' is no index:value pair"),
    ("1 1:2\n1 -1:2\n", {}, r"line 2: index -1 is below 0; correct it"),
    ("1 1:2\n1 0:2\n", {"zero_based": False}, r"line 2: index 0 is below 1, the first; correct it, or give --zero-b"),
    ("1 1:2\n1 3:1 2:1\n", {}, r"line 2: index 2 comes after index 3; give the indices of a line in ascending order"),
    ("1 1:2\n1 3:1 3:1\n", {}, r"line 2: index 3 comes after index 3"),
    ("1 1:2\n1 1:NaN\n", {}, r"line 2: the value 'NaN' is no finite number; correct it, or leave the pair out"),
    ("1 1:2\n1 1:-inf\n", {}, r"line 2: the value '-inf'"),
    ("1 1:2\n1 1:\n", {}, r"line 2: the value '' is no finite number"),
    ("1 1:2\n1 1:2:3\n", {}, r"line 2: the value '2:3'"),
    (b"1 1:2\n1 1:\xff\n", {}, r"line 2: the value '.' is no finite number"),
    ("1 1:2\n1 1:1e300\n", {"dtype": "float32"}, r"line 2: the value '1e300' is beyond float32; use --dtype float64"),
    ("1 1:2\n1 4:1\n", {"columns": 3}, r"line 2: index 4 is above 3, the last; correct it, or set --columns higher"),
    ("1 1:2\n1 3:1\n", {"columns": 3, "zero_based": True}, r"line 2: index 3 is above 2, the last"),
    ("1 1:2\n1 3:1\n0 0:1\n", {"columns": 3}, r"line 2: index 3 is above 2, the last"),
    ("1 1:2\n1 2147483648:1\n", {}, r"line 2: index 2147483648 is above 2147483647, the last; correct it"),
    ({"a.txt": "1 1:2\n", "b.txt.gz": "1 1:2\n\n1 x\n"}, {}, r"b.txt.gz, line 3: 'x' is no index:value pair"),
    ("1\n0\n", {}, r"s.txt has no index:value pair: give --columns"),
    ("# nothing\n", {}, r"s.txt has no rows: give a file with rows"),
    ("", {}, r"s.txt is empty"),
    ({}, {}, r"No file was given"),
    ("1 1:2\n", {"dtype": "int8"}, r"dtype is 'int8'"),
    ("1 1:2\n", {"columns": 0}, r"columns=0 must be a number from 1"),
]


@pytest.mark.parametrize(("texts", "options", "message"), REFUSED)
def test_wrong_lines_are_refused_in_one_sentence_and_leave_nothing(made, tmp_path, texts, options, message):
    with pytest.raises(InputError, match=message) as caught:
        made(texts, **options)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert not list(tmp_path.glob("*.zarr")) and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("piece", [500, 32 << 20])
def test_the_one_wrong_line_of_many(made, tmp_path, monkeypatch, piece):
    monkeypatch.setattr(raw, "PIECE_BYTES", piece)
    lines = text_of(*rows_and_labels(300), tmp_path / "d").splitlines()
    lines[123] += " 7:1"
    lines[234] = "x"
    with pytest.raises(InputError, match=r"line 124: index 7 comes after"):
        made("\n".join(lines))


def test_long_lines(made, monkeypatch):
    long = " ".join(f"{j}:1" for j in range(1, 200_001))
    monkeypatch.setattr(raw, "PIECE_BYTES", 20_000)
    X = SparseRows(made(f"1 1:1\n0 {long}\n1 2:1\n")["X"])
    assert np.diff(X[:].indptr).tolist() == [1, 200_000, 1]


def test_columns_without_values(made):
    X = SparseRows(made("1\n0\n", columns=5)["X"])
    same(X[:], sp.csr_matrix((2, 5)))
    same(X[[1]], sp.csr_matrix((1, 5)))


def test_memory_and_places(made):
    with pytest.raises(BudgetError, match=r"files=1 needs .* the memory budget is 1.0 MiB"):
        made("1 1:2\n", memory=1 << 20)
    made("1 1:2\n")
    with pytest.raises(StoreError, match="exists already"):
        made("1 1:2\n", overwrite=False)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with rows to fit and rows to predict, whose largest index is smaller."""
    X, y = rows_and_labels(400)
    text_of(X[:300], y[:300], tmp_path / "train.txt")
    text_of(X[300:, :38], y[300:], tmp_path / "test.txt")
    monkeypatch.chdir(tmp_path)
    return X, y


def test_the_commands(here, ask, done):
    X, y = here
    code, out, _ = ask("ingest", "svmlight", "train.txt", "--to", "d.zarr")
    assert code == 0 and out.startswith("d.zarr: 300 rows x 40 features (")
    fit = ("--data", "d.zarr", "--to", "m.zarr", "--gamma", "1", "--n-landmarks", "30", "--cv", "2")
    assert done("fit", *fit)["n_features"] == 40
    assert done("ingest", "svmlight", "test.txt", "--to", "e.zarr")["arrays"]["X"]["shape"] == [100, 38]
    predict = ("predict", "--model", "m.zarr", "--to", "p.zarr", "--data")
    code, _, err = ask(*predict, "e.zarr")
    assert code == 1 and "it has other columns: ingest it with --columns 40 --one-based." in err
    done("ingest", "svmlight", "test.txt", "--to", "t.zarr", "--columns", "40", "--one-based")
    done(*predict, "t.zarr")
    model = AsKLSClassifier(gamma=1.0, n_landmarks=30, cv=2, random_state=0).fit(X[:300], y[:300])
    found = store.open_store("p.zarr")
    held = sp.hstack([X[300:, :38], sp.csr_matrix((100, 2))], format="csr")
    np.testing.assert_allclose(found["score"][:, 0], model.decision_function(held), rtol=1e-5, atol=1e-5)
    assert (found["y"][:] == y[300:]).all() and done("score", "--predictions", "p.zarr")["n"] == 100
    done("report", "--model", "m.zarr", "--predictions", "p.zarr", "--to", "r.html")
    assert "format: svmlight" in ask("info", "d.zarr")[1]


def test_rows_that_a_kernel_does_not_take_are_named(here, ask, tmp_path):
    (tmp_path / "signed.txt").write_text("1 1:1\n0 3:2\n" * 20 + "1 1:1 2:-0.5\n")
    (tmp_path / "empty.txt").write_text("1 1:1\n0 3:2\n" * 20 + "1\n")
    for name, says in (("signed", "row 40 holds -0.5 in column 1,"), ("empty", "row 40 holds only zeros,")):
        ask("ingest", "svmlight", f"{name}.txt", "--to", f"{name}.zarr", "--quiet")
        code, _, err = ask("fit", "--data", f"{name}.zarr", "--to", "n.zarr", "--kernel", "kl", "--n-landmarks", "9")
        assert code == 1 and says in err


def test_a_job_in_toml(here, ask, tmp_path):
    (tmp_path / "job.toml").write_text(
        '[[step]]\ndo = "ingest"\nformat = "svmlight"\nfiles = ["train.txt"]\nto = "d.zarr"\nzero_based = false\n'
    )
    code, out, _ = ask("run", "job.toml", "--json")
    assert code == 0 and json.loads(out)[0]["zero_based"] is False

"""Tables of numbers in, a store of rows out; a missing or wrong cell is refused with its place."""

import gzip
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ask_dask import AsKLSClassifier, store
from ask_dask.errors import BudgetError, InputError, StoreError
from ask_dask.ingest import files as raw
from ask_dask.ingest import ingest_table


@pytest.fixture
def made(tmp_path):
    """Ingest text (of one file, or {name: text or data frame}); returns the open store."""

    def make(tables, to="t.zarr", **options):
        tables = tables if isinstance(tables, dict) else {"t.csv": tables}
        for name, table in tables.items():
            if isinstance(table, pd.DataFrame | pa.Table):
                pq.write_table(pa.table(table), tmp_path / name)
            else:
                content = table if isinstance(table, bytes) else table.encode()
                (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        ingest_table([tmp_path / name for name in tables], tmp_path / to, **{"overwrite": True} | options)
        return store.open_store(tmp_path / to, "dataset")

    return make


@pytest.fixture
def frame():
    """A table with labels of three kinds and weights."""
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=300), "b": rng.integers(-9, 9, 300), "count": rng.integers(0, 3, 300)}
    kinds = {"kind": rng.choice(["cat", "dog, big", "é"], 300), "price": rng.normal(size=300), "w": rng.random(300)}
    return pd.DataFrame(columns | kinds)


def about(group, *names):
    found = store.about(group)
    return [found[name] for name in names] if len(names) > 1 else found[names[0]]


def test_real_tables(made, data):
    text = (data / "uci" / "ILPD.csv").read_text()
    ratio = text.splitlines()[0].split(",")[9]
    group = made(text, labels=["liver patient"], drop=["gender", ratio])
    assert about(group, "n_rows", "n_features") == [583, 8] and about(group, "label_counts") == {"1": 416, "2": 167}
    with pytest.raises(
        InputError, match=r"t.csv, line 2: column 'gender' is 'Female', no finite number; correct it, .*--drop"
    ):
        made(text, labels=["liver patient"])
    with pytest.raises(InputError, match=r"line 211: column '\?A/G Ratio .*' is empty, no finite number"):
        made(text, labels=["liver patient"], drop=["gender"])
    rows = (data / "uci" / "australian.dat").read_text().replace(" ", ";")
    group = made(";".join([*(f"A{i}" for i in range(14)), "class"]) + "\n" + rows, labels=["class"])
    wanted = np.loadtxt(data / "uci" / "australian.dat")
    np.testing.assert_array_equal(group["X"][:], wanted[:, :14])
    np.testing.assert_array_equal(group["y"][:], wanted[:, 14])
    assert about(group, "n_rows", "label_counts") == [690, {"0": 383, "1": 307}]


def written(frame, suffix):
    separator = {".csv": ",", ".tsv": "\t", ".csv.gz": ","}.get(suffix)
    return frame if separator is None else frame.to_csv(index=False, sep=separator)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_every_format_gives_the_same_rows(made, frame, suffix):
    group = made({"t" + suffix: written(frame, suffix)}, labels=["kind"], weight="w", drop=["price"])
    np.testing.assert_array_equal(group["X"][:], frame[["a", "b", "count"]])
    assert group["X"].dtype == group["weight"].dtype == np.float64 and group["y"][:].tolist() == frame["kind"].tolist()
    np.testing.assert_array_equal(group["weight"][:], frame["w"])
    assert about(group, "format", "feature_names", "label_names") == ["table", ["a", "b", "count"], ["kind"]]
    assert about(group, "label_counts") == frame["kind"].value_counts().to_dict()
    assert about(group, "files")[0]["rows"] == 300 and [s["step"] for s in about(group, "steps")] == ["look", "write"]


def test_the_kinds_of_labels(made, frame):
    drop = ["kind", "price", "w", "count"]

    def y(*labels):
        group = made({"t.parquet": frame}, labels=labels, drop=[name for name in drop if name not in labels])
        np.testing.assert_array_equal(group["y"][:], frame[labels[0]] if len(labels) == 1 else frame[list(labels)])
        return group["y"].dtype, about(group, "label_counts")

    assert y("count") == (np.int64, {str(k): v for k, v in frame["count"].value_counts().sort_index().items()})
    assert y("price") == (np.float64, None) and y("count", "price") == (np.float64, None)
    assert y("kind")[0] == np.dtype("<U8")
    group = made("x,y,z\n1,2.0,1\n2,-1e2,b\n", labels=["y"], drop=["z"])
    assert group["y"][:].tolist() == [2, -100] and group["y"].dtype == np.int64
    assert made("x,y,z\n1,20,1\n2,1,b\n", labels=["y", "z"])["y"][:].tolist() == [["20", "1"], ["1", "b"]]
    assert "y" not in made("x,z\n1,2\n") and about(made("x,z\n1,2\n"), "label_names", "label_counts") == [[], None]


def test_a_late_text_label_keeps_the_long_numbers_before(made, monkeypatch):
    monkeypatch.setattr(raw, "PIECE_BYTES", 40)
    group = made("x,y\n" + "1,1234567\n" * 20 + "1,b\n", labels=["y"])
    assert about(group, "label_counts") == {"1234567": 20, "b": 1}


def test_float32(made):
    assert made("x,y\n0.1,1\n", dtype="float32")["X"][:].tolist() == [[np.float32(0.1), 1]]
    with pytest.raises(InputError, match=r"line 2: column 'x' is '1e300', beyond float32; use --dtype float64"):
        made("x,y\n1e300,1\n", dtype="float32")


def test_files_are_one_table_whatever_the_order_of_columns(made, frame):
    frame = frame[["a", "b", "count"]]
    parts = {"1.csv": frame[:100].to_csv(index=False), "2.parquet": frame[["count", "b", "a"]][100:]}
    group = made(parts, labels=["count"])
    np.testing.assert_array_equal(group["X"][:], frame[["a", "b"]])
    assert [file["rows"] for file in about(group, "files")] == [100, 200]
    alone = made({"t.csv": frame.to_csv(index=False)}, labels=["count"], to="alone.zarr")
    for name in ("fingerprint", "encoder_fingerprint"):
        assert about(alone, name) == about(group, name)


def test_pieces_and_shards_change_nothing(made, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(5000, 3))
    text = pd.DataFrame(rows, columns=list("abc")).to_csv(index=False)
    whole = made(text, labels=["c"], to="w.zarr")
    monkeypatch.setattr(raw, "PIECE_BYTES", 30_000)
    assert about(made(text, labels=["c"]), "fingerprint") == about(whole, "fingerprint")
    monkeypatch.setattr("ask_dask.budget.SHARD_BYTES", 1)
    monkeypatch.setattr("ask_dask.budget.CHUNK_BYTES", 1)
    parted = made(text, labels=["c"])
    assert parted["X"].shards == (2048, 2) and parted["y"].shards == (2048,)
    np.testing.assert_array_equal(np.c_[parted["X"][:], parted["y"][:]], rows)


def test_quotes_blank_lines_and_other_harmless_differences(made):
    text = '\ufeff"a, first";b\r\n"1";2\r\n\r\n 3 ; 4e0\r\n'
    group = made(text)
    assert group["X"][:].tolist() == [[1, 2], [3, 4]] and about(group, "feature_names") == ["a, first", "b"]


def test_parquet_types(made):
    table = pa.table(
        {
            "i": pa.array([1, 2], pa.uint8()),
            "b": pa.array([True, False]),
            "d": pa.array([Decimal(1), Decimal(2)], pa.decimal128(9, 2)),
            "s": pa.array(["1.5", "2"], pa.large_string()),
            "c": pa.array(["u", "v"]).dictionary_encode(),
        }
    )
    group = made({"t.parquet": table}, labels=["c"])
    assert group["X"][:].tolist() == [[1, 1, 1, 1.5], [2, 0, 2, 2]] and group["y"][:].tolist() == ["u", "v"]
    dated = table.append_column("t", pa.array([0, 1], pa.timestamp("s")))
    with pytest.raises(InputError, match=r"column 't' holds timestamp\[.*\], neither numbers nor text; leave it out"):
        made({"t.parquet": dated}, labels=["c"])


def test_missing_values_of_parquet_name_the_row(made, frame):
    for value in (None, np.inf):
        frame.loc[211, "a"] = value
        with pytest.raises(InputError, match=r"t.parquet, row 212: column 'a' is (nan|empty|inf), no finite number"):
            made({"t.parquet": frame}, labels=["kind"])
    with pytest.raises(InputError, match=r"t.parquet, row 212: column 'a' is (nan|empty|inf), no (label|finite)"):
        made({"t.parquet": frame}, labels=["a"], drop=["kind"])


L = {"labels": ["y"]}
REFUSED = [
    ("x,y\n1,0\n?,1\n", L, r"t.csv, line 3: column 'x' is '\?', no finite number; correct it, remove the row, or"),
    ("x,y\n\n1,0\nnan,1\n", L, r"line 4: column 'x' is 'nan'"),
    ("x,y\n1,0\n1e999,1\n", L, r"line 3: column 'x' is '1e999'"),
    ("x,y\n1,0\n1,\n", L, r"line 3: column 'y' is empty, a missing label; give each row a label"),
    ("x,y\n1,0\n1,NaN\n", L, r"line 3: column 'y' is 'NaN', a missing label"),
    ("x,y\n1,0\n1,2,3\n", L, r"line 3 has 3 columns and the lines before it 2: give each row as many cells"),
    ("x,y\n1,0\n1\n", L, r"line 3 has 1 column and"),
    ('x,y\n1,"a\nb"\n1,2\n', L, r"a quoted cell runs over several lines"),
    (b"x,y\n1,0\n1,\xff\n", L, r"line 3: not valid UTF-8"),
    ("x,z\n1,0\n", L, r"t.csv has no column 'y': it has 'x', 'z'"),
    ("x,y\n1,0\n", {"drop": ["k"]}, r"no column 'k'"),
    ("x,y\n1,0\n", {"weight": "k"}, r"no column 'k'"),
    ("x,y\n1,0\n", L | {"weight": "y"}, r"Column 'y' is named twice"),
    ("x,y\n1,0\n", L | {"drop": ["x"]}, r"No column of .*t.csv is left for a feature"),
    ("x,y\n1,0\n", L | {"dtype": "int8"}, r"dtype is 'int8'"),
    ("x,x\n1,0\n", {}, r"has two columns 'x'"),
    ("x,,y\n1,2,0\n", L, r"column 2 has no name"),
    ("1.5,2\n1,0\n", {}, r"t.csv has numbers where the names of its columns should be: give it a header"),
    ("x,y\n", L, r"t.csv has no rows"),
    ("", L, r"t.csv is empty"),
    ("x,y,w\n1,0,-1\n", L | {"weight": "w"}, r"line 2: column 'w' is '-1', no weight; give a finite number of 0 or"),
    ("x,y,w\n1,0,\n", L | {"weight": "w"}, r"line 2: column 'w' is empty, no weight"),
    ({"a.csv": "x,y\n1,0\n", "b.csv": "x,z\n1,0\n"}, L, r"b.csv and .*a.csv differ in 'y', 'z'"),
    ({"t.parquet": b"PAR1 or not"}, L, r"t.parquet cannot be read as Parquet"),
    ({"t.csv.gz": "x,y\n"}, L, r"t.csv.gz has no rows"),
    ({}, L, r"No table was given"),
]


@pytest.mark.parametrize(("tables", "options", "message"), REFUSED)
def test_wrong_tables_are_refused_in_one_sentence_and_leave_nothing(made, tmp_path, tables, options, message):
    with pytest.raises(InputError, match=message) as caught:
        made(tables, **options)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert not list(tmp_path.glob("*.zarr")) and not list(tmp_path.glob(".*"))


def test_a_file_that_grows_between_the_readings_is_refused(made, tmp_path, monkeypatch):
    from ask_dask.ingest import table

    look = table._look

    def grow(*arguments):
        found = look(*arguments)
        with (tmp_path / "t.csv").open("a") as file:
            file.write("5,6\n")
        return found

    monkeypatch.setattr(table, "_look", grow)
    with pytest.raises(InputError, match="A file changed while it was read"):
        made("x,y\n1,0\n", **L)


def test_memory_and_places(made):
    with pytest.raises(BudgetError, match=r"features=1 needs .* the memory budget is 1.0 MiB"):
        made("x,y\n1,0\n", **L, memory=1 << 20)
    made("x,y\n1,0\n", **L)
    with pytest.raises(StoreError, match="exists already"):
        made("x,y\n1,0\n", **L, overwrite=False)


def test_a_model_is_fitted_on_a_table(made, frame):
    frame["kind"] = np.where(frame["a"] > 0, "up", "down")
    group = made({"t.parquet": frame}, labels=["kind"], drop=["w"])
    model = AsKLSClassifier(gamma=1.0, n_landmarks=50, cv=2, random_state=0).fit(group["X"], group["y"])
    assert model.classes_.tolist() == ["down", "up"]

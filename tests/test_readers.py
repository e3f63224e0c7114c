"""A file is read as what it is, or refused in one sentence, by every reader that it can meet."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import refused

from ask_dask import store
from ask_dask.errors import InputError
from ask_dask.ingest import ingest_graph, ingest_samples, ingest_svmlight, ingest_table, read_graph

FRAME = pd.DataFrame({"a": np.arange(20) % 7 / 2, "b": np.arange(20) % 3 - 0.5, "y": np.arange(20) % 2})
TEXTS = {
    "table": FRAME.to_csv(index=False),
    "graph": "1 2\n2 3\n3 1\n",
    "svmlight": "".join(f"{i % 2} 1:{i + 1} 3:0.5\n" for i in range(9)),
    "samples": "".join(f"{name},{x},{x * x % 5}\n" for name in "ab" for x in range(9)),
    "criteo": "\t".join(["1", *["5"] * 13, *["0a"] * 26]) + "\n",
}


def make(kind, file, to, ask=None, **options):
    """A store of a file, by the function or, of click logs, the command."""
    if kind == "table":
        return ingest_table([file], to, labels=["y"], **options)
    if kind == "graph":
        return ingest_graph([file], to, **options)
    if kind == "samples":
        return ingest_samples([file], to, labels=None, n_components=1, n_draws=5, **options)
    if kind == "svmlight":
        return ingest_svmlight([file], to, **options)
    code, _, err = ask("ingest", kind, file, "--to", to, "--buckets", "16")
    if code:
        raise InputError(err.removeprefix("ask-dask: "))
    return None


def packed(text, how):
    data = text.encode()
    if how in ("zst", "lz4"):
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, {"zst": "zstd"}.get(how, how)) as stream:
            stream.write(data)
        return out.getvalue().to_pybytes()
    if how == "zip":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("one.txt", data)
        return out.getvalue()
    return {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[how](data)


def arrays(path):
    group = store.open_store(path)
    return [store.read(array).tolist() for _, array in sorted(group.arrays())]


@pytest.mark.parametrize("suffix", [True, False], ids=["suffix", "no suffix"])
@pytest.mark.parametrize("how", ["gz", "bz2", "xz", "zst", "lz4", "zip"])
@pytest.mark.parametrize("kind", ["table", "graph", "svmlight"])
def test_compressed_files_are_known_by_their_first_bytes(tmp_path, kind, how, suffix):
    (tmp_path / "plain.txt").write_text(TEXTS[kind])
    file = tmp_path / (f"f.txt.{how}" if suffix else "f.txt")
    file.write_bytes(packed(TEXTS[kind], how))
    make(kind, tmp_path / "plain.txt", tmp_path / "plain.zarr")
    make(kind, file, tmp_path / "packed.zarr")
    assert arrays(tmp_path / "packed.zarr") == arrays(tmp_path / "plain.zarr")


def archive(kind, names):
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as made:
            for name in names:
                made.writestr(name, "1 2\n")
    else:
        with tarfile.open(fileobj=out, mode="w:gz" if kind == "tar.gz" else "w") as made:
            for name in names:
                made.addfile(tarfile.TarInfo(name))
    return out.getvalue()


WRONG = {
    "two members": (archive("zip", ["a.txt", "b.txt"]), "is an archive of 2 members: unpack it"),
    "a folder": (archive("zip", ["a/"]), "is an archive of 1 members: unpack it"),
    "tar": (archive("tar", ["a.txt"]), "is a tar archive: unpack it"),
    "tar.gz": (archive("tar.gz", ["a.txt"]), "is a tar archive: unpack it"),
    "UTF-16": ("a,y\n1,0\n".encode("utf-16"), "is text in UTF-16: save it as UTF-8"),
    "matrix market": (b"%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 1\n2 3 1\n", "."),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("kind", TEXTS)
def test_other_files_are_refused(tmp_path, ask, kind, name):
    content, said = WRONG[name]
    (tmp_path / "f.txt").write_bytes(content)
    with pytest.raises(InputError, match=said):
        make(kind, tmp_path / "f.txt", tmp_path / "s.zarr", ask)
    assert not (tmp_path / "s.zarr").exists()


def test_a_size_line_is_not_an_edge(tmp_path):
    edges = "".join(f"{i} {(i + 1) % 6}\n" for i in range(6))
    (tmp_path / "sized.txt").write_text("7 6\n" + edges)
    with pytest.raises(InputError, match=r"sized\.txt: the first line, 7 6, counts the 6 edges after it"):
        ingest_graph([tmp_path / "sized.txt"], tmp_path / "g.zarr")
    (tmp_path / "plain.txt").write_text("6 4\n" + edges)  # an edge: there are six others
    ingest_graph([tmp_path / "plain.txt"], tmp_path / "g.zarr")
    assert read_graph(store.open_store(tmp_path / "g.zarr")).nnz == 7


@pytest.mark.parametrize(("option", "text", "said"), [
    ("labels", "label\n0\n1\n1\n", "line 1: 'label' names a column"),
    ("labels", "id,label\n0,1\n1,1\n2,0\n", "line 1: 'id' and 'label' names a column"),
    ("labels", "3\n0\n1\n1\n", "line 1: 3 counts the lines after it"),
    ("labels", "0\nNA\n1\n", "line 2: column 1 is 'NA', a mark of a missing value"),
    ("nodes", "node\n1\n2\n3\n", "line 1: 'node' names a column"),
    ("nodes", "1\nnull\n2\n3\n", "line 2: column 1 is 'null', a mark of a missing value"),
])  # fmt: skip
def test_first_lines_and_missing_marks_beside_a_graph(tmp_path, option, text, said):
    (tmp_path / "edges.txt").write_text(TEXTS["graph"])
    (tmp_path / "beside.txt").write_text(text)
    with pytest.raises(InputError, match=said):
        ingest_graph([tmp_path / "edges.txt"], tmp_path / "g.zarr", **{option: tmp_path / "beside.txt"})


# --------------------------------------------------------------------------------------------------------- tables
def features(path):
    return store.about(store.open_store(path, "dataset"))["feature_names"]


@pytest.mark.parametrize("index", ["filtered", "named", "multi", "dask", "none"])
def test_the_index_of_a_data_frame_is_not_a_feature(tmp_path, index):
    frame = FRAME[FRAME.a > 0.5]
    frame = {"named": frame.rename_axis("id"), "multi": frame.set_index([frame.index, frame.index * 2])}.get(
        index, frame
    )
    if index == "dask":
        dd.from_pandas(frame, npartitions=2).to_parquet(tmp_path / "t.parquet")
    else:
        frame.to_parquet(tmp_path / "t.parquet", index=index != "none")
    ingest_table([tmp_path / "t.parquet"], tmp_path / "t.zarr", labels=["y"])
    assert features(tmp_path / "t.zarr") == ["a", "b"]
    assert len(arrays(tmp_path / "t.zarr")[0]) == len(frame)


def test_a_folder_of_parquet_is_read_in_the_order_of_its_parts(tmp_path, ask):
    frame = pd.DataFrame({"a": np.arange(24.0), "y": np.arange(24) % 2})
    dd.from_pandas(frame, npartitions=12).to_parquet(tmp_path / "t", write_index=False)
    code, _, err = ask("ingest", "table", tmp_path / "t", "--label", "y", "--to", tmp_path / "t.zarr", "-q")
    assert (code, err) == (0, "")
    assert arrays(tmp_path / "t.zarr")[0] == [[float(i)] for i in range(24)]


def test_an_index_in_text_is_refused(tmp_path):
    FRAME.to_csv(tmp_path / "i.csv")
    with pytest.raises(InputError, match=r"column 1 has no name, .* or leave it out"):
        ingest_table([tmp_path / "i.csv"], tmp_path / "t.zarr", labels=["y"])
    pd.read_csv(tmp_path / "i.csv").to_csv(tmp_path / "u.csv", index=False)
    with pytest.raises(InputError, match=r"column 'Unnamed: 0' is a data frame's index: leave it out with --drop"):
        ingest_table([tmp_path / "u.csv"], tmp_path / "t.zarr", labels=["y"])
    ingest_table([tmp_path / "u.csv"], tmp_path / "t.zarr", labels=["y"], drop=["Unnamed: 0"])
    assert features(tmp_path / "t.zarr") == ["a", "b"]


def test_text_without_a_header_and_names_with_commas(tmp_path, ask):
    FRAME.to_csv(tmp_path / "h.csv", index=False, header=False)
    assert refused(
        ask("ingest", "table", tmp_path / "h.csv", "--label", "3", "--to", tmp_path / "h.zarr"), "--no-header"
    )
    assert (
        ask("ingest", "table", tmp_path / "h.csv", "--label", "3", "--no-header", "--to", tmp_path / "h.zarr")[0] == 0
    )
    assert features(tmp_path / "h.zarr") == ["1", "2"] and len(arrays(tmp_path / "h.zarr")[0]) == 20
    FRAME.rename(columns={"b": "income, USD"}).to_csv(tmp_path / "c.csv", index=False)
    given = ("--label", "y", "--drop", "income, USD", "--to", tmp_path / "c.zarr")
    assert ask("ingest", "table", tmp_path / "c.csv", *given)[0] == 0
    assert features(tmp_path / "c.zarr") == ["a"]


BIG = 1234567890123456789


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_whole_numbers_beyond_float64_are_kept_or_refused(tmp_path, suffix, kind):
    large = BIG if kind == "int64" else 18446744073709551600
    frame, file = FRAME.assign(y=np.array([large + i % 2 for i in range(20)], kind)), tmp_path / f"t.{suffix}"
    write = {"csv": lambda f: f.to_csv(file, index=False), "parquet": lambda f: f.to_parquet(file, index=False)}[suffix]
    write(frame)
    ingest_table([file], tmp_path / "t.zarr", labels=["y"])
    y = store.read(store.array(store.open_store(tmp_path / "t.zarr"), "y"))
    assert sorted({str(value) for value in y}) == [str(large), str(large + 1)]
    write(FRAME.assign(a=frame.y))
    with pytest.raises(InputError, match=f"column 'a' is .?{large}.?, a whole number beyond 2"):
        ingest_table([file], tmp_path / "f.zarr", labels=["y"])


def test_large_labels_of_sparse_rows_are_refused(tmp_path):
    (tmp_path / "b.svm").write_text(f"1 1:2\n{BIG} 1:3\n")
    with pytest.raises(InputError, match=rf"line 2: the label '{BIG}' is beyond 2\^53"):
        ingest_svmlight([tmp_path / "b.svm"], tmp_path / "b.zarr")


@pytest.mark.parametrize("mark", ["", "NA", "nan", "NULL", "None", "?", "N/A"])
def test_a_missing_mark_is_not_a_class(tmp_path, mark):
    (tmp_path / "t.csv").write_text(f"a,y\n1,cat\n2,{mark}\n3,dog\n")
    with pytest.raises(InputError, match=r"line 3: column 'y' is .*, a missing label; give each row a label"):
        ingest_table([tmp_path / "t.csv"], tmp_path / "t.zarr", labels=["y"])

"""Stores of a stranger: what they claim is not believed, and what they hold cannot run."""

import json
import shutil
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import zarr
from commands import COMMAND, refused

from ask_dask import steps, store
from ask_dask.errors import StoreError
from ask_dask.store import listing


def write(path):
    with store.create(path, "dataset") as group:
        store.create_array(group, "X", (5000, 3), np.float32)[:] = 1
    return Path(path)


def hostile(path, **change):
    """A store whose array X claims something else, with the hashes that its maker would give it."""
    file = path / "X" / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    group = zarr.open_group(path)
    store.describe(group, listed=listing._files(path))
    store.describe(group, seal=listing._seal(store.about(group)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shape": [10**15, 3]}, "X claims chunks of .* and [0-9,]+ parts, and at most"),
        ({"shape": [10**15, 3], "codecs": [{"name": "bytes"}], "chunk_grid": {
            "name": "regular", "configuration": {"chunk_shape": [10**14, 3]}}}, "X claims chunks of [0-9.]+ GiB"),
        ({"data_type": "object"}, "X cannot be opened"),
        ({"shape": [10**9, 3], "codecs": [{"name": "bytes"}], "chunk_grid": {
            "name": "regular", "configuration": {"chunk_shape": [1, 3]}}}, "X claims .* and 1,000,000,000 parts"),
        ({"codecs": [{"name": "pickle"}]}, "X cannot be opened"),
        ({"codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 9}}]}, "is packed by gzip"),
        ({"codecs": [{"name": "numcodecs.pickle"}]}, "X cannot be opened"),
        ({"data_type": {"name": "numpy.object_", "configuration": {}}}, "X cannot be opened"),
    ],
)  # fmt: skip
def test_a_hostile_store_is_not_taken(tmp_path, ask, change, said):
    path = write(tmp_path / "s.zarr")
    hostile(path, **change)
    with pytest.raises(StoreError, match=said):
        store.open_store(path)
    assert refused(ask("info", path), "s.zarr is")


def seal_without_X(path):
    """The list of files, which its maker made anew, does not have X."""
    group = zarr.open_group(path)
    listing.close(group, path)
    store.describe(group, listed={name: of for name, of in store.about(group)["listed"].items() if name[0] != "X"})
    store.describe(group, seal=listing._seal(store.about(group)))


def test_an_array_that_is_not_listed_is_not_taken(tmp_path, ask):
    path = write(tmp_path / "s.zarr")
    hostile(path, codecs=[{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 9}}])
    seal_without_X(path)
    with pytest.raises(StoreError, match=r"s\.zarr is damaged, X/zarr.json was added after the store was made"):
        store.open_store(path)
    assert "X/zarr.json was added" in ask("verify", path)[1]


def test_nor_is_a_link_to_one(tmp_path):
    path = write(tmp_path / "s.zarr")
    (path / "X").rename(tmp_path / "elsewhere")
    (path / "X").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    seal_without_X(path)
    with pytest.raises(StoreError, match=r"X/ was added after the store was made"):
        store.open_store(path)


def test_nor_one_on_object_storage(memory):
    with store.create(f"{memory}/s.zarr", "dataset") as group:
        store.create_array(group, "X", (50, 3), np.float32)[:] = 1
    fs, found = store.opened(f"{memory}/s.zarr")
    (data,) = (name for name in fs.ls(found, detail=False) if "/v-" in name)
    fs.copy(f"{data}/X/zarr.json", f"{data}/Y/zarr.json")
    with pytest.raises(StoreError, match=r"s\.zarr is damaged, Y/zarr.json was added"):
        store.open_store(f"{memory}/s.zarr")


@pytest.mark.parametrize(("where", "said"), [("", "its group /"), ("inner", "its group inner")])
def test_a_copy_of_metadata_that_no_file_backs_is_not_taken(tmp_path, where, said):
    """Zarr would believe the copy."""
    path = write(tmp_path / "s.zarr")
    store.create_array(zarr.open_group(path).create_group("inner"), "X", (3,), float)
    with pytest.warns(UserWarning, match="Consolidated metadata"):
        zarr.consolidate_metadata(path / where)
    (path / where / "X" / "zarr.json").unlink()
    group = zarr.open_group(path)
    store.describe(group, listed=listing._files(path))
    store.describe(group, seal=listing._seal(store.about(group)))
    with pytest.raises(StoreError, match=f"s.zarr is not taken: {said} has consolidated metadata, which ask-dask does"):
        store.open_store(path)


def test_a_chunk_that_would_fill_the_memory_is_refused(tmp_path):
    """A few hundred bytes that stand for 256 MiB, with the checksum that their maker gives them."""
    path = write(tmp_path / "s.zarr")
    bomb = zarr.create_array(
        tmp_path / "b", shape=1 << 25, chunks=(1 << 25,), dtype=float, compressors=store.QUICK, fill_value=1
    )
    bomb[:] = 0
    group = zarr.open_group(path)
    del group["X"]
    made = group.create_array("X", shape=(5000, 3), dtype=float, chunks=(5000, 3), compressors=store.QUICK)
    made[:] = 1
    shutil.copy(tmp_path / "b" / "c" / "0", path / "X" / "c" / "0" / "0")
    listing.close(group, path)
    array = store.array(store.open_store(path), "X")
    assert (path / "X" / "c" / "0" / "0").stat().st_size < 2 << 20
    tracemalloc.start()
    with pytest.raises(StoreError, match=r"X is damaged .*\(a chunk claims 256.0 MiB and its shape needs 117.2 KiB\)"):
        store.read(array)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("labels", [(), (2,)], ids=["classes", "several"])
def test_labels_that_would_fill_the_memory_are_not_read(tmp_path, ask, labels):
    """A store of two kilobytes that claims twenty million rows."""
    n = 20_000_000
    with store.create(tmp_path / "s.zarr", "dataset") as group:
        for name, more in (("X", (3,)), ("y", labels)):
            group.create_array(name, shape=(n, *more), chunks=(1 << 18, *more), dtype="i8", compressors=store.QUICK)
        store.describe(group, fingerprint="h", n_rows=n, format="table")
    tracemalloc.start()
    result = ask("fit", "--data", tmp_path / "s.zarr", "--to", tmp_path / "m.zarr", "--memory", "100MiB", "--quiet")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused(result, "rows=20000000 needs ") and "the memory budget is 100.0 MiB: use rows=" in result[2]
    assert peak < 50 << 20


def test_names_that_lead_out_of_the_store_are_not_followed(tmp_path):
    path = write(tmp_path / "s.zarr")
    (tmp_path / "secret").write_text("mine")
    group = zarr.open_group(path)
    listed = store.about(group)["listed"] | {"../secret": [4, None], "/etc/passwd": [1, None]}
    store.describe(group, listed=listed)
    store.describe(group, seal=listing._seal(store.about(group)))
    with pytest.raises(StoreError, match=r"\.\./secret is missing"):
        store.open_store(path)


def test_nothing_is_pickled(tmp_path):
    path = write(tmp_path / "s.zarr")
    with pytest.raises(ValueError, match="object"):
        store.write_array(zarr.open_group(path), "objects", np.array([{}, None], object))
    for file in path.rglob("zarr.json"):
        text = file.read_text().lower()
        assert "pickle" not in text and "vlen" not in text
        for codec in json.loads(text).get("codecs", []):
            assert codec["name"] in {"bytes", "blosc", "crc32c", "sharding_indexed"}


LIES = {
    "beyond": ("indices", lambda values: np.r_[values[:-1], 10**6].astype(np.int32)),
    "negative": ("indices", lambda values: np.full_like(values, -1)),
    "short": ("indptr", lambda values: values[:-1]),
    "folded": ("indptr", lambda values: values.astype(np.int8)),
    "one number": ("indptr", lambda values: values[0]),
    "empty": ("data", lambda values: values[:0]),
    "complex": ("data", lambda values: values * 1j),
}


@pytest.mark.parametrize(("part", "lie"), LIES.values(), ids=LIES)
@pytest.mark.parametrize("of", ["store", "model"])
def test_edges_that_lead_out_of_a_graph_are_not_followed(tmp_path, done, part, lie, of):
    """Compiled code would write where they point, and the command end in a crash: it runs in a process of its own."""
    (tmp_path / "edges.txt").write_text("".join(f"{i} {(7 * i + j) % 60}\n" for i in range(60) for j in range(5)))
    (tmp_path / "labels.txt").write_text("".join(f"{i} {i % 2}\n" for i in range(60)))
    data, model = tmp_path / "graph.zarr", tmp_path / "model.zarr"
    done("ingest", "graph", tmp_path / "edges.txt", "--labels", tmp_path / "labels.txt", "--to", data)
    fit = ("fit", "--exact", "--gamma", "1", "--cv", "2", "--data", data, "--to")
    done(*fit, model)
    path = data if of == "store" else model
    group = zarr.open_group(path)
    (name,) = (name for name, found in group.groups() if "indptr" in found)
    values = group[name][part][...]
    del group[name][part]
    store.write_array(group[name], part, lie(values))
    listing.close(group, path)
    command = fit if of == "store" else ("predict", "--model", model, "--data", data, "--to")
    words = [*COMMAND, *map(str, command), tmp_path / "x", "--quiet"]
    left = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused((left.returncode, left.stdout, left.stderr), f"{name} is damaged (")


@pytest.mark.parametrize(
    "facts", [{"made_by": None}, {"made_by": {}}, {"rejected": 1.5}, {"steps": 3}, {"format": [1]}], ids=str
)
@pytest.mark.parametrize("command", ["status", "info", "verify", "fit"])
def test_facts_of_other_types_are_no_traceback(tmp_path, ask, facts, command):
    """Whatever comes of them: a result, or one line."""
    path = tmp_path / "s.zarr"
    with store.create(path, "dataset") as group:
        store.create_array(group, "X", (40, 3), np.float32)[:] = np.random.default_rng(0).normal(size=(40, 3))
        store.create_array(group, "y", (40,), np.int64)[:] = np.arange(40) % 2
        store.describe(group, fingerprint="h", n_rows=40, format="table", n_features=3)
    group = zarr.open_group(path)
    store.describe(group, **facts)
    listing.close(group, path)
    fit = ("--data", path, "--to", tmp_path / "m.zarr", "--gamma", "1", "--cv", "2", "--n-landmarks", "9", "--quiet")
    result = ask(command, *(fit if command == "fit" else (path,)))
    assert result[0] == 0 or refused(result, "")


def test_facts_do_not_command_the_terminal(tmp_path, ask):
    path = write(tmp_path / "s.zarr")
    group = zarr.open_group(path)
    store.describe(group, format="\x1b[2J\u202egpj.exe", files=["\ud800"])
    listing.close(group, path)
    code, out, _ = ask("info", path)
    assert code == 0 and "format: \\x1b[2J\\u202egpj.exe" in out and "\\ud800" in out
    result = ask("info", tmp_path / "\x1b[2J.zarr")
    assert refused(result, "There is no store at ") and "\x1b" not in result[2]


def test_what_nobody_foresaw_is_one_line(tmp_path, ask, monkeypatch):
    def fail(path):
        raise TypeError("that\nmemory://me:secret@host/a is none")

    monkeypatch.setattr(steps, "info", fail)
    result = ask("info", tmp_path)
    assert refused(result, "An unforeseen TypeError in info, line ") and "secret" not in result[2]
    assert "report it with what --verbose adds" in result[2]
    code, _, err = ask("info", tmp_path, "--verbose")
    assert code == 1 and "Traceback (most recent call last)" in err and "secret" not in err

"""Every kind of store damaged in every chunk; disks that are full, read-only or closed: one line, nothing lost."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from commands import hidden, refused
from fuzz.seeds import SEEDS
from small import QUICK

from ask_dask import blocks, demo, load, steps, store
from ask_dask.errors import CheckpointError, StoreError
from ask_dask.ingest.synthetic import make_criteo
from ask_dask.store import Checkpoint

FIT = ("--n-landmarks", "40,100", "--gamma", "1", "--cv", "2", "--bandwidth", "20")
MAKING = {
    "made": ("make", "criteo", "--rows", "8000", "--files", "2"),
    "made.zarr": ("make", "criteo", "--rows", "1500", "--store", "--buckets", "512"),
    "data.zarr": ("ingest", "criteo", "train.txt", "--buckets", "512"),
    "table.zarr": ("ingest", "table", "points.csv", "--label", "y"),
    "sparse.zarr": ("ingest", "svmlight", "points.svm"),
    "graph.zarr": ("ingest", "graph", "edges.txt"),
    "samples.zarr": ("ingest", "samples", "samples.txt", "--components", "1", "--draws", "50"),
    "model.zarr": ("fit", "--data", "data.zarr", *FIT),
    "embedding.zarr": (
        "embed",
        "--data",
        "table.zarr",
        "--bandwidth",
        "1",
        "--n-components",
        "20",
        "--n-landmarks",
        "50",
    ),
    "predictions.zarr": ("predict", "--model", "model.zarr", "--data", "data.zarr"),
    "raw.zarr": ("predict", "--model", "model.zarr", "--data", "train.txt"),
    "report.html": ("report", "--model", "model.zarr", "--predictions", "predictions.zarr"),
}
"""What makes each thing, in an order in which each finds what it needs."""


def raw_files():
    rng = np.random.default_rng(0)
    make_criteo("train.txt", 1500)
    rows = rng.normal(size=(4000, 4)).round(4)
    Path("points.csv").write_text("a,b,c,d,y\n" + "".join(",".join(map(str, [*r, i % 2])) + "\n" for i, r in
                                                          enumerate(rows)))  # fmt: skip
    Path("points.svm").write_text("".join(f"{i % 2} 1:{r[0]} 3:{r[1]} 9:{r[2]}\n" for i, r in enumerate(rows)))
    Path("edges.txt").write_text("".join(f"{a} {b}\n" for a, b in rng.integers(0, 3000, (20_000, 2))))
    Path("samples.txt").write_text("".join(f"i{i % 20} {r[0]} {r[1]}\n" for i, r in enumerate(rows)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Raw files and a store of each kind, in a folder that everyone may read."""
    folder = Path(tempfile.mkdtemp(prefix="ask-dask-"))
    folder.chmod(0o755)
    before = Path.cwd()
    os.chdir(folder)
    try:
        raw_files()
        for name, arguments in MAKING.items():
            run(*arguments, "--to", name)
        checkpoint = Checkpoint("kept.checkpoint", "of this problem")
        checkpoint.offer(lambda: {"gram": np.ones((50, 50)), "done": np.array([3, 100])}, last=True)
        yield folder
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


@pytest.fixture
def here(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def run(*arguments):
    from ask_dask import cli

    with pytest.raises(SystemExit) as left:
        cli.main([*map(str, arguments), "--quiet"])
    assert left.value.code == 0, arguments


STORES = [*(name for name in MAKING if name.endswith(".zarr")), "kept.checkpoint"]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("name", STORES)
def test_damage_of_any_chunk_or_metadata_of_any_store_is_named(here, tmp_path, name):
    """A flipped byte, a chunk that is gone, metadata cut short: by file or by array and rows."""
    place = shutil.copytree(name, tmp_path / name)
    files = {file.relative_to(place): file.read_bytes() for file in place.rglob("*") if file.is_file()}
    chunks = [file for file in files if file.name != "zarr.json"]
    assert chunks and steps.verify(place)["problems"] == []
    for file in chunks:
        (place / file).write_bytes(flipped(files[file]))
    told = steps.verify(place)["problems"]
    arrays = ["/".join(file.parts[: file.parts.index("c")]) for file in chunks]
    assert sorted(problem.partition(" is damaged between rows ")[0] for problem in told) == sorted(
        f"{place}/{array}" for array in arrays
    )
    for file, content in files.items():
        (place / file).unlink()
        missing = "There is no store|is not a store" if str(file) == "zarr.json" else f"damaged, {file} is missing"
        with pytest.raises(StoreError, match=missing):
            store.open_store(place)
        (place / file).write_bytes(content[:-20] if file.name == "zarr.json" else content)
        if file.name == "zarr.json":
            short = "or its zarr.json is damaged" if str(file) == "zarr.json" else f"damaged, {file} has"
            with pytest.raises(StoreError, match=short):
                store.open_store(place)
        (place / file).write_bytes(content)
    assert store.open_store(place)


def test_the_damaged_chunk_of_many_is_named(tmp_path):
    with store.create(tmp_path / "s.zarr", "dataset") as group:
        made = group.create_array("X", shape=(1000, 2), dtype=float, chunks=(100, 2), compressors=store.QUICK)
        made[:] = np.random.default_rng(0).random((1000, 2))
    file = tmp_path / "s.zarr" / "X" / "c" / "7" / "0"
    content = bytearray(file.read_bytes())
    content[50] ^= 1
    file.write_bytes(content)
    with pytest.raises(OSError, match=r"s.zarr/X is damaged between rows 700 and 800 \("):
        store.read(store.open_store(tmp_path / "s.zarr")["X"], 150, 950)


def test_verify_tells_all_that_is_wrong_at_once(tmp_path):
    """Files that are missing or cut short, of chunks and of metadata, beside damage that only reading finds."""
    place = tmp_path / "s.zarr"
    with store.create(place, "dataset") as group:
        for name in ("X", "Z"):
            made = group.create_array(name, shape=(1000, 2), dtype=float, chunks=(100, 2), compressors=store.QUICK)
            made[:] = np.random.default_rng(0).random((1000, 2))
        store.write_array(group, "one", 1.0)
    chunks = place / "X" / "c"
    for number in (2, 5):
        (chunks / f"{number}/0").unlink()
    for number in (3, 7):
        (chunks / f"{number}/0").write_bytes(flipped((chunks / f"{number}/0").read_bytes()))
    told = steps.verify(place)["problems"]
    assert [problem.partition(" (")[0].partition(": ")[0] for problem in told] == [
        f"{place} is damaged, X/c/2/0 is missing",
        f"{place} is damaged, X/c/5/0 is missing",
        f"{place}/X is damaged between rows 300 and 400",
        f"{place}/X is damaged between rows 700 and 800",
    ]
    (chunks / "8" / "0").write_bytes(b"")
    (place / "Z" / "zarr.json").unlink()
    (place / "one" / "c").write_bytes(flipped((place / "one" / "c").read_bytes()))
    more = steps.verify(place)["problems"]
    assert len(more) == 7 and {*told} < {*more} and "rows 0 and 1 (" in more[-1]


def test_a_damaged_checkpoint_is_named_and_not_used(here, tmp_path):
    shutil.copytree("kept.checkpoint", tmp_path / "c")
    assert Checkpoint(tmp_path / "c", "of this problem").load()["done"].tolist() == [3, 100]
    file = tmp_path / "c" / "gram" / "c" / "0" / "0"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"c/gram is damaged between rows 0 and 50 .* replaced with --overwrite"):
        Checkpoint(tmp_path / "c", "of this problem").load()


def taken(path):
    """Bytes on a disk of pages of 4096 bytes."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(-(-file.stat().st_size // 4096) * 4096 for file in files)


@pytest.mark.parametrize("name", MAKING)
def test_a_disk_that_is_full_in_the_middle(here, disk, ask, name):
    """What was there is intact, nothing else is left, and the same command works when there is room."""
    command = (*MAKING[name], "--to")
    room = taken(here / name)
    if name == "made":  # files of text make way for those that replace them, one by one
        old, more, before = disk(room // 2) / name, [], {}
    else:
        old, more = disk("100m") / name, ["--overwrite"]
        run(*command, old)
        before = contents(old)
        disk(taken(old) + max(room // 2, 3 * 4096))
    assert refused(ask(*command, old, *more, "--quiet"), "No space left on device")
    assert name == "made" or contents(old) == before
    disk("100m")
    run(*command, old, *more)
    assert not hidden(old.parent)


FULL = {
    "avazu.zarr": "ingest avazu avazu.csv --buckets 64",
    "exact.zarr": "fit --data few.zarr --bandwidth 1 --exact",
    "iterated.zarr": "fit --data few.zarr --bandwidth 1 --exact --solver minres",
    "blocks.zarr": "fit --data few.zarr --bandwidth 1 --n-landmarks 50 --solver minres",
    "moments.zarr": "fit --data few.zarr --bandwidth 1 --n-landmarks 50",
    "all.zarr": "embed --data few.zarr --bandwidth 1 --n-components 5 --exact",
    "embedding.html": "report --embedding embedding.zarr",
    "text.zarr": "predict --model model.zarr --data train.txt",
}
"""What else writes a store, and the page of an embedding: small ones of few rows."""
LEVELS = [0, *(4096 * 3**level for level in range(8))]
"""Bytes of room, up to more than any of them takes."""


@pytest.fixture
def few(here, monkeypatch):
    """Few rows more in that folder, and checkpoints whenever there is one to write."""
    monkeypatch.setattr(store.checkpoint, "SECONDS", 0)
    monkeypatch.setattr(store.checkpoint, "SHARE", float("inf"))
    monkeypatch.setattr(blocks, "most_rows", lambda X: 50)
    rows = Path("points.csv").read_text().splitlines(keepends=True)
    Path("few.csv").write_text("".join(rows[:161]))
    Path("avazu.csv").write_bytes(SEEDS["avazu"][0].splitlines(keepends=True)[0] + b"".join(
        b"%d,%d,14102100" % (i, i % 2) + b",a%d" % (i % 7) * 21 + b"\n" for i in range(300)))  # fmt: skip
    run("ingest", "table", "few.csv", "--label", "y", "--to", "few.zarr", "--overwrite")


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_a_disk_that_is_full_at_any_level(few, disk, ask, name):
    """What was there is intact, nothing else is left, and the same command works when there is room.

    python -m pytest -m slow tests/test_damage.py
    """
    made = disk("100m") / name
    command = (*FULL[name].split(), *QUICK * FULL[name].startswith("fit"), "--to", made, "--overwrite")
    run(*command)
    before, refusals = contents(made), 0
    for room in LEVELS:
        disk(taken(made) + room)
        result = ask(*command, "--quiet")
        if result[0] == 0:
            break
        assert refused(result, "No space left on device")
        assert contents(made) == before
        disk("100m")
        run(*command)
        assert not hidden(made.parent)
        before, refusals = contents(made), refusals + 1
    assert result[0] == 0 and refusals > 1


@pytest.mark.slow
@pytest.mark.parametrize("command", [("demo", "--rows", "1000", "--to"), ("run",)], ids=["demo", "run"])
def test_a_disk_that_is_full_at_any_step(disk, ask, command):
    """What is complete by then is sound and is not made again; the same command does the rest when there is room.

    python -m pytest -m slow tests/test_damage.py
    """
    refusals = []
    for room in LEVELS:
        folder = disk("100m") / "demo"
        (folder.parent / "earlier").write_bytes(b"result")
        words = (*command, folder if "demo" in command else folder / "job.toml")
        if "run" in command:
            demo.make(folder, 1000)
        disk(taken(folder.parent) + room)
        result = ask(*words, "--quiet")
        if result[0] == 0:
            break
        assert refused((result[0], "", result[2]), "No space left on device")  # stdout has what earlier steps found
        refusals.append(result[2].partition(":")[2].partition(":")[0])
        assert not any(steps.verify(made)["problems"] for made in folder.glob("*.zarr"))
        before = contents(folder)
        disk("100m")
        run(*words)
        assert before.items() <= contents(folder).items() and not hidden(folder.parent)
        shutil.rmtree(folder)
    assert result[0] == 0 and len(set(refusals)) > 1, refusals


def contents(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {file: file.read_bytes() for file in files}


def test_a_checkpoint_that_finds_no_room(here, disk, monkeypatch):
    """Says so, and the one before it is there."""
    place = disk("300k") / "c"
    kept = Checkpoint(place, "p")
    kept.offer(lambda: {"gram": np.random.default_rng(0).random((100, 100))}, last=True)
    with pytest.raises(OSError, match="No space left on device"):
        kept.offer(lambda: {"gram": np.random.default_rng(0).random((200, 200))}, last=True)
    assert Checkpoint(place, "p").load()["gram"].shape == (100, 100)


@contextmanager
def as_nobody():
    """As a user whom permissions bind, as they do not bind root."""
    if os.geteuid() == 0:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        yield


def require_readable():
    """Skip where that user may not read what is installed, as in a folder that is closed to others."""
    with as_nobody():
        try:
            metadata.version("ask_dask")
            closed = not all(os.access(module.__file__, os.R_OK, effective_ids=True) for module in (np, steps))
        except metadata.PackageNotFoundError:
            closed = True
    if closed:
        pytest.skip("another user may not read the packages that are installed")


@pytest.mark.parametrize("name", MAKING)
@pytest.mark.parametrize("how", ["read-only", "permissions"])
def test_a_place_that_may_not_be_written(here, disk, ask, name, how):
    if how == "read-only":
        place = disk("10m")
        disk("ro")
        assert refused(ask(*MAKING[name], "--to", place / name, "--quiet"), "Read-only file system")
        disk("100m")
    else:
        require_readable()
        place = here / "closed"
        place.mkdir(mode=0o555)
        with as_nobody():
            assert refused(ask(*MAKING[name], "--to", place / name, "--quiet"), "Permission denied")
        place.chmod(0o755)
    assert not list(place.iterdir())
    run(*MAKING[name], "--to", place / name)
    if how == "permissions":
        shutil.rmtree(place)


@pytest.mark.parametrize(
    ("file", "command", "said"),
    [
        ("train.txt", "data.zarr", "train.txt may not be read: check its permissions"),
        ("points.csv", "table.zarr", "points.csv may not be read: check its permissions"),
        ("data.zarr/zarr.json", "model.zarr", "data.zarr may not be read: check its permissions"),
        ("data.zarr/X/zarr.json", "model.zarr", "Permission denied"),
        ("data.zarr/X/c/0/0", "model.zarr", "Permission denied"),
        ("model.zarr", "predictions.zarr", "model.zarr may not be read: check its permissions"),
    ],
)
def test_what_may_not_be_read(here, ask, file, command, said):
    require_readable()
    out = here / "open"
    out.mkdir()
    out.chmod(0o777)
    mode = (here / file).stat().st_mode & 0o777
    (here / file).chmod(0)
    try:
        with as_nobody():
            assert refused(ask(*MAKING[command], "--to", out / "x", "--quiet"), said)
            assert not list(out.iterdir())
    finally:
        (here / file).chmod(mode)
        shutil.rmtree(out)
    assert load("model.zarr").n_landmarks_

"""The steps of a job: predictions, recipes, what is skipped and what is made again."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from ask_dask import budget, load, steps, store
from ask_dask.errors import BudgetError, InputError, StoreError
from ask_dask.ingest.synthetic import make_criteo
from ask_dask.steps import prediction

JOB = """
[[step]]
do = "ingest"
format = "criteo"
files = ["train.txt"]
to = "data.zarr"
buckets = 512

[[step]]
do = "fit"
data = "data.zarr"
to = "model.zarr"
gamma = [1, 10]
n_landmarks = [20, 40]
cv = 3
bandwidth = 20

[[step]]
do = "predict"
model = "model.zarr"
data = "new.txt"
to = "predictions.zarr"

[[step]]
do = "score"
predictions = "predictions.zarr"

[[step]]
do = "report"
model = "model.zarr"
predictions = "predictions.zarr"
to = "report.html"
"""


def go(folder, overwrite=False):
    """Run the job in a folder: what each step did, and its results."""
    said = []
    results = steps.run_job(steps.read_job(folder / "job.toml"), overwrite, said.append)
    return "".join("s" if result["skipped"] else "r" for result in results), results


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder where the job has run."""
    folder = tmp_path_factory.mktemp("done")
    make_criteo(folder / "train.txt", 2500)
    make_criteo(folder / "new.txt", 2500, random_state=1)
    (folder / "job.toml").write_text(JOB)
    assert go(folder)[0] == "rrrrr"
    return folder


@pytest.fixture
def folder(done, tmp_path):
    """A copy of it that a test may change."""
    return shutil.copytree(done, tmp_path / "copy")


def change(folder, old, new):
    text = (folder / "job.toml").read_text()
    assert old in text
    (folder / "job.toml").write_text(text.replace(old, new))


def test_a_complete_job_is_skipped_wherever_its_folder_is(done, folder, monkeypatch):
    assert go(done)[0] == "sssrs"  # scores are printed each time
    assert go(folder)[0] == "sssrs"
    monkeypatch.chdir(folder)
    assert go(Path())[0] == "sssrs"


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ("[1, 10]", "[2]", "srrrr"),
        ("cv = 3", "cv = 3\nmerge = 'mean'", "srrrr"),
        ("buckets = 512", "buckets = 256", "rrrrr"),
        ("cv = 3", "cv = 3\nmemory = '4GiB'", "sssrs"),
    ],
)
def test_a_changed_recipe_makes_its_step_and_what_depends_on_it_again(folder, old, new, again):
    change(folder, old, new)
    if again != "sssrs":
        kept = store.about(store.open_store(folder / "model.zarr"))["fingerprint"]
        with pytest.raises(StoreError, match=r"step \d of 5, (fit|ingest): .*zarr was made with other .*--overwrite"):
            go(folder)
        assert store.about(store.open_store(folder / "model.zarr"))["fingerprint"] == kept
    assert go(folder, overwrite=True)[0] == again
    assert go(folder, overwrite=True)[0] == "sssrs"
    assert not list(folder.rglob(".*"))


def test_a_step_may_allow_its_own_overwriting(folder):
    change(folder, "cv = 3", "cv = 4\noverwrite = true")
    with pytest.raises(StoreError, match="step 3 of 5, predict"):
        go(folder)
    assert store.about(store.open_store(folder / "model.zarr"))["parameters"]["cv"] == 4


def test_changed_rows_are_noticed(folder):
    make_criteo(folder / "new.txt", 300, random_state=7)
    assert go(folder, overwrite=True)[0] == "ssrrr"


@pytest.mark.parametrize(("text", "said"), [
    ("a = " + "[" * 100_000, "j.toml cannot be read as TOML"),
    ("[[step]]\ndo = 'fit'\ndata = 'd.zarr'\nto = 'm.zarr'\ngamma = 2020-01-01\n", r"j.toml, step 1 \(fit\): gamma: "),
], ids=["deep", "date"])  # fmt: skip
def test_a_job_file_that_is_none(tmp_path, text, said):
    (tmp_path / "j.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        steps.read_job(tmp_path / "j.toml")


def test_secrets_of_urls_are_not_kept(done, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    url = "memory://me:secret@host/train.txt"
    with fsspec.open(url, "wb") as file:
        file.write((done / "train.txt").read_bytes())
    steps.Ingest(format="criteo", files=[url], to=tmp_path / "m.zarr", buckets=64).run()
    assert "secret" not in (tmp_path / "m.zarr" / "zarr.json").read_text()


def test_predictions_in_shards_are_the_estimators_own_numbers(done, tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "CHUNK_BYTES", 1)
    monkeypatch.setattr(budget, "SHARD_BYTES", 1)
    encoder = done / "data.zarr"
    found = steps.Ingest(
        format="criteo", files=[str(done / "new.txt")], to=tmp_path / "new.zarr", encoder=encoder
    ).run()
    assert found["n_rows"] == 2500
    steps.Predict(model=done / "model.zarr", data=[str(tmp_path / "new.zarr")], to=tmp_path / "p.zarr").run()
    group, whole = store.open_store(tmp_path / "p.zarr"), store.open_store(done / "predictions.zarr")
    assert set(group.array_keys()) == {
        "f_source", "f_target", "score", "probability", "row_id", "file", "line", "y"
    }  # fmt: skip
    assert group["score"].nchunks == 2 and group["score"].shards == (2048, 1) and whole["score"].nchunks == 1
    for name, array in group.arrays():
        np.testing.assert_array_equal(array[:], whole[name][:], err_msg=name)
    model, data = load(done / "model.zarr"), store.open_store(tmp_path / "new.zarr")
    X = data["X"][:]
    wanted = {
        "f_source": model.decision_source(X),
        "f_target": model.decision_target(X),
        "score": model.decision_function(X),
        "probability": model.predict_proba(X),
    }
    for name, value in wanted.items():
        np.testing.assert_allclose(group[name][:].reshape(value.shape), value, rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(group["row_id"][:], np.arange(2500))
    np.testing.assert_array_equal(group["y"][:], data["y"][:])
    np.testing.assert_array_equal(group["line"][:], np.arange(1, 2501))


def test_avazu_rows_keep_their_ids(data, tmp_path):
    text = (data / "avazu" / "train_10k.csv").read_bytes().splitlines(keepends=True)
    (tmp_path / "a.csv").write_bytes(b"".join(text[:1501]))
    steps.Ingest(format="avazu", files=[str(tmp_path / "a.csv")], to=tmp_path / "d.zarr", buckets=256).run()
    steps.Fit(data=tmp_path / "d.zarr", to=tmp_path / "m.zarr", gamma=[1.0], n_landmarks=[20], cv=2).run()
    steps.Predict(model=tmp_path / "m.zarr", data=[str(tmp_path / "a.csv")], to=tmp_path / "p.zarr").run()
    ids = store.open_store(tmp_path / "p.zarr")["row_id"][:]
    np.testing.assert_array_equal(ids, np.array([int(line.split(b",")[0]) for line in text[1:1501]], np.uint64))


def other_dataset(path, n_features, **facts):
    with store.create(path, "dataset") as group:
        store.write_array(group, "X", np.zeros((30, n_features), np.float32))
        store.describe(group, fingerprint="f", **facts)
    return [str(path)]


def test_rows_that_the_model_does_not_know(done, tmp_path):
    predict = {"model": done / "model.zarr", "to": tmp_path / "p.zarr"}
    with pytest.raises(InputError, match=r"was not made as the data of .*ingest it with --encoder"):
        steps.Predict(data=other_dataset(tmp_path / "a.zarr", 78), **predict).run()
    encoder = store.about(store.open_store(done / "data.zarr"))["encoder_fingerprint"]
    with pytest.raises(InputError, match=r"5 features"):
        steps.Predict(data=other_dataset(tmp_path / "b.zarr", 5, encoder_fingerprint=encoder), **predict).run()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "b.zarr"]


def test_fit_needs_labels_and_says_so_before_it_writes(tmp_path):
    (data,) = other_dataset(tmp_path / "a.zarr", 3)
    with pytest.raises(InputError, match="holds no labels"):
        steps.Fit(data=data, to=tmp_path / "m.zarr").run()
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


def test_a_shard_that_fails_leaves_nothing(done, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("in the middle")

    monkeypatch.setattr(prediction, "_predict_shard", fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        steps.Predict(model=done / "model.zarr", data=[str(done / "new.txt")], to=tmp_path / "p.zarr").run()
    assert not list(tmp_path.iterdir())


def test_a_prediction_that_does_not_fit_is_refused_before_any_work(done, tmp_path):
    step = steps.Predict(model=done / "model.zarr", data=[str(done / "new.txt")], to=tmp_path / "p.zarr", memory="2GiB")
    small = step.model_copy(update={"data": [str(done / "data.zarr")], "memory": "20KiB"})
    with pytest.raises(BudgetError, match=r"workers=\d+ needs .* the memory budget is 20.0 KiB: use a budget of"):
        small.run()
    assert not list(tmp_path.iterdir())
    step.run()


GRAPH = """
[[step]]
do = "ingest"
format = "graph"
files = ["edges.tsv"]
labels = "labels.txt"
nodes = "nodes.txt"
to = "g.zarr"

[[step]]
do = "ingest"
format = "table"
files = ["t.csv"]
label = ["y"]
to = "t.zarr"
"""


def test_graphs_and_tables_in_a_job(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    files = {"edges.tsv": "a b\nb c\n", "labels.txt": "a 1\n", "nodes.txt": "c\nb\na\n", "t.csv": "x,y\n1,2\n"}
    for name, text in {**files, "job.toml": GRAPH}.items():
        (folder / name).write_text(text)
    assert go(folder)[0] == "rr"
    assert store.open_store(folder / "g.zarr")["X"][:].tolist() == [[2]]
    folder = shutil.copytree(folder, tmp_path / "b")
    assert go(folder)[0] == "ss"
    (folder / "labels.txt").write_text("a 1\nb 2\n")
    with pytest.raises(StoreError, match=r"step 1 of 2, ingest: .*g.zarr was made with other parameters or from other"):
        go(folder)
    assert go(folder, overwrite=True)[0] == "rs"
    (folder / "nodes.txt").write_text("a\nb\nc\nd\n")
    change(folder, 'label = ["y"]', 'label = "x"')
    assert go(folder, overwrite=True)[0] == "rr" and go(folder)[0] == "ss"
    assert store.about(store.open_store(folder / "g.zarr"))["n_nodes"] == 4

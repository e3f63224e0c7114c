"""Samples of points to dataset stores: what they hold, going on after an interruption, and bad input."""

import gzip

import dask
import numpy as np
import pytest
import zarr

from ask_dask import store
from ask_dask.errors import BudgetError, InputError, StoreError
from ask_dask.ingest.samples import ingest_samples, read_divergence
from ask_dask.kernels import montecarlo

rng = np.random.default_rng(2)


@pytest.fixture
def points(tmp_path):
    """Two classes of items whose samples differ: a file of points, one of labels."""
    lines = [f"item{i},{x:.6f},{y:.6f}" for i in range(10) for x, y in rng.normal(3 * (i % 2), 1, (25, 2))]
    rng.shuffle(lines)
    (tmp_path / "points.csv").write_text("\n".join(["id,x,y", *lines]) + "\n")
    (tmp_path / "labels.csv").write_text("".join(f"item{i},{'odd' if i % 2 else 'even'}\n" for i in range(10)))
    return tmp_path


def ingested(folder, to="s.zarr", **options):
    options = {"labels": folder / "labels.csv", "n_components": 2, "n_draws": 200} | options
    ingest_samples([folder / "points.csv"], folder / to, **options)
    return store.open_store(folder / to, "dataset")


def test_ingest_makes_a_store_whose_divergences_tell_the_classes_apart(points):
    group = ingested(points, facts={"recipe": "r"})
    D, y, X = read_divergence(group)[:], group["y"][:], group["X"][:]
    assert X.dtype == np.int64 and X.tolist() == [[i] for i in range(10)]
    assert [("odd" if int(name[4:]) % 2 else "even") for name in group["names"][:]] == y.tolist()
    same = y[:, None] == y
    assert D[same].max() < D[~same].min() and (group["standard_error"][:][~same] > 0).all()
    about = store.about(group)
    assert (about["format"], about["n_rows"], about["n_features"], about["n_points"]) == ("samples", 10, 1, 250)
    assert about["label_counts"] == {"even": 5, "odd": 5} and about["recipe"] == "r"
    assert [step["step"] for step in about["steps"]] == ["read", "fit", "divergences", "write"]
    assert [file["rows"] for file in about["files"]] == [251, 10]
    assert about["mean_divergence"] == pytest.approx(D.sum() / 90)
    assert [path.name for path in points.iterdir() if path.name.startswith(".")] == []


def test_ingest_reads_all_kinds_of_text_alike(points):
    first = ingested(points)
    text = (points / "points.csv").read_text()
    halves = text.split("\n", 1)[1].splitlines()
    (points / "a.txt").write_text("# points\n" + "\n".join(halves[:70]).replace(",", " ") + "\n\n")
    (points / "b.tsv.gz").write_bytes(gzip.compress("\n".join(halves[70:]).replace(",", "\t").encode()))
    ingest_samples([points / "a.txt", points / "b.tsv.gz"], points / "t.zarr", labels=None, n_components=2, n_draws=200)
    second = store.open_store(points / "t.zarr", "dataset")
    np.testing.assert_array_equal(second["divergence"][:], first["divergence"][:])
    assert "y" not in second and store.about(second)["label_counts"] is None
    assert store.about(second)["encoder_fingerprint"] == store.about(first)["encoder_fingerprint"]
    assert store.about(second)["fingerprint"] != store.about(first)["fingerprint"]


def test_labels_of_some_items_make_fewer_rows(points):
    (points / "some.csv").write_text("item3,1\nitem8,0\n")
    group = ingested(points, labels=points / "some.csv")
    assert group["divergence"].shape == (10, 10)
    assert group["names"][:][group["X"][:, 0]].tolist() in (["item3", "item8"], ["item8", "item3"])
    assert dict(zip(group["names"][:][group["X"][:, 0]], group["y"][:], strict=True)) == {"item3": 1, "item8": 0}


def stop_after(monkeypatch, blocks):
    """Let the divergences stop with an error after some blocks, as a machine that is switched off."""
    real, done = montecarlo.divergence_row, []

    def stopping(*arguments):
        if len(done) == blocks:
            raise KeyboardInterrupt
        done.append(arguments[1])
        return real(*arguments)

    monkeypatch.setattr(montecarlo, "divergence_row", stopping)


def test_ingest_goes_on_from_where_it_was_stopped(points, monkeypatch):
    expected = ingested(points, "whole.zarr")["divergence"][:]
    with dask.config.set(scheduler="synchronous"), monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(patch, 4)
        ingested(points)
    work = points / ".s.zarr.work"
    assert not (points / "s.zarr").exists() and work.is_dir()
    assert zarr.open_group(work, mode="r")["divergence_done"][:].sum() == 4
    with monkeypatch.context() as patch:
        stop_after(patch, 6)  # a seventh block would fail
        patch.setattr("ask_dask.ingest.samples.fit_mixtures", None)  # and so would fits
        group = ingested(points)
    np.testing.assert_array_equal(group["divergence"][:], expected)
    assert not work.exists()


def test_unfinished_work_for_other_parameters_is_not_used(points, monkeypatch):
    with dask.config.set(scheduler="synchronous"), monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(patch, 4)
        ingested(points)
    other = ingested(points, n_draws=50)["divergence"][:]
    np.testing.assert_array_equal(other, ingested(points, "again.zarr", n_draws=50)["divergence"][:])


def test_a_folder_of_something_else_is_left_alone(points):
    (points / ".s.zarr.work").mkdir()
    (points / ".s.zarr.work" / "thesis.txt").write_text("all of it")
    with pytest.raises(StoreError, match="remove it, or choose another place"):
        ingested(points)
    assert (points / ".s.zarr.work" / "thesis.txt").read_text() == "all of it"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("points.csv", "a,1,2\na,1,x\n", "points.csv, line 2: 'x' in column 3 is no finite number"),
        ("points.csv", "a,1,2\na,nan,1\n", "points.csv, line 2: column 2 is 'nan', a mark of a missing value"),
        ("points.csv", "a,1,2\nb,1\n", "points.csv, line 2 has 2 columns"),
        ("points.csv", "a\nb\n", "points.csv, line 1 has 1 column"),
        ("points.csv", "a,1,2\n,1,2\n", "points.csv, line 2: column 1 is empty"),
        ("points.csv", "id,x,y\n", "points.csv has no points"),
        ("labels.csv", "item1,0\nitem99,1\n", "labels.csv, line 2: the item 'item99' has no points"),
        ("labels.csv", "item1,0\nitem1,1\n", "labels.csv, line 2: 'item1' is there twice"),
        ("labels.csv", "item1\n", "labels.csv, line 1 has 1 column"),
    ],
)
def test_bad_files_are_one_sentence(points, name, text, message):
    (points / name).write_text(text)
    with pytest.raises(InputError, match=message):
        ingested(points)
    assert not (points / "s.zarr").exists()


def test_bad_parameters_and_places_are_one_sentence(points):
    ingested(points)
    with pytest.raises(StoreError, match="exists already"):
        ingested(points)
    ingested(points, overwrite=True)
    for options, message in (({"n_draws": 1}, "n_draws is 1"), ({"n_components": 0}, "n_components is 0")):
        with pytest.raises(InputError, match=message):
            ingested(points, "t.zarr", **options)
    with pytest.raises(BudgetError, match=r"n_draws=200 needs"):
        ingested(points, "t.zarr", memory=1 << 20)
    with pytest.raises(InputError, match="holds no divergences"):
        read_divergence(zarr.create_group({}))

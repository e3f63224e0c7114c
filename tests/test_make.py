"""Made-up click logs: the same rows however they are cut, what they are like, and files that appear whole."""

import gzip
import json
import tracemalloc
from itertools import pairwise
from pathlib import Path

import dask
import numpy as np
import pytest
from commands import hidden, refused
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ask_dask import AsKLSClassifier, steps, store
from ask_dask.errors import InputError, StoreError
from ask_dask.ingest import ingest, read_rejects
from ask_dask.ingest.synthetic import encoded, folder, make_criteo, make_folder, make_rows, make_store, rows, text
from ask_dask.kernels import SNE

FIELDS = ("label", "probability", "integers", "tokens", "no_integer", "no_token")


def log(first, stop, seed=0):
    """Rows first..stop as one."""
    blocks = list(make_rows(first, stop, seed))
    return rows.Rows(*(np.concatenate([getattr(block, name) for block in blocks], axis=-1) for name in FIELDS))


def content(place):
    """The text of all files of a folder, in order."""
    names = json.loads((place / "made.json").read_text())["files"]
    return b"".join((gzip.open if name.endswith(".gz") else open)(place / name, "rb").read() for name in names)


@pytest.fixture(scope="module")
def many():
    """Four blocks of rows."""
    return log(0, 65_536)


@pytest.mark.parametrize("cuts", [(0, 1, 16_384, 40_000), (5, 16_383, 16_385, 33_000), (49_000, 49_001, 65_536)])
def test_a_row_depends_on_the_seed_and_its_number_alone(many, cuts):
    for first, stop in pairwise(cuts):
        part = log(first, stop)
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(part, name), getattr(many, name)[..., first:stop])
    assert (log(cuts[0], cuts[1], seed=1).integers != many.integers[:, cuts[0] : cuts[1]]).mean() > 0.3


def test_files_and_workers_change_nothing(tmp_path):
    whole = make_folder(tmp_path / "whole", 40_001, n_files=1, compress="none")
    with dask.config.set(scheduler="sync"):
        parted = make_folder(tmp_path / "parted", 40_001, n_files=3, compress="gz")
    assert parted["files"] == ["part-0.txt.gz", "part-1.txt.gz", "part-2.txt.gz"]
    assert content(tmp_path / "whole") == content(tmp_path / "parted")
    make_criteo(tmp_path / "later.txt", 10_001, first=30_000)
    assert content(tmp_path / "whole").endswith(b"\n" + (tmp_path / "later.txt").read_bytes())
    for key in ("n_rows", "click_rate", "best_auroc"):
        assert whole[key] == parted[key]
    make_folder(tmp_path / "again", 40_001, n_files=3, overwrite=True)
    assert (tmp_path / "again" / "part-1.txt.gz").read_bytes() == (tmp_path / "parted" / "part-1.txt.gz").read_bytes()


def test_the_text_is_what_was_made(tmp_path, many):
    make_criteo(tmp_path / "log.txt", 500)
    for i, line in enumerate((tmp_path / "log.txt").read_text().splitlines()):
        integers = ["" if no else str(v) for v, no in zip(many.integers[:, i], many.no_integer[:, i], strict=True)]
        tokens = ["" if no else f"{v:08x}" for v, no in zip(many.tokens[:, i], many.no_token[:, i], strict=True)]
        assert line == "\t".join([str(many.label[i]), *integers, *tokens])


def test_the_best_auroc_is_that_of_the_true_probability(tmp_path, many):
    made = make_folder(tmp_path / "log", 65_536, compress="none")
    assert made["best_auroc"] == pytest.approx(roc_auc_score(many.label, many.probability), abs=1e-5)
    assert made["click_rate"] == many.label.mean() and 0.2 < made["click_rate"] < 0.3
    assert many.probability.mean() == pytest.approx(made["click_rate"], abs=4 / 65_536**0.5 / 2)


def test_the_probability_depends_on_the_written_cells_alone(many):
    hidden_integers = np.where(many.no_integer, 999, many.integers)
    hidden_tokens = np.where(many.no_token, np.uint32(999), many.tokens)
    day = np.arange(65_536) / rows.DAY_ROWS
    again = rows.click_probability(hidden_integers, hidden_tokens, many.no_integer, many.no_token, day)
    np.testing.assert_array_equal(again, many.probability)


def test_cells_are_missing_as_designed(many):
    for absent, shares in ((many.no_integer, rows.ABSENT_INTEGERS), (many.no_token, rows.ABSENT_TOKENS)):
        expected = np.zeros(len(absent))
        for columns, share in shares.items():
            expected[list(columns)] = share
            assert (absent[list(columns)] == absent[columns[0]]).all()
        np.testing.assert_allclose(absent.mean(axis=1), expected, atol=0.008)


def test_values_follow_the_law_of_zipf_and_grow(many):
    distinct = np.array([[len(np.unique(tokens[:n])) for n in (16_384, 65_536)] for tokens in many.tokens])
    for j in (4, 5, 8, 13, 16, 19, 22):
        assert distinct[j, 1] == rows.N_VALUES[j]
    for j in (2, 11, 15, 20):
        assert distinct[j, 1] > 3 * distinct[j, 0]
    rank = np.arange(rows.N_VALUES[9])
    share = np.log((rank + 2) / (rank + 1)) / np.log(len(rank) + 1)
    np.testing.assert_allclose(distinct[9], [(1 - (1 - share) ** n).sum() for n in (16_384, 65_536)], rtol=0.02)
    assert sum(rows.N_VALUES) > 34_000_000


def test_the_label_rate_and_what_is_popular_change_with_time():
    starts = [int(day * rows.DAY_ROWS) for day in (0.25, 0.75, 3.25)]
    morning, evening, later = (log(start, start + 65_536) for start in starts)
    assert morning.label.mean() > evening.label.mean() + 0.04
    half = log(starts[0] + 65_536, starts[0] + 131_072)

    def distance(one, other, j):
        values = np.unique(np.concatenate([one.tokens[j], other.tokens[j]]), return_inverse=True)[1]
        counts = [np.bincount(part, minlength=values.max() + 1) for part in np.split(values, 2)]
        return abs(counts[0] - counts[1]).sum() / (2 * 65_536)

    for j in (0, 4, 13):
        assert distance(morning, half, j) < distance(morning, evening, j) < distance(morning, later, j)
        assert 0.1 < distance(morning, later, j) < 0.3


def same(one, other):
    """Two dataset stores hold the same rows."""
    for name in ("X", "y", "line", "file"):
        np.testing.assert_array_equal(one[name][:], other[name][:], err_msg=name)
    first, second = store.about(one), store.about(other)
    for key in ("fingerprint", "encoder_fingerprint", "label_counts", "n_rows", "feature_names", "encoding"):
        assert first[key] == second[key], key
    return True


def test_a_store_is_the_one_that_the_text_is_ingested_to(tmp_path, monkeypatch):
    monkeypatch.setattr(encoded, "PIECE_ROWS", 7000)
    how = {"n_buckets": 1024, "counts": True}
    make_criteo(tmp_path / "log.txt", 20_000, random_state=3)
    ingest([tmp_path / "log.txt"], tmp_path / "a.zarr", format="criteo", random_state=5, max_rejects=0, **how)
    make_store(tmp_path / "b.zarr", 20_000, random_state=3, encoding_random_state=5, **how)
    one, other = (store.open_store(tmp_path / name, "dataset") for name in ("a.zarr", "b.zarr"))
    assert same(one, other)
    made = store.about(other)["made"]
    assert made["click_rate"] * 20_000 == store.about(one)["label_counts"]["1"] and read_rejects(other) == []
    encoder = steps.options.read_encoder(tmp_path / "a.zarr")
    make_criteo(tmp_path / "new.txt", 900, random_state=3, first=20_000)
    ingest([tmp_path / "new.txt"], tmp_path / "c.zarr", format="criteo", encoder=encoder)
    make_store(tmp_path / "d.zarr", 900, first=20_000, random_state=3, encoder=encoder)
    assert same(*(store.open_store(tmp_path / name, "dataset") for name in ("c.zarr", "d.zarr")))


def test_memory_does_not_grow_with_the_rows(tmp_path):
    def peak(n_rows):
        tracemalloc.start()
        make_criteo(tmp_path / "log.txt", n_rows)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few = peak(2 * rows.BLOCK_ROWS)
    assert peak(8 * rows.BLOCK_ROWS) < 1.05 * few < folder.make_plan(1).total


def test_a_making_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    place, expected = tmp_path / "log", make_folder(tmp_path / "whole", 5000, n_files=3)

    def fail_in_the_last(stream, first, *others):
        tally = text.write_rows(stream, first, *others)
        if first > 3000:
            raise KeyboardInterrupt
        return tally

    with monkeypatch.context() as patched, dask.config.set(scheduler="sync"), pytest.raises(KeyboardInterrupt):
        patched.setattr(folder, "write_rows", fail_in_the_last)
        make_folder(place, 5000, n_files=3)
    there, *others = sorted(path.name for path in place.iterdir() if path.name != "made.json")
    assert there == "part-0.txt.gz" and "part-2.txt.gz" not in others and hidden(place) == []
    kept = (place / there).stat()
    with pytest.raises(StoreError, match=r"log holds part of other made-up rows: .*--overwrite"):
        make_folder(place, 5000, n_files=2)
    made = make_folder(place, 5000, n_files=3)
    assert {key: value for key, value in made.items() if key != "steps"} == {
        key: value for key, value in expected.items() if key != "steps"
    }
    assert content(place) == content(tmp_path / "whole") and hidden(place) == []
    after = (place / there).stat()
    assert (after.st_mtime_ns, after.st_ino) == (kept.st_mtime_ns, kept.st_ino)


def test_overwriting_removes_what_was_made_and_nothing_else(tmp_path):
    place = tmp_path / "log"
    make_folder(place, 300, n_files=3)
    (place / "notes.txt").write_text("mine")
    make_folder(place, 200, n_files=1, compress="none", overwrite=True)
    assert sorted(path.name for path in place.iterdir()) == ["made.json", "notes.txt", "part-0.txt"]


TO = ("--to", "x")
REFUSED = [
    (("--rows", "10", "--to", "mine"), "mine is no folder of made-up rows, so nothing there is replaced"),
    (
        ("--rows", "10", "--to", "mine", "--overwrite"),
        "mine is no folder of made-up rows, so nothing there is replaced",
    ),
    (("--rows", "10", "--to", "mine/file"), "Cannot write mine/file: File exists"),
    (("--rows", "10", "--to", "s3://bucket/x"), "give a local path"),
    (("--rows", "10", "--to", "mine", "--store", "--overwrite"), "mine is no dataset store"),
    (("--rows", "0", *TO), "--rows: input should be greater than or equal to 1"),
    (("--rows", "10", "--first", "-1", *TO), "--first: input should be greater than or equal to 0"),
    (("--rows", "10", "--files", "11", *TO), "n_files is 11: give 1 to 65535, and no more than there are rows"),
    (("--rows", "10", "--compress", "zip", *TO), "zip"),
    (("--rows", "10", "--memory", "1MiB", *TO), "use a budget of "),
    (("--rows", "10", "--store", "--memory", "1MiB", *TO), "use a budget of "),
    (("--rows", "10", "--encoder", "e.zarr", *TO), "--encoder is for a store: add --store"),
    (("--rows", "10", "--store", "--files", "2", *TO), "--files is for files of text, and --store makes none"),
    (("--rows", "1", "--store", *TO), "only the label"),
    (TO, "--rows is missing"),
]


def test_wrong_commands_are_refused(tmp_path, monkeypatch, ask):
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine/file").write_text("mine")
    for arguments, message in REFUSED:
        assert refused(ask("make", "criteo", *arguments, "-q"), message)
    assert [str(path) for path in sorted(Path().rglob("*"))] == ["mine", "mine/file"]


@pytest.mark.parametrize(("first", "wrong"), [(-1, "first is -1"), (0, "random_state is -1")])
def test_rows_that_cannot_be(tmp_path, first, wrong):
    with pytest.raises(InputError, match=wrong):
        make_criteo(tmp_path / "x", 10, first=first, random_state=-1)


def test_the_command_says_what_it_made_and_its_files_are_ingested(tmp_path, monkeypatch, done, ask):
    monkeypatch.chdir(tmp_path)
    made = done("make", "criteo", "--rows", 3000, "--to", "log", "--files", 2, "--seed", 4)
    assert made["bytes"] == sum((Path("log") / name).stat().st_size for name in made["files"])
    code, out, err = ask("make", "criteo", "--rows", 3000, "--to", "s.zarr", "--store", "--buckets", 512, "--seed", 4)
    assert (code, "best possible AUROC 0.7" in out, "Make: done" in err) == (0, True, True)
    found = done("ingest", "criteo", *sorted(Path("log").glob("*.txt.gz")), "--to", "i.zarr", "--buckets", 512)
    assert (found["n_rows"], found["rejected"]["count"]) == (3000, 0)
    assert found["label_counts"]["1"] == round(made["click_rate"] * 3000)
    assert found["fingerprint"] == done("info", "s.zarr")["fingerprint"]
    assert refused(ask("make", "criteo", "--rows", 3000, "--to", "log"), "log is complete already")


JOB = """
[[step]]
do = "make"
format = "criteo"
rows = 900
files = 2
to = "log"

[[step]]
do = "ingest"
format = "criteo"
files = ["log/part-0.txt.gz", "log/part-1.txt.gz"]
to = "data.zarr"
buckets = 64

[[step]]
do = "make"
format = "criteo"
rows = 100
first = 900
store = true
encoder = "data.zarr"
to = "new.zarr"
"""


def test_a_job_makes_its_rows_once(tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(JOB)

    def go(overwrite=False):
        return [not result["skipped"] for result in steps.run_job(steps.read_job(job), overwrite, lambda _: None)]

    assert (go(), go()) == ([True] * 3, [False] * 3)
    job.write_text(JOB.replace("files = 2", "files = 2\nseed = 1"))
    with pytest.raises(StoreError, match=r"step 1 of 3, make: .*log was made with other parameters"):
        go()
    assert go(overwrite=True) == [True] * 3
    job.write_text(JOB.replace("rows = 900", "rows = 'many'"))
    with pytest.raises(InputError, match=r"step 1 \(make\): rows: "):
        go()


@pytest.mark.slow
def test_an_asymmetric_kernel_gets_nearer_to_the_best_than_logistic_regression(tmp_path):
    make_store(tmp_path / "a.zarr", 60_000, smoothing=10.0, counts=True)
    encoder = steps.options.read_encoder(tmp_path / "a.zarr")
    make_store(tmp_path / "b.zarr", 30_000, first=60_000, encoder=encoder)
    old, new = (store.open_store(tmp_path / name, "dataset") for name in ("a.zarr", "b.zarr"))
    X, y, X_new, y_new = old["X"][:], old["y"][:], new["X"][:], new["y"][:]
    model = AsKLSClassifier(SNE(20.0), gamma=[1e3, 1e4, 1e5], n_landmarks=1000, cv=3, random_state=0).fit(X, y)
    kernel = roc_auc_score(y_new, model.predict_proba(X_new)[:, 1])
    linear = roc_auc_score(y_new, LogisticRegression(C=0.1, max_iter=1000).fit(X, y).decision_function(X_new))
    assert store.about(new)["made"]["best_auroc"] > kernel + 0.02 > linear + 0.05

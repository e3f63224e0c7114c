"""Raw files in, a dataset store out: the same one however it is made, and a clear refusal of what is not right."""

import bz2
import gzip
import os
from pathlib import Path

import dask
import numpy as np
import pytest

from ask_dask import compute, store
from ask_dask.encode import Encoder, fit
from ask_dask.errors import BudgetError, InputError, StoreError
from ask_dask.ingest import files as raw
from ask_dask.ingest import ingest, ingest_plan, read_rejects
from ask_dask.ingest.formats import CRITEO, find_layout
from ask_dask.ingest.hashing import assign_folds, hash_cells
from ask_dask.ingest.parse import Hashing, parse
from ask_dask.ingest.synthetic import make_criteo

DATA = Path(os.environ.get("ASK_DASK_DATA", Path(__file__).parents[2] / "shared" / "data"))
FILES = {"criteo": DATA / "criteo" / "train_10k.txt", "avazu": DATA / "avazu" / "train_10k.csv"}
AVAZU_HEADER = "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category," \
    "device_id,device_ip,device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21"  # fmt: skip


def real(name):
    if not FILES[name].exists():
        pytest.skip(f"no real data at {FILES[name]}: set ASK_DASK_DATA")
    return FILES[name].read_bytes()


def row(label=b"1", number=b"7", token=b"ab"):
    return b"\t".join([label, *[number] * 13, *[token] * 26]) + b"\n"


def text(n=40, start=0):
    return b"".join(row(b"01"[i % 2 :][:1], b"%d" % i, b"t%d" % (i % 5)) for i in range(start, start + n))


def avazu_row(id=b"1", click=b"0", hour=b"14102100"):
    return b",".join([id, click, hour, *[b"x"] * 21]) + b"\n"


@pytest.fixture
def made(tmp_path):
    """Ingest a text (or files) with small tables; returns the open store."""

    def make(content, format="criteo", name="train.txt", to="out.zarr", **options):
        paths = content
        if isinstance(content, bytes):
            paths = [tmp_path / name]
            paths[0].write_bytes(content)
        ingest(paths, tmp_path / to, format=format, **{"n_buckets": 512, "overwrite": True} | options)
        return store.open_store(tmp_path / to, "dataset")

    return make


def arrays(group):
    return {name: array[:] for name, array in group.arrays() if name != "rejects"}


def assert_same(one, other):
    one_arrays, other_arrays = arrays(one), arrays(other)
    assert one_arrays.keys() == other_arrays.keys()
    for name in one_arrays:
        np.testing.assert_array_equal(one_arrays[name], other_arrays[name], err_msg=name)
    for name in ("fingerprint", "encoder_fingerprint"):
        assert store.about(one)[name] == store.about(other)[name]
    assert read_rejects(one) == read_rejects(other)


def test_criteo_store(made):
    group = made(real("criteo"))
    about = store.about(group)
    assert (about["n_rows"], about["n_features"], about["rejected"]["count"]) == (10_000, 52, 0)
    assert about["label_counts"] == {"0": 7818, "1": 2182}
    assert [step["step"] for step in about["steps"]] == ["parse", "count", "write"]
    X, y = group["X"][:], group["y"][:]
    assert X.dtype == np.float32 and np.isfinite(X).all() and len(about["feature_names"]) == 52
    np.testing.assert_allclose(X[:, 26:].mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(X[:, 26:].std(axis=0), 1, atol=1e-3)
    np.testing.assert_array_equal(group["line"][:], np.arange(1, 10_001))
    np.testing.assert_array_equal(y, [int(line[:1]) for line in real("criteo").splitlines()])
    assert set(group.group_keys()) == {"encoder"}


def test_criteo_store_is_what_the_encoder_makes_of_the_parsed_rows(made):
    content = real("criteo")
    rows = parse(content, find_layout(CRITEO, content[:10_000], "a"), Hashing(512, 0)).arrays
    folds = assign_folds(0, 10_000, 5, 0)
    encoder = fit(
        rows["numeric"], rows["codes"].T, rows["y"], folds, n_buckets=512, names=(CRITEO.numeric, CRITEO.categorical)
    )
    group = made(content)
    assert store.about(group)["encoder_fingerprint"] == encoder.fingerprint
    expected = encoder.transform_training(rows["numeric"], rows["codes"].T, folds)
    np.testing.assert_array_equal(group["X"][:], expected)


def test_folds_of_rows_by_two_seeds_meet_by_chance_alone():
    """Folds of two seeds agree in one row of five, as independent ones do, also where rows are shifted or swapped."""
    n, n_folds = 20_000, 5
    folds = {seed: assign_folds(0, n, n_folds, seed) for seed in (0, 1, 2, 3, 1 << 40)}
    within = 4 * np.sqrt(1 / n_folds * (1 - 1 / n_folds) / n)  # four standard deviations of a share
    for seed, found in folds.items():
        assert np.abs(np.bincount(found, minlength=n_folds) / n - 1 / n_folds).max() < within
        for other, others in folds.items():
            places = {"as they are": others, "shifted": np.roll(others, 1), "swapped": others[np.arange(n) ^ 1]}
            for how, moved in places.items():
                if (seed, how) != (other, "as they are"):
                    assert abs((found == moved).mean() - 1 / n_folds) < within, (seed, other, how)


@pytest.mark.parametrize("n_folds", [3, 4])
def test_a_store_is_encoded_in_the_folds_of_its_seed(made, n_folds):
    content = text(60)
    rows = parse(content, find_layout(CRITEO, content, "a"), Hashing(512, 3)).arrays
    found = made(content, n_folds=n_folds, random_state=3)["X"][:]
    expected = {}
    for seed in (0, 3):
        folds = assign_folds(0, 60, n_folds, seed)
        encoder = fit(rows["numeric"], rows["codes"].T, rows["y"], folds, n_buckets=512, n_folds=n_folds)
        expected[seed] = encoder.transform_training(rows["numeric"], rows["codes"].T, folds)
    np.testing.assert_array_equal(found, expected[3])
    assert np.abs(expected[0] - expected[3]).max() > 0.1


def test_avazu_store(made):
    group = made(real("avazu"), "avazu")
    about = store.about(group)
    assert about["n_rows"] == 9999 and about["feature_names"][:3] == ["hour_of_day_logit", "weekday_logit", "C1_logit"]
    lines = real("avazu").split(b"\r\n")[1:-1]
    np.testing.assert_array_equal(group["id"][:], np.array([int(line.split(b",")[0]) for line in lines], np.uint64))
    np.testing.assert_array_equal(group["line"][:], np.arange(2, 10_001))
    assert group["id"].dtype == np.uint64


@pytest.mark.parametrize("name", ["criteo", "avazu"])
def test_the_size_of_pieces_and_shards_changes_nothing(made, monkeypatch, name):
    lines = real(name).split(b"\n")[:3000]
    lines[20], lines[2500] = lines[20] + b"\xff", b"short"
    content = b"\n".join(lines)
    whole = made(content, name, max_rejects=0.01, to="a.zarr")
    assert [reject["line"] for reject in read_rejects(whole)] == [21, 2501]
    for size in (150_000, 400_001):
        monkeypatch.setattr(raw, "PIECE_BYTES", size)
        assert_same(made(content, name, max_rejects=0.01, to="b.zarr"), whole)
    monkeypatch.setattr("ask_dask.budget.SHARD_BYTES", 1)
    monkeypatch.setattr("ask_dask.budget.CHUNK_BYTES", 1)
    parted = made(content, name, max_rejects=0.01, to="b.zarr")
    assert parted["X"].shards[0] == 2048
    np.testing.assert_array_equal(parted["X"][:], whole["X"][:])


@pytest.mark.parametrize(
    "how",
    [
        {"num_workers": 1},
        {"scheduler": "synchronous"},
        pytest.param({"scheduler": "processes"}, marks=pytest.mark.slow),
    ],
)
def test_the_scheduler_changes_nothing(made, monkeypatch, how):
    monkeypatch.setattr(raw, "PIECE_BYTES", 60_000)
    content = b"".join(text(400, i) for i in range(0, 1000, 200)) + b"\n" * 3
    with dask.config.set(num_workers=2):
        threads = made(content, to="a.zarr", counts=True)
    with dask.config.set({"num_workers": 2} | how):
        assert_same(made(content, to="b.zarr", counts=True), threads)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_compressed_files_equal_plain_ones(made, monkeypatch, suffix, pack):
    monkeypatch.setattr(raw, "PIECE_BYTES", 60_000)
    content = text(500) + b"x\n" + text(501)[:-1]
    plain = made(content, to="a.zarr", max_rejects=0.1)
    packed = made(pack(content), name="train.txt" + suffix, to="b.zarr", max_rejects=0.1)
    one, other = store.about(plain), store.about(packed)
    assert one["fingerprint"] == other["fingerprint"]
    assert one["files"][0]["fingerprint"] == other["files"][0]["fingerprint"]
    assert read_rejects(packed) == [reject | {"file": other["files"][0]["path"]} for reject in read_rejects(plain)]


def test_many_files_are_one_dataset(made, tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt.gz"]
    paths[0].write_bytes(text(30))
    paths[1].write_bytes(gzip.compress(text(50, 30)))
    group = made([*paths, paths[0]], to="many.zarr")
    np.testing.assert_array_equal(group["file"][:], np.repeat([0, 1, 2], [30, 50, 30]))
    np.testing.assert_array_equal(group["line"][:], np.r_[1:31, 1:51, 1:31])
    assert [file["rows"] for file in store.about(group)["files"]] == [30, 50, 30]
    np.testing.assert_array_equal(made(text(80) + text(30))["X"][:], group["X"][:])


def test_urls_are_read_and_their_secrets_kept_out(made):
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://here/train.txt", "wb") as file:
        file.write(text(40))
    group = made(["memory://here/train.txt"], to="m.zarr")
    np.testing.assert_array_equal(group["X"][:], made(text(40))["X"][:])
    with pytest.raises(InputError) as caught:
        made(["nosuch://me:secret@host/train.txt"])
    assert "secret" not in str(caught.value) and "nosuch" in str(caught.value)


BAD_ROWS = [
    (row(label=b"x"), "label is 'x', not 0 or 1"),
    (row(label=b""), "label is '', not 0 or 1"),
    (row(label=b"2"), "label is '2', not 0 or 1"),
    (row()[5:], "38 columns where 40 are needed"),
    (b"\n", "blank line"),
    (row().replace(b"7", b"abc", 1), "column I1 is 'abc', not a finite number"),
    (row(number=b"nan"), "column I1 is 'nan', not a finite number"),
    (row(number=b"-inf"), "column I1 is '-inf', not a finite number"),
    (row(number=b"1e400"), "column I1 is '1e400', not a finite number"),
    (row(number=b"z" * 100), f"column I1 is '{'z' * 37}...', not a finite number"),
    (row(token=b"a\xffb"), "not valid UTF-8 at column C1"),
    (row().replace(b"ab", b"a\rb", 1), "a carriage return inside column C1"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD_ROWS)
def test_a_bad_row_is_set_aside_and_the_others_are_as_without_it(bad, reason):
    layout = find_layout(CRITEO, text(9), "a.txt")
    found = parse(text(60) + bad + text(40, 60), layout, Hashing(512, 0))
    assert [(reject.line, reject.reason) for reject in found.rejects] == [(60, reason)]
    clean = parse(text(100), layout, Hashing(512, 0)).arrays
    clean["line"] += clean["line"] >= 60
    for name, array in clean.items():
        np.testing.assert_array_equal(found.arrays[name], array)
        assert found.arrays[name].dtype == array.dtype


def test_rejects_are_listed_with_file_line_and_reason(made, tmp_path):
    parts = [text(40, 40 * i) + bad for i, (bad, _) in enumerate(BAD_ROWS)]
    group = made(b"".join(parts), max_rejects=0.03)
    path, lines = str(tmp_path / "train.txt"), range(41, 41 * len(BAD_ROWS) + 1, 41)
    assert read_rejects(group) == [
        {"file": path, "line": line, "reason": reason} for line, (_, reason) in zip(lines, BAD_ROWS, strict=True)
    ]
    about = store.about(group)["rejected"]
    assert about["count"] == sum(about["by_reason"].values()) == len(BAD_ROWS)
    np.testing.assert_array_equal(group["line"][:], np.setdiff1d(np.arange(1, lines[-1]), lines))
    np.testing.assert_array_equal(group["X"][:], made(text(40 * len(BAD_ROWS)), to="clean.zarr")["X"][:])


def test_too_many_rejects_are_refused(made, tmp_path):
    with pytest.raises(InputError) as caught:
        made(text(60) + row(label=b"x") + text(40, 60), max_rejects=0.009)
    for part in ("1 of 101 rows", "0.900%", f"{tmp_path / 'train.txt'}, line 61: label is 'x'", "--max-rejects"):
        assert part in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


def test_bad_avazu_rows_count_the_header_as_a_line(made):
    bad = [
        (avazu_row(id=b""), "column id is '', not a whole number below 2**64"),
        (avazu_row(id=b"18446744073709551616"), "column id is '18446744073709551616', not a whole number below 2**64"),
        (avazu_row(click=b"no"), "click is 'no', not 0 or 1"),
        (avazu_row(hour=b"14103200"), "column hour is '14103200', not a time as YYMMDDHH"),
    ]
    good = avazu_row() + avazu_row(click=b"1", hour=b"14102201") + avazu_row(id=b"18446744073709551615")
    content = AVAZU_HEADER.encode() + b"\n" + good + b"".join(line for line, _ in bad)
    group = made(content, "avazu", max_rejects=0.6)
    assert [(r["line"], r["reason"]) for r in read_rejects(group)] == list(enumerate((why for _, why in bad), 5))
    np.testing.assert_array_equal(group["line"][:], [2, 3, 4])
    assert group["id"][2] == 2**64 - 1


@pytest.mark.parametrize(
    "same",
    [
        text(99) + row(b"1", b"7")[:-1],
        (text(99) + row(b"1", b"7")).replace(b"\n", b"\r\n"),
        text(99) + row(b"1", b"+7.0"),
        text(99) + row(b"1", b" 7 "),
    ],
)
def test_harmless_differences_change_nothing(same):
    layout = find_layout(CRITEO, text(9), "a.txt")
    plain, found = (parse(content, layout, Hashing(512, 0)) for content in (text(99) + row(b"1", b"7"), same))
    assert not found.rejects
    for name, array in plain.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)


def test_a_truncated_last_line_is_a_bad_row(made):
    group = made(text(100)[:-30], max_rejects=0.05)
    assert read_rejects(group)[0]["line"] == 100 and "columns where 40" in read_rejects(group)[0]["reason"]


def test_huge_and_missing_numbers_give_finite_features(made):
    group = made(text(50) + row(b"0", b"1e300") + row(b"0", b"-99999999999999999999999") + row(b"1", b"", b""))
    assert np.isfinite(group["X"][:]).all()


def test_blank_lines_at_the_end_may_fill_pieces(made, monkeypatch):
    monkeypatch.setattr(raw, "PIECE_BYTES", 1024)
    group = made(text(20) + b"\n" * 1300 + text(20) + b"\n" * 1500, max_rejects=1.0)
    assert store.about(group)["rejected"] == {"count": 1300, "by_reason": {"blank line": 1300}}
    assert [reject["line"] for reject in read_rejects(group)] == list(range(21, 1321))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "train.txt is empty"),
        (b"\n\n", "train.txt, line 1: 0 columns"),
        (b"a,b\n" * 30, "train.txt, line 1: 1 columns, and none of the first 30 lines has the 40 tab-separated"),
        (b"x" * (3 << 20), "train.txt has no line end in 1 MiB"),
        (text(2000) + b"x" * (3 << 20), "train.txt has no line end in 1 MiB"),
        (row(b"0") * 5, "train.txt has only the label 0"),
        (row(b"1") * 5, "train.txt has only the label 1"),
        (row()[2:] * 5, "train.txt has no column label"),
        (row(b"x") * 5, "5 of 5 rows are faulty"),
    ],
)
def test_files_that_are_no_dataset(made, tmp_path, monkeypatch, content, message):
    monkeypatch.setattr(raw, "PIECE_BYTES", 50_000)
    with pytest.raises(InputError, match=message):
        made(content)
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


def test_no_sound_row_at_any_limit(made):
    with pytest.raises(InputError, match=r"None of 5 rows is sound, the first being .*train.txt, line 1: label is 'x'"):
        made(row(b"x") * 5, max_rejects=1.0)


@pytest.mark.parametrize("header", [AVAZU_HEADER.replace("hour,C1,", ""), AVAZU_HEADER + ",C21"])
def test_wrong_headers(made, header):
    with pytest.raises(InputError, match=r"line 1: the header (lacks hour, C1;|has C21 more than once)"):
        made(header.encode() + b"\n" + avazu_row(), "avazu")


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_a_gzip_cut_short_publishes_nothing(made, tmp_path, cut):
    packed = gzip.compress(b"".join(text(20_000, i) for i in range(0, 60_000, 20_000)))
    with pytest.raises(InputError, match=r"train.txt.gz is cut short or damaged near line \d+"):
        made(packed[: int(len(packed) * cut)], name="train.txt.gz")
    with pytest.raises(InputError, match=r"train.txt.gz is cut short or damaged near line 1 "):
        made(b"no gzip at all", name="train.txt.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt.gz"]


def test_files_that_are_not_there(made, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"There is no file .*nowhere.txt"):
        made([tmp_path / "nowhere.txt"])
    with pytest.raises(InputError, match="is a directory"):
        made([tmp_path])
    with pytest.raises(InputError, match="0 files"):
        made([])

    def refuse(*_, **__):
        raise PermissionError(13, "no")

    (tmp_path / "shut.txt").write_bytes(text())
    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem._open", refuse)
    with pytest.raises(InputError, match=r"shut.txt may not be read"):
        made([tmp_path / "shut.txt"])


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    (tmp_path / "a.txt").write_bytes(text(100))
    found = raw.find(str(tmp_path / "a.txt"))
    (tmp_path / "a.txt").write_bytes(text(10))
    with pytest.raises(InputError, match=r"a.txt became shorter"):
        raw.read_piece(found, 0, 1 << 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "csv"}, "no format 'csv'"),
        ({"n_folds": 1}, "n_folds is 1"),
        ({"smoothing": 0.0}, "smoothing is 0.0"),
        ({"n_buckets": 1}, "n_buckets is 1"),
        ({"max_rejects": 1.5}, "max_rejects is 1.5"),
        ({"random_state": -1}, "random_state is -1"),
    ],
)
def test_wrong_parameters(made, options, message):
    with pytest.raises(InputError, match=message):
        made(text(), **options)


def test_memory_is_refused_early(made):
    with pytest.raises(BudgetError, match=r"n_buckets=1048576 needs .*use n_buckets=\d+ or less"):
        made(text(), n_buckets=1 << 20, memory=ingest_plan(26, 5, 1000, compute.workers()).total)


def test_an_encoder_made_before_transforms_rows_without_labels(made):
    train = made(text(200), to="train.zarr", counts=True, random_state=3)
    encoder = Encoder.load(train["encoder"])
    bare = b"".join(line[2:] + b"\n" for line in text(50, 190).splitlines())
    test = made(bare, to="test.zarr", encoder=encoder)
    about = store.about(test)
    assert "y" not in test and about["label_counts"] is None and about["encoding"] == "whole training"
    assert about["encoder_fingerprint"] == store.about(train)["encoder_fingerprint"] == encoder.fingerprint
    labelled = made(text(50, 190), to="labelled.zarr", encoder=encoder)
    np.testing.assert_array_equal(labelled["X"][:], test["X"][:])
    assert (labelled["X"][:10] != train["X"][190:]).any()
    with pytest.raises(InputError, match="not fitted on avazu"):
        made(text(), "avazu", encoder=encoder)


def test_files_with_and_without_labels_do_not_mix(made, tmp_path):
    encoder = Encoder.load(made(text())["encoder"])
    (tmp_path / "bare.txt").write_bytes(row()[2:] * 3)
    with pytest.raises(InputError, match=r"bare.txt has no column label and other files have it"):
        made([tmp_path / "train.txt", tmp_path / "bare.txt"], encoder=encoder)


def test_no_row_sees_its_own_label(made):
    lines = text(200).splitlines(keepends=True)
    before = made(b"".join(lines), to="a.zarr")["X"][:]
    lines[77] = (b"0" if lines[77].startswith(b"1") else b"1") + lines[77][1:]
    changed = made(b"".join(lines), to="b.zarr")
    # Standardisation is over all rows, so it is taken out: rows alike before must be alike after.
    fold = assign_folds(0, 200, 5, 0) == assign_folds(77, 78, 5, 0)
    alike = np.flatnonzero(fold & (np.arange(200) % 5 == 77 % 5))
    after = changed["X"][:][alike, 26:]
    assert len(alike) > 1 and (after == after[0]).all() and (before[alike, 26:] == before[alike[0], 26:]).all()


@pytest.mark.parametrize("where", ["ask_dask.ingest.staging.parse", "ask_dask.ingest.pipeline.write_shard"])
def test_a_failure_leaves_nothing_behind(made, tmp_path, monkeypatch, where):
    def fail(*_):
        raise RuntimeError("in the middle")

    monkeypatch.setattr(where, fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        made(text())
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


def test_a_store_is_not_overwritten_unasked(made):
    made(text())
    with pytest.raises(StoreError, match="exists already"):
        made(text(), overwrite=False)


def test_facts_are_kept(made):
    assert store.about(made(text(), facts={"campaign": "spring"}))["campaign"] == "spring"


def test_the_hash_tells_cells_apart_and_never_changes():
    import pyarrow as pa

    cells = [b"", b"a", b"a\0", b"abcdefgh", b"abcdefghi", b"x" * 1000, b"x" * 1001]
    hashed = hash_cells(pa.array(cells, pa.binary()), 0)
    assert len(set(hashed.tolist())) == len(cells)
    np.testing.assert_array_equal(hash_cells(pa.array([b"?", *cells], pa.binary())[1:], 0), hashed)
    assert hash_cells(pa.array([b"68fd1e64"], pa.binary()), 7).tolist() == [HASH]


HASH = 17541938342877543425


def test_synthetic_logs_are_seeded_and_ingest_cleanly(made, tmp_path):
    one = make_criteo(tmp_path / "a.txt", 20_000)
    make_criteo(tmp_path / "b.txt.gz", 17_000)
    long, short = (tmp_path / "a.txt").read_bytes(), gzip.decompress((tmp_path / "b.txt.gz").read_bytes())
    assert long.startswith(short) and short.count(b"\n") == 17_000
    assert 0.22 < one.click_rate < 0.28 and 0.76 < one.best_auroc < 0.80
    about = store.about(made([tmp_path / "a.txt"], max_rejects=0))
    assert about["n_rows"] == 20_000 and about["label_counts"]["1"] == round(one.click_rate * 20_000)

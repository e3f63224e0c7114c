import json
from itertools import pairwise

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from ask_dask import budget, store
from ask_dask.errors import InputError, StoreError
from ask_dask.score import RankCounts, Scores, curves, metrics, score_predictions, scores, stored, summary


def sample(n, n_classes, seed=0, ties=False, dtype=np.float64):
    """Codes, scores and probabilities of a model that knows something."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, n)
    raw = rng.normal(size=(n, n_classes)) + 1.5 * (codes[:, None] == np.arange(n_classes))
    raw = np.round(raw, 1) if ties else raw
    probability = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    values = raw if n_classes > 2 else (raw[:, 1] - raw[:, 0])
    return codes, values.astype(dtype), probability.astype(dtype)


def of_blocks(codes, values, probability, cuts=()):
    n_classes = probability.shape[1]
    edges = [0, *sorted(cuts), len(codes)]
    parts = [Scores.of(codes[a:b], values[a:b], probability[a:b], n_classes) for a, b in pairwise(edges)]
    return sum(parts[1:], start=parts[0])


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_agrees_with_scikit_learn(n_classes, ties):
    codes, values, probability = sample(3000, n_classes, ties=ties)
    found = summary(of_blocks(codes, values, probability, [7, 7, 900]), list(range(n_classes)))
    chosen = probability.argmax(axis=1)
    columns = values.reshape(len(codes), -1).T
    truth = [codes == (j if n_classes > 2 else 1) for j in range(len(columns))]
    wanted = {
        "n": 3000,
        "auroc": np.mean([sk.roc_auc_score(t, s) for t, s in zip(truth, columns, strict=True)]),
        "auroc_error": 0.0,
        "log_loss": sk.log_loss(codes, probability),
        "accuracy": sk.accuracy_score(codes, chosen),
        "f1_micro": sk.f1_score(codes, chosen, average="micro"),
        "f1_macro": sk.f1_score(codes, chosen, average="macro"),
    }
    assert {k: found[k] for k in wanted} == pytest.approx(wanted, abs=1e-12, rel=1e-12)
    assert metrics(codes, values, probability) == pytest.approx(
        {k: found[k] for k in metrics(codes, values, probability)}
    )
    np.testing.assert_allclose(found["label_rates"], np.bincount(codes) / 3000, atol=1e-15)
    np.testing.assert_allclose(found["mean_probability"], probability.mean(axis=0), atol=1e-12)
    assert found["reasons"] == {}


def test_certain_and_wrong_costs_what_scikit_learn_says():
    codes, p = np.array([0, 1, 1]), np.array([1.0, 0.0, 0.5], np.float32)
    probability = np.c_[1 - p, p]
    found = summary(Scores.of(codes, p, probability, 2), [0, 1])["log_loss"]
    assert found == pytest.approx(sk.log_loss(codes, probability), rel=1e-6)


def test_macro_f1_is_over_classes_that_occur_or_are_predicted():
    codes, values, probability = sample(40, 4, seed=3)
    kept = codes < 2
    probability[:, 2] += probability[:, 3]
    probability[:, 3] = 0
    found = summary(Scores.of(codes[kept], values[kept], probability[kept], 4), list("abcd"))
    wanted = sk.f1_score(codes[kept], probability[kept].argmax(axis=1), average="macro")
    assert found["f1_macro"] == pytest.approx(wanted, abs=1e-12)
    assert found["reasons"] == {"auroc": "the mean leaves out classes without rows: c, d"}
    assert found["auroc"] == pytest.approx(metrics(codes[kept], values[kept], probability[kept])["auroc"])


@given(
    rows=st.lists(st.tuples(st.booleans(), st.floats(-3, 3, width=16)), min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    limit=st.sampled_from([2, 3, 8, 1000]),
)
@settings(max_examples=150, deadline=None)
def test_ranks_do_not_depend_on_the_cuts_or_the_order(rows, cuts, limit):
    positive, values = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    whole = RankCounts.of(values, positive, limit)
    edges = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    parts = [RankCounts.of(values[a:b], positive[a:b], limit) for a, b in pairwise(edges)]
    forward = sum(parts[1:], start=parts[0])
    backward = sum(parts[-2::-1], start=parts[-1])
    for total in (forward, backward):
        assert total.shift == whole.shift
        np.testing.assert_array_equal(total.keys, whole.keys)
        np.testing.assert_array_equal(total.counts, whole.counts)
    assert len(whole.keys) <= limit
    if positive.any() and not positive.all():
        area, error = whole.auroc()
        assert area is not None and error is not None
        assert abs(area - sk.roc_auc_score(positive, values)) <= error + 1e-12


@given(seed=st.integers(0, 2**31), n_classes=st.sampled_from([2, 3]), cuts=st.lists(st.integers(0, 50), max_size=4))
@settings(max_examples=40, deadline=None)
def test_metrics_do_not_depend_on_the_cuts(seed, n_classes, cuts):
    codes, values, probability = sample(50, n_classes, seed, ties=bool(seed % 2))
    names = [f"class {i}" for i in range(n_classes)]
    whole, cut = (of_blocks(codes, values, probability, c) for c in (list[int](), cuts))
    np.testing.assert_array_equal(whole.confusion, cut.confusion)
    for a, b in ((summary(whole, names), summary(cut, names)), (curves(whole, names), curves(cut, names))):
        flat = [np.hstack([np.ravel(v).astype(float) for v in numbers(x)]) for x in (a, b)]
        np.testing.assert_allclose(flat[0], flat[1], rtol=1e-12, atol=1e-12)


def numbers(value):
    if isinstance(value, dict):
        return [n for item in value.values() for n in numbers(item)]
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    return [] if value is None or isinstance(value, str) else [value]


def test_more_scores_than_the_limit_are_binned_within_the_bound(monkeypatch):
    monkeypatch.setattr(scores, "LIMIT", 256)
    codes, values, probability = sample(20000, 2)
    found = summary(of_blocks(codes, values, probability, [5000, 9000]), [0, 1])
    miss = abs(found["auroc"] - sk.roc_auc_score(codes, values))
    assert 0 < miss <= found["auroc_error"] < 0.01


def test_scores_of_any_size_and_sign_keep_their_order():
    values = np.array([-np.inf, -1e300, -1.0, -1e-310, -0.0, 0.0, 5e-324, 1.0, np.inf])
    keys = RankCounts.of(values, np.ones(len(values), bool)).keys
    assert len(keys) == len(values) - 1  # the two zeros are one score
    assert RankCounts.of(np.array([0.0, -0.0]), np.array([True, False])).auroc() == (0.5, 0.0)


def test_roc_points_lie_on_the_curve_and_are_few():
    codes, values, probability = sample(5000, 2)
    roc = curves(Scores.of(codes, values, probability, 2), [0, 1])["roc"]
    assert 400 < len(roc["fpr"]) <= 500
    fpr, tpr, _ = sk.roc_curve(codes, values, drop_intermediate=False)
    exact = set(zip(fpr.round(12), tpr.round(12), strict=True))
    assert set(zip(np.round(roc["fpr"], 12), np.round(roc["tpr"], 12), strict=True)) <= exact
    assert (roc["fpr"][0], roc["tpr"][0], roc["fpr"][-1], roc["tpr"][-1]) == (0, 0, 1, 1)
    assert sk.auc(roc["fpr"], roc["tpr"]) == pytest.approx(sk.roc_auc_score(codes, values), abs=1e-3)


def test_calibration_counts_every_row_once():
    codes, values, probability = sample(1000, 2)
    probability[:3] = [[0, 1], [1, 0], [0.5, 0.5]]
    found = curves(Scores.of(codes, values, probability, 2), [0, 1])["calibration"]
    assert sum(found["count"]) == 1000
    positives = np.dot(found["count"], found["fraction_positive"])
    assert positives == pytest.approx((codes == 1).sum())
    assert np.dot(found["count"], found["mean_probability"]) == pytest.approx(probability[:, 1].sum())


def test_many_classes_have_a_curve_each_and_all_is_json():
    block = of_blocks(*sample(300, 3))
    found = curves(block, ["a", "b", "c"])
    assert [c["class"] for c in found["roc"]] == [c["class"] for c in found["calibration"]] == ["a", "b", "c"]
    json.dumps(summary(block, ["a", "b", "c"]) | found, allow_nan=False)


def test_one_class_has_a_reason_and_no_nan():
    p = np.full((4, 2), 0.5)
    block = Scores.of(np.ones(4, int), np.arange(4.0), p, 2)
    found = summary(block, ["no", "yes"]) | curves(block, ["no", "yes"])
    assert found["auroc"] is found["auroc_error"] is None
    assert found["reasons"] == {"auroc": "every row has the label yes, and ranking needs two"}
    assert found["roc"] == {"fpr": [], "tpr": []}
    assert metrics(np.ones(4, int), np.arange(4.0), p)["auroc"] is None
    json.dumps(found, allow_nan=False)


def test_no_rows_have_a_reason_and_add_nothing():
    empty = Scores.of(np.zeros(0, int), np.zeros(0), np.zeros((0, 2)), 2)
    found = summary(empty, [0, 1])
    assert found["n"] == 0 and found["accuracy"] is None and found["reasons"]["accuracy"] == "there are no rows"
    json.dumps(found | curves(empty, [0, 1]), allow_nan=False)
    whole = of_blocks(*sample(20, 2))
    assert summary(whole + empty, [0, 1]) == summary(empty + whole, [0, 1]) == summary(whole, [0, 1])


@pytest.mark.parametrize(
    ("codes", "values", "probability", "says"),
    [
        ([0, 2], [0.0, 1.0], [[0.5, 0.5]] * 2, "Row 1 of the block has a class code outside 0..1"),
        ([0, 1], [0.0, np.nan], [[0.5, 0.5]] * 2, "Row 1 of the block has a score that is NaN"),
        ([0, 1], [0.0, 1.0], [[np.nan, 0.5], [0.5, 0.5]], "Row 0 of the block has a probability outside 0..1"),
        ([0, 1], [[0.0, 1.0]] * 2, [[0.5, 0.5]] * 2, r"score \(n, 1\)"),
    ],
)
def test_what_cannot_be_scored_is_refused(codes, values, probability, says):
    with pytest.raises(InputError, match=says):
        Scores.of(np.array(codes), np.array(values), np.array(probability), 2)


def stores(path, codes, values, probability, labels, **facts):
    """A dataset store and the predictions for it."""
    with store.create(path / "data.zarr", "dataset") as group:
        store.describe(group, fingerprint="f1")
        if codes is not None:
            store.create_array(group, "y", codes.shape, np.int8)[:] = np.asarray(labels)[codes]
    with store.create(path / "predictions.zarr", "predictions") as group:
        store.describe(group, **{"classes": labels, "data_fingerprint": "f1", **facts})
        arrays = store.create_aligned(
            group, {"score": (values.shape, np.float32), "probability": (probability.shape, np.float32)}
        )
        arrays["score"][:], arrays["probability"][:] = values, probability
    return store.open_store(path / "predictions.zarr"), store.open_store(path / "data.zarr")


@pytest.mark.parametrize(("n_classes", "scheduler"), [(2, "threads"), (3, "threads"), (2, "processes")])
def test_predictions_are_scored_by_shards(tmp_path, monkeypatch, pool, n_classes, scheduler):
    monkeypatch.setattr(budget, "CHUNK_BYTES", 1)
    monkeypatch.setattr(budget, "SHARD_BYTES", 1)
    monkeypatch.setattr(stored, "BLOCK", 1000)
    codes, values, probability = sample(5000, n_classes, dtype=np.float32)
    labels = [-1, 1, 5][:n_classes]
    with dask.config.set(scheduler=scheduler, pool=pool if scheduler == "processes" else None):
        found = score_predictions(*stores(tmp_path, codes, values, probability, labels))
    whole = Scores.of(codes, values, probability, n_classes)
    wanted = summary(whole, labels) | curves(whole, labels)
    assert found.pop("data") == str(tmp_path / "data.zarr") and found.pop("data_fingerprint") == "f1"
    np.testing.assert_allclose(numbers(found), numbers(wanted), rtol=1e-12)


def test_stores_that_do_not_belong_together(tmp_path):
    codes, values, probability = sample(30, 2)

    def scored(name, codes=codes, labels=(0, 1), **facts):
        (tmp_path / name).mkdir()
        return score_predictions(*stores(tmp_path / name, codes, values, probability, list(labels), **facts))

    with pytest.raises(InputError, match=r"data\.zarr has no labels"):
        scored("a", codes=None)
    with pytest.raises(
        StoreError, match=r"predictions\.zarr was made from data with fingerprint f2, .*data\.zarr has f1"
    ):
        scored("b", data_fingerprint="f2")
    with pytest.raises(StoreError, match=r"predictions\.zarr has 30 rows and .*data\.zarr 29"):
        scored("c", codes=codes[:29])
    row = int((codes == 1).argmax())
    with pytest.raises(InputError, match=f"Row {row} has the label 1, and the model knows only 0, 7"):
        scored("d", classes=[0, 7])

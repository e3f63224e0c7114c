"""Scores of regression and of several labels, against scikit-learn and from stores."""

import json
from itertools import pairwise

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from ask_dask import budget, store
from ask_dask.errors import InputError, StoreError
from ask_dask.score import (
    MultilabelScores,
    RegressionScores,
    Scores,
    curves,
    metrics,
    multilabel,
    multilabel_metrics,
    multilabel_summary,
    regression_metrics,
    regression_summary,
    score_predictions,
    stored,
    summary,
)


def values(n=400, outputs=3, seed=0, mean=0.0):
    """y and a prediction that knows something of it."""
    rng = np.random.default_rng(seed)
    y = mean + rng.normal(size=(n, outputs)) * np.arange(1, outputs + 1)
    return y, y + rng.normal(size=(n, outputs))


def labels(n=400, n_labels=4, seed=0, dtype=np.float64):
    """Labels of unequal frequency, scores (some of them equal) and probabilities that know something of them."""
    rng = np.random.default_rng(seed)
    y = rng.random((n, n_labels)) < np.linspace(0.1, 0.6, n_labels)
    raw = np.round(rng.normal(size=y.shape) + 1.5 * y - 0.7, 1)
    return y, raw.astype(dtype), (1 / (1 + np.exp(-raw))).astype(dtype)


def in_blocks(of, arrays, cuts):
    edges = [0, *sorted(cuts), len(arrays[0])]
    parts = [of(*(array[a:b] for array in arrays)) for a, b in pairwise(edges)]
    return sum(parts[1:], start=parts[0])


def numbers(value):
    """Every number in nested dicts and lists, in order."""
    if isinstance(value, dict):
        return [n for item in value.values() for n in numbers(item)]
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    return [] if value is None or isinstance(value, str) else [value]


weights = pytest.mark.parametrize("weighted", [False, True])


def weight_of(n, weighted):
    return np.random.default_rng(9).integers(0, 3, n).astype(float) if weighted else None


@weights
@pytest.mark.parametrize("outputs", [1, 3])
def test_regression_agrees_with_scikit_learn(outputs, weighted):
    y, prediction = values(outputs=outputs)
    weight = weight_of(len(y), weighted)
    wanted = {
        "r2": sk.r2_score(y, prediction, sample_weight=weight),
        "rmse": sk.root_mean_squared_error(y, prediction, sample_weight=weight),
        "mae": sk.mean_absolute_error(y, prediction, sample_weight=weight),
    }
    assert regression_metrics(y, prediction, weight) == pytest.approx(wanted, rel=1e-12)
    if outputs == 1:
        assert regression_metrics(y[:, 0], prediction[:, 0], weight) == pytest.approx(wanted, rel=1e-12)


@weights
def test_labels_agree_with_scikit_learn(weighted):
    y, score, probability = labels()
    weight = weight_of(len(y), weighted)
    chosen, of_rows = probability > 0.5, {"sample_weight": weight}
    wanted = {
        "auroc": sk.roc_auc_score(y, score, average="macro", **of_rows),
        "log_loss": np.mean([sk.log_loss(y[:, j], probability[:, j], **of_rows) for j in range(4)]),
        "accuracy": sk.accuracy_score(y, chosen, **of_rows),
        "f1_micro": sk.f1_score(y, chosen, average="micro", **of_rows),
        "f1_macro": sk.f1_score(y, chosen, average="macro", **of_rows),
    }
    for given_as in (y, y.astype(int), sp.csr_matrix(y.astype(np.int8))):
        assert multilabel_metrics(given_as, score, probability, weight) == pytest.approx(wanted, rel=1e-12)
    found = multilabel_summary(MultilabelScores.of(y, score, probability, weight))
    assert found["f1_by_label"] == pytest.approx(sk.f1_score(y, chosen, average=None, **of_rows))
    assert found["auroc_by_label"] == pytest.approx(sk.roc_auc_score(y, score, average=None, **of_rows))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_weight_is_the_number_of_times_a_row_counts(n_classes):
    rng = np.random.default_rng(1)
    codes, weight = rng.integers(0, n_classes, 90), weight_of(90, True)
    probability = rng.dirichlet(np.ones(n_classes), 90)
    score = probability if n_classes > 2 else probability[:, 1]
    often = np.repeat(np.arange(90), weight.astype(int))
    wanted = metrics(codes[often], score[often], probability[often])
    assert metrics(codes, score, probability, weight) == pytest.approx(wanted, rel=1e-12)
    assert set(metrics(codes, score, probability, 0 * weight).values()) == {None}
    often, weighted = (Scores.of(*rows, n_classes, w) for *rows, w in (
        (codes[often], score[often], probability[often], None), (codes, score, probability, weight)))  # fmt: skip
    assert weighted.n == np.count_nonzero(weight) and often.confusion.dtype == np.int64
    names = list("abc"[:n_classes])
    found, wanted = ({**summary(part, names), **curves(part, names)} for part in (weighted, often))
    assert found.pop("n") != wanted.pop("n")
    np.testing.assert_allclose(numbers(found), numbers(wanted), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weighted_classes_agree_with_scikit_learn(n_classes):
    rng = np.random.default_rng(2)
    codes, weight = rng.integers(0, n_classes, 300), rng.uniform(0, 2, 300) * (rng.random(300) > 0.2)
    probability = rng.dirichlet(np.ones(n_classes), 300)
    score = probability if n_classes > 2 else probability[:, 1]
    chosen, of_rows = probability.argmax(1), {"sample_weight": weight}
    areas = [sk.roc_auc_score(codes == j, probability[:, j], **of_rows) for j in range(n_classes)]
    wanted = {
        "auroc": np.mean(areas),
        "log_loss": sk.log_loss(codes, probability, **of_rows),
        "accuracy": sk.accuracy_score(codes, chosen, **of_rows),
        "f1_micro": sk.f1_score(codes, chosen, average="micro", **of_rows),
        "f1_macro": sk.f1_score(codes, chosen, average="macro", **of_rows),
    }
    assert metrics(codes, score, probability, weight) == pytest.approx(wanted, rel=1e-12)
    cut = [Scores.of(codes[a:b], score[a:b], probability[a:b], n_classes, weight[a:b]) for a, b in ((0, 77), (77, 300))]
    found = summary(cut[0] + cut[1], range(n_classes)) | curves(cut[0] + cut[1], range(n_classes))
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=1e-12)
    rates = np.bincount(codes, weight, n_classes) / weight.sum()
    assert found["label_rates"] == pytest.approx(rates) and found["n"] == np.count_nonzero(weight)
    assert found["mean_probability"] == pytest.approx(np.average(probability, axis=0, weights=weight))
    calibration = found["calibration"] if n_classes == 2 else found["calibration"][1]
    assert sum(calibration["count"]) == pytest.approx(weight.sum())


@given(
    seed=st.integers(0, 2**31),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    weighted=st.booleans(),
    mean=st.sampled_from([0.0, 1e9]),
)
@settings(max_examples=50, deadline=None)
def test_nothing_depends_on_the_cuts(seed, cuts, weighted, mean):
    weight = np.random.default_rng(seed).integers(0, 3, 60) if weighted else np.ones(60)
    for of, said, arrays in (
        (RegressionScores.of, regression_summary, values(60, 2, seed, mean)),
        (MultilabelScores.of, multilabel_summary, labels(60, 3, seed)),
    ):
        whole, cut = (said(in_blocks(of, [*arrays, weight], c)) for c in ([], cuts))
        rtol, atol = (1e-6, 1e-7) if mean else (1e-10, 1e-9)  # values of 1e9 are themselves known to 1e-7 only
        np.testing.assert_allclose(numbers(whole), numbers(cut), rtol=rtol, atol=atol)


def test_a_large_mean_does_not_cancel():
    y, prediction = values(4000, 2)
    wanted = regression_metrics(y, prediction)
    blocks = in_blocks(RegressionScores.of, [y + 1e8, prediction + 1e8], [1, 900, 2000])
    found = regression_summary(blocks)
    assert {key: found[key] for key in wanted} == pytest.approx(wanted, rel=1e-6)
    assert found["label_std"] == pytest.approx(y.std(0).mean(), rel=1e-6)
    assert found["bias"] == pytest.approx((y - prediction).mean(), abs=1e-6)


def test_the_curve_has_groups_of_like_size_and_every_row_once():
    y, prediction = values(5000, 1)
    blocks = in_blocks(RegressionScores.of, [y, prediction], [100, 3000])
    curve = regression_summary(blocks)["calibration"]
    assert sum(curve["count"]) == 5000 and set(curve["count"]) == {250}
    groups = np.sort(prediction[:, 0]).reshape(20, 250).mean(1)
    np.testing.assert_allclose(curve["predicted"], groups, rtol=1e-12)
    assert np.dot(curve["observed"], curve["count"]) == pytest.approx(y.sum())
    several = regression_summary(RegressionScores.of(*values(50, 12)), list("abcdefghijkl"))["calibration"]
    assert [c["output"] for c in several] == list("abcdefgh")


def test_more_predictions_than_are_kept_are_grouped(monkeypatch):
    monkeypatch.setattr("ask_dask.score.regression.LIMIT", 256)
    y, prediction = values(5000, 1)
    curve = regression_summary(in_blocks(RegressionScores.of, [y, prediction], [700]))["calibration"]
    assert sum(curve["count"]) == 5000 and 150 < min(curve["count"]) and max(curve["count"]) < 400
    assert np.dot(curve["predicted"], curve["count"]) == pytest.approx(prediction.sum())


def test_where_y_does_not_vary_r2_has_a_reason():
    y, prediction = values(30, 2)
    y[:, 1] = 0.1
    found = regression_summary(in_blocks(RegressionScores.of, [y, prediction], [7, 8]), ["width", "height"])
    assert found["r2_by_output"] == [pytest.approx(sk.r2_score(y[:, 0], prediction[:, 0])), None]
    assert found["r2"] == found["r2_by_output"][0]
    assert found["reasons"] == {"r2": "the mean leaves out outputs where every row has the same y: height"}
    alone = regression_summary(RegressionScores.of(y[:1], prediction[:1]))
    assert alone["r2"] is None and alone["rmse"] > 0
    assert alone["reasons"] == {"r2": "every row has the same y, and R2 compares with how y varies"}


def test_labels_without_both_kinds_of_rows_have_a_reason():
    y, score, probability = labels(50, 4)
    y[:, 0], y[:, 1], probability[:, 1] = True, False, 0.2
    found = multilabel_summary(MultilabelScores.of(y, score, probability), list("abcd"))
    assert found["auroc"] == pytest.approx(np.mean([sk.roc_auc_score(y[:, j], score[:, j]) for j in (2, 3)]))
    assert found["f1_macro"] == pytest.approx(
        np.mean([sk.f1_score(y[:, j], probability[:, j] > 0.5) for j in (0, 2, 3)])
    )
    assert found["reasons"] == {
        "auroc": "the mean leaves out labels that all rows or none have: a, b",
        "f1_macro": "the mean leaves out labels that no row has or is predicted to have: b",
    }
    assert [curve["label"] for curve in found["roc"]] == ["c", "d"]
    nothing = multilabel_summary(MultilabelScores.of(0 * y, score, 0 * probability))
    assert nothing["f1_micro"] is nothing["auroc"] is None and set(nothing["reasons"]) == {
        "auroc",
        "f1_micro",
        "f1_macro",
    }
    json.dumps([found, nothing], allow_nan=False)


def test_no_rows_have_a_reason_and_add_nothing():
    for of, said, arrays in (
        (RegressionScores.of, regression_summary, values(20)),
        (MultilabelScores.of, multilabel_summary, labels(20)),
    ):
        whole, empty = of(*arrays), of(*(array[:0] for array in arrays))
        assert said(empty)["n"] == 0 and set(said(empty)["reasons"].values()) == {"there are no rows"}
        json.dumps(said(empty), allow_nan=False)
        assert said(whole + empty) == said(empty + whole) == said(whole)


def test_many_labels_share_what_is_kept_and_the_error_is_bounded(monkeypatch):
    monkeypatch.setattr(multilabel, "LIMIT", 1024)
    y, score, probability = labels(3000, 8)
    score = score + np.random.default_rng(0).normal(size=score.shape)
    blocks = in_blocks(MultilabelScores.of, [y, score, probability], [1000])
    assert max(len(ranks.keys) for ranks in blocks.ranks) <= 128
    found = multilabel_summary(blocks)
    assert 0 < abs(found["auroc"] - sk.roc_auc_score(y, score)) <= found["auroc_error"] < 0.02


@pytest.mark.parametrize(
    ("of", "arrays", "says"),
    [
        (RegressionScores.of, ([0.0, np.nan], [0.0, 1.0]), "Row 8 of what is scored has a y that is not a finite"),
        (RegressionScores.of, ([0.0, 1.0], [np.inf, 1.0]), "Row 7 of what is scored has a prediction that is not"),
        (RegressionScores.of, ([0.0, 1.0], [[0.0, 1.0]] * 2), r"one shape.*\(2, 1\) and \(2, 2\)"),
        (MultilabelScores.of, ([[0], [2]], [[0.0]] * 2, [[0.5]] * 2), "Row 8 .* a label that is neither 0 nor 1"),
        (MultilabelScores.of, ([[0], [1]], [[np.nan], [0.0]], [[0.5]] * 2), "Row 7 .* a score that is NaN"),
        (MultilabelScores.of, ([[0], [1]], [[0.0]] * 2, [[0.5], [1.5]]), r"Row 8 .* a probability outside 0\.\.1"),
        (MultilabelScores.of, ([0, 1], [[0.0]] * 2, [[0.5]] * 2), r"one shape \(n, L\) and have \(2,\), \(2, 1\)"),
    ],
)
def test_what_cannot_be_scored_is_refused(of, arrays, says):
    with pytest.raises(InputError, match=says):
        of(*map(np.array, arrays), first_row=7)


def stores(path, y, arrays, **facts):
    """A dataset store and the predictions for it."""
    with store.create(path / "data.zarr", "dataset") as group:
        store.describe(group, fingerprint="f1")
        store.create_array(group, "y", y.shape, y.dtype)[:] = y
    with store.create(path / "predictions.zarr", "predictions") as group:
        store.describe(group, data_fingerprint="f1", **facts)
        made = store.create_aligned(group, {name: (found.shape, np.float32) for name, found in arrays.items()})
        for name, found in arrays.items():
            made[name][:] = found
    return store.open_store(path / "predictions.zarr"), store.open_store(path / "data.zarr")


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(budget, "CHUNK_BYTES", 1)
    monkeypatch.setattr(budget, "SHARD_BYTES", 1)
    monkeypatch.setattr(stored, "CELLS", 1000)


@pytest.mark.parametrize(("outputs", "scheduler"), [(0, "threads"), (3, "threads"), (3, "processes")])
def test_predicted_values_are_scored_by_shards(tmp_path, small_blocks, pool, outputs, scheduler):
    y, prediction = (part.astype(np.float32) for part in values(5000, max(outputs, 1), mean=3.0))
    names = ["a", "b", "c"] if outputs else None
    y = y if outputs else y[:, 0]  # one output: y (N,) beside a score (N, 1)
    with dask.config.set(scheduler=scheduler, pool=pool if scheduler == "processes" else None):
        found = score_predictions(*stores(tmp_path, y, {"score": prediction}, task="regression", label_names=names))
    wanted = regression_summary(RegressionScores.of(y.reshape(prediction.shape), prediction), names)
    assert (found.pop("task"), found.pop("data_fingerprint")) == ("regression", "f1")
    assert found.pop("data") == str(tmp_path / "data.zarr") and found.keys() == wanted.keys()
    assert found["label_names"] == names
    np.testing.assert_allclose(numbers(found), numbers(wanted), rtol=1e-9, atol=1e-12)
    json.dumps(found, allow_nan=False)


def test_predicted_labels_are_scored_by_shards(tmp_path, small_blocks):
    y, score, probability = labels(5000, 4, dtype=np.float32)
    arrays, names = {"score": score, "probability": probability}, ["a", "b", "c", "d"]
    found = score_predictions(*stores(tmp_path, y.astype(np.int8), arrays, task="multilabel", label_names=names))
    wanted = multilabel_summary(MultilabelScores.of(y, score, probability), names)
    np.testing.assert_allclose(numbers({key: found[key] for key in wanted}), numbers(wanted), rtol=1e-9)
    json.dumps(found, allow_nan=False)


def test_stores_that_cannot_be_scored(tmp_path):
    y, prediction = values(30, 2)
    with pytest.raises(StoreError, match=r"of the task 'ranking': this release knows classification, multilabel, reg"):
        score_predictions(*stores(tmp_path / "a", y, {"score": prediction}, task="ranking"))
    with pytest.raises(InputError, match=r"one shape.*\(30, 3\) and \(30, 2\)"):
        score_predictions(*stores(tmp_path / "b", np.c_[y, y[:, :1]], {"score": prediction}, task="regression"))
    y[17] = np.nan
    with pytest.raises(InputError, match="Row 17 of what is scored has a y that is not a finite number"):
        score_predictions(*stores(tmp_path / "c", y, {"score": prediction}, task="regression"))

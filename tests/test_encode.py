"""The encoder against a plain re-implementation, and what must never happen: leaks, NaN, order dependence."""

import numpy as np
import pytest
import zarr

from ask_dask.encode import Encoder, NumericSums, fit
from ask_dask.encode.tables import seen_folds
from ask_dask.errors import InputError

N, BUCKETS, FOLDS, WEIGHT = 300, 17, 5, 7.0


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    numeric = np.where(rng.random((N, 2)) < 0.2, np.nan, rng.integers(-3, 1000, (N, 2))).astype(np.float32)
    buckets = rng.integers(0, BUCKETS - 3, (N, 3))
    return numeric, buckets, (rng.random(N) < 0.3).astype(np.int8), rng.integers(0, FOLDS, N)


def fitted(rows, **changes):
    return fit(*rows, **{"n_buckets": BUCKETS, "smoothing": WEIGHT, "with_counts": True} | changes)


def plain_features(rows):
    """Features by the book, one row at a time."""
    numeric, buckets, y, folds = rows
    raw, prior = [], y.mean()
    for i in range(N):
        seen = np.isin(folds, [(folds[i] + 1) % FOLDS, (folds[i] + 2) % FOLDS])
        logits, counts = [], []
        for j in range(buckets.shape[1]):
            alike = buckets[:, j] == buckets[i, j]
            same = seen & alike
            p = (y[same].sum() + WEIGHT * prior) / (same.sum() + WEIGHT)
            logits.append(np.log(p / (1 - p)))
            counts.append(np.log(alike.sum()))
        x = [np.sign(v) * np.log1p(abs(v)) for v in numeric[i].astype(float)]
        raw.append([*x, *np.isnan(x), *logits, *counts])
    raw = np.array(raw, float)
    return np.nan_to_num((raw - np.nanmean(raw, axis=0)) / np.nanstd(raw, axis=0))


def test_training_features_are_those_of_the_formula(rows):
    found = fitted(rows).transform_training(rows[0], rows[1], rows[3])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, plain_features(rows), atol=2e-5)


def test_labels_reach_only_the_features_of_folds_that_see_them(rows):
    numeric, buckets, y, folds = rows
    for fold in range(FOLDS):  # the mean label, which is the prior, stays what it was
        one, other = (np.flatnonzero((folds == fold) & (y == label))[0] for label in (0, 1))
        swapped = y.copy()
        swapped[[one, other]] = y[[other, one]]
        before, after = (fitted((numeric, buckets, labels, folds)).fold_values for labels in (y, swapped))
        changed = (before != after).any(axis=(0, 2))
        assert changed.tolist() == [fold in seen_folds(reader, FOLDS) for reader in range(FOLDS)]


@pytest.mark.parametrize("n_folds", [3, 4, 5, 6, 7, 12, 255])
def test_no_two_folds_see_each_other(n_folds):
    sees = np.zeros((n_folds, n_folds), bool)
    for fold in range(n_folds):
        sees[fold, seen_folds(fold, n_folds)] = True
    assert not (sees & sees.T).any()  # nor itself
    assert (sees.sum(axis=1) == (n_folds - 1) // 2).all()


def test_two_folds_are_refused(rows):
    with pytest.raises(InputError, match="n_folds is 2: give 3 or more"):
        fitted((*rows[:3], rows[3] % 2), n_folds=2)


def test_new_rows_use_all_folds_and_unseen_values_get_the_prior(rows):
    encoder, (numeric, buckets, y, _) = fitted(rows), rows
    new = np.full((1, 3), BUCKETS - 1)
    logit = encoder.transform(numeric[:1], new)[0, 4:7] * encoder.moments[4:7, 1] + encoder.moments[4:7, 0]
    np.testing.assert_allclose(logit, np.log(y.mean() / (1 - y.mean())), rtol=1e-5)
    same = buckets[:, 0] == buckets[0, 0]
    p = (y[same].sum() + WEIGHT * y.mean()) / (same.sum() + WEIGHT)
    logit = encoder.transform(numeric[:1], buckets[:1])[0, 4] * encoder.moments[4, 1] + encoder.moments[4, 0]
    np.testing.assert_allclose(logit, np.log(p / (1 - p)), rtol=1e-5)


def test_saved_and_loaded_it_is_the_same(rows, tmp_path):
    encoder = fitted(rows, names=(["I1", "I2"], ["C1", "C2", "C3"]))
    group = zarr.open_group(tmp_path / "e.zarr", mode="w", zarr_format=3)
    encoder.save(group)
    loaded = Encoder.load(group)
    assert loaded.fingerprint == encoder.fingerprint
    assert loaded.feature_names == encoder.feature_names == [
        "I1", "I2", "I1_missing", "I2_missing", "C1_logit", "C2_logit", "C3_logit", "C1_count", "C2_count", "C3_count",
    ]  # fmt: skip
    np.testing.assert_array_equal(loaded.transform(*rows[:2]), encoder.transform(*rows[:2]))
    with pytest.raises(InputError, match="tables by fold"):
        loaded.transform_training(*rows[:2], rows[3])


def test_constant_columns_become_zero_even_for_new_values(rows):
    numeric, buckets, y, folds = rows
    numeric, buckets = np.full_like(numeric, 5), np.zeros_like(buckets)
    encoder = fitted((numeric, buckets, y, folds))
    assert not encoder.transform_training(numeric, buckets, folds).any()
    assert not encoder.transform(numeric + 1, buckets).any()


@pytest.mark.parametrize("n", [2, 3, 6])
def test_few_rows_and_one_sided_folds_give_finite_features(rows, n):
    numeric, buckets, _, _ = (part[:n] for part in rows)
    y, folds = np.arange(n) % 2, np.arange(n) % 2  # each fold has one label only
    encoder = fitted((numeric, buckets, y, folds), n_folds=4)
    assert np.isfinite(encoder.transform_training(numeric, buckets, folds)).all()
    assert np.isfinite(encoder.transform(numeric, buckets)).all()


def test_column_of_nothing_but_missing_values(rows):
    encoder = fitted((np.full((N, 2), np.nan), *rows[1:]))
    assert not encoder.transform(np.full((N, 2), np.nan), rows[1])[:, :4].any()
    assert np.isfinite(encoder.transform(*rows[:2])).all()


def test_numeric_sums_are_exact_in_any_order():
    values = np.random.default_rng(1).standard_cauchy((5000, 3)) * 1e6
    whole = NumericSums.of(values).moments()
    for cuts in ([1], [17, 4000], range(100, 5000, 100)):
        parts = [NumericSums.of(part) for part in np.split(values, cuts)]
        np.testing.assert_array_equal(sum(parts[:-1], start=parts[-1]).moments(), whole)
    logs = np.sign(values) * np.log1p(np.abs(values))
    np.testing.assert_allclose(whole[:3], np.stack([logs.mean(axis=0), logs.std(axis=0)], axis=1), rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, b: (x[:, :1], b), "2 numeric and 3 categorical"),
        (lambda x, b: (x, b[:5]), "same rows"),
        (lambda x, b: (x, b + BUCKETS), "outside 0..16"),
    ],
)
def test_arrays_that_do_not_belong(rows, change, message):
    with pytest.raises(InputError, match=message):
        fitted(rows).transform(*change(*rows[:2]))


def test_an_empty_group_has_no_encoder(tmp_path):
    with pytest.raises(InputError, match="no encoder"):
        Encoder.load(zarr.open_group(tmp_path / "e.zarr", mode="w", zarr_format=3))

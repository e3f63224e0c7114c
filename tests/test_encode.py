"""The encoder against a plain re-implementation, and what must never happen: leaks, NaN, order dependence."""

import numpy as np
import pytest
import zarr

from ask_dask.encode import Encoder, NumericSums, fit
from ask_dask.encode.tables import encode_one_way, seen_folds, squash
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


def test_a_row_is_not_counted_itself_and_new_rows_count_all():
    rng = np.random.default_rng(1)
    buckets, folds = rng.integers(0, 4, (20_000, 1)) ** 2, np.arange(20_000) % 3
    numeric, y = np.zeros((20_000, 0)), (rng.random(20_000) < 0.3).astype(np.int8)
    encoder = fit(numeric, buckets, y, folds, n_buckets=16, smoothing=WEIGHT, with_counts=True)
    (mean, deviation), total = encoder.moments[-1], np.bincount(buckets[:, 0])[buckets[:, 0]]
    count = encoder.transform(numeric, buckets)[:, -1] * deviation + mean
    np.testing.assert_allclose(count, np.log1p(total), rtol=1e-6)
    training = encoder.transform_training(numeric, buckets, folds)[:, -1] * deviation + mean
    np.testing.assert_allclose(training, np.log(total), rtol=1e-6)


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
    with pytest.raises(InputError, match=r"^This encoder has no tables by fold"):
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
    assert encoder.fold_rows.tolist() == [n - n // 2, n // 2, 0, 0]
    assert encoder.fold_positives.tolist() == [0, n // 2, 0, 0]


def test_what_is_not_said_is_twenty_rows_seed_zero_and_no_counts(rows):
    short = fit(*rows, n_buckets=BUCKETS)
    said = fit(*rows, n_buckets=BUCKETS, n_folds=FOLDS, smoothing=20.0, random_state=0, with_counts=False)
    assert short.fingerprint == said.fingerprint and short.random_state == 0
    assert fit(*rows, n_buckets=BUCKETS, random_state=9).random_state == 9
    assert short.fold_values.shape == (3, FOLDS, BUCKETS)
    assert short.counts.dtype == short.sums.dtype == np.uint32


def test_folds_of_one_byte_and_many_buckets_are_looked_up_alike(rows):
    numeric, buckets, y, folds = rows
    found = [
        fitted((numeric, buckets * 20, y, some), n_buckets=300).transform_training(numeric, buckets * 20, some)
        for some in (folds, folds.astype(np.uint8))
    ]
    np.testing.assert_array_equal(*found)


def test_column_of_nothing_but_missing_values(rows):
    encoder = fitted((np.full((N, 2), np.nan), *rows[1:]))
    assert not encoder.transform(np.full((N, 2), np.nan), rows[1])[:, :4].any()
    assert np.isfinite(encoder.transform(*rows[:2])).all()
    assert not encoder.moments[:2].any()
    assert not encoder.transform(np.full((N, 2), 7.0), rows[1])[:, :2].any()  # the first values that are there


def test_logs_are_taken_in_float64_whatever_the_numbers():
    for given in (np.array([3.3, -1e30], np.float32), np.array([3, -70_000], np.int32), [3, -2]):
        found = squash(given)
        exact = [np.sign(v) * np.log1p(abs(v)) for v in np.asarray(given, np.float64)]
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, exact, rtol=1e-15)


def test_sums_of_the_largest_numbers_are_those_of_whole_numbers_of_any_size():
    """Squares of a hundred logs of 1e300 do not fit 64 bits."""
    values = 1e300 * np.random.default_rng(2).random((300, 1))
    found = sum(map(NumericSums.of, np.split(values, 3)), start=NumericSums.of(values[:0]))
    steps = [round(step) for step in (squash(values[:, 0]) * 2**20).tolist()]
    assert (found.rows, found.present[0]) == (300, 300)
    assert (found.total[0], found.squares[0]) == (sum(steps), sum(step**2 for step in steps))
    assert found.squares[0] > 2**63


def test_tables_hold_zero_where_a_fold_has_no_row_in_a_bucket():
    counts = np.array([[3, 0, 2], [4, 5, 0], [1, 2, 2]], np.uint32)
    values, _ = encode_one_way(counts, counts // 2, WEIGHT)
    assert values.dtype == np.float32 and not values[counts == 0].any()
    prior = (counts // 2).sum() / counts.sum()
    expected = np.log((2 + prior * WEIGHT) / (2 + (1 - prior) * WEIGHT))  # the first fold's, from the second's 4 rows
    assert values[0, 0] == pytest.approx(expected)


def test_two_values_are_enough_to_vary():
    counts = np.array([[300, 20], [400, 50], [350, 30]], np.uint32)
    assert (encode_one_way(counts, counts // [[2, 5]], WEIGHT)[1][:, 1] > 0.1).all()


@pytest.mark.parametrize(("per_bucket", "varies"), [(1_333_334, True), (8_000_000, False)])
def test_log_odds_that_differ_by_rounding_alone_are_constant(per_bucket, varies):
    """Two buckets, one of which has one more positive label: log odds of 0 and 4 / n, deviation 2 / n."""
    counts = np.full((3, 2), per_bucket, np.uint32)
    positives = counts // 2 + np.array([0, 1], np.uint32)
    _, ((_, deviation), _) = encode_one_way(counts, positives, 1e-6)
    assert deviation == (pytest.approx(2 / per_bucket, rel=0.01) if varies else 0)


def test_counts_that_differ_by_rounding_alone_are_constant():
    """Logs near 14 are float32 numbers 1e-6 apart."""
    counts = np.array([[1_000_000, 1_000_001]] * 3, np.uint32)
    _, (_, (mean, deviation)) = encode_one_way(counts, counts // 2, WEIGHT)
    assert mean == pytest.approx(np.log(3e6), rel=1e-5) and deviation == 0


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
        (lambda x, b: (x, np.where(np.arange(N)[:, None] == 7, BUCKETS, b)), "outside 0..16"),
    ],
)
def test_arrays_that_do_not_belong(rows, change, message):
    with pytest.raises(InputError, match=message):
        fitted(rows).transform(*change(*rows[:2]))


def test_an_empty_group_has_no_encoder(tmp_path):
    with pytest.raises(InputError, match="no encoder"):
        Encoder.load(zarr.open_group(tmp_path / "e.zarr", mode="w", zarr_format=3))

"""Random labels: no target encoding of training rows may let a model score better than a coin on held-out rows."""

import numpy as np
import pytest

from ask_dask import AsKLSClassifier, steps, store
from ask_dask.encode import fit
from ask_dask.kernels import SNE

COLUMNS = 26

pytestmark = pytest.mark.filterwarnings("ignore::ask_dask.errors.ResonanceWarning")  # lowers scores, leaks nothing


def draw(seed, n, values):
    """Buckets (n, 26) and two sets of labels, all unrelated."""
    rng = np.random.default_rng([seed, n])
    return rng.integers(0, values, (n, COLUMNS)), *rng.integers(0, 2, (2, n))


def encoded(seed, n, values, **options):
    """Training features of rows in memory, their labels, and labels unrelated to the features."""
    buckets, y, other = draw(seed, n, values)
    numeric, folds = np.zeros((n, 0)), np.random.default_rng(seed).integers(0, 5, n)
    encoder = fit(numeric, buckets, y, folds, n_buckets=values, **options)
    return encoder.transform_training(numeric, buckets, folds), y, other


def excess(X, y, seed, merge):
    """Return how much the held-out AUROC is above 0.5."""
    model = AsKLSClassifier(SNE(np.sqrt(COLUMNS)), 100.0, n_landmarks=100, merge=merge, random_state=seed)
    return model.fit(X, y).held_out_["auroc"] - 0.5


def standard_errors(values):
    """Return the mean of the values in units of its standard error."""
    return np.mean(values) / (np.std(values, ddof=1) / np.sqrt(len(values)))


@pytest.mark.parametrize(("values", "smoothing"), [(10, 20.0), (100, 1.0)])
def test_held_out_scores_of_random_labels_are_those_of_a_coin(values, smoothing):
    found = []
    for seed in range(16):
        X, y, _ = encoded(seed, 2000, values, smoothing=smoothing)
        found.append(excess(X, y, seed, "mean"))
    assert abs(standard_errors(found)) < 3


def test_held_out_scores_of_a_store_of_random_labels_are_those_of_a_coin(tmp_path):
    found = []
    for seed in range(8):
        buckets, y, _ = draw(seed, 2000, 10)
        cells = ("\t".join(f"{value:08x}" for value in row) for row in buckets)
        rows = [f"{label}{chr(9) * 14}{of_row}\n" for label, of_row in zip(y, cells, strict=True)]
        (tmp_path / "log.txt").write_text("".join(rows))
        data, model = tmp_path / f"data{seed}.zarr", tmp_path / f"model{seed}.zarr"
        steps.Ingest(format="criteo", files=[str(tmp_path / "log.txt")], to=data, buckets=512, seed=seed).run()
        steps.Fit(data=data, to=model, kernel="sne", bandwidth=7, gamma=[100], n_landmarks=[100], merge="mean").run()
        found.append(store.about(store.open_store(model, "model"))["held_out"]["auroc"] - 0.5)
    assert abs(standard_errors(found)) < 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "values", "smoothing"),
    [(1200, 3, 20.0), (1200, 40, 1.0), (1200, 40, 100.0), (1200, 800, 1.0), (3000, 5000, 20.0)],
)
def test_encodings_tell_held_out_rows_no_more_than_those_of_unrelated_labels(n, values, smoothing):
    alone, paired = [], []
    for seed in range(48):
        X, y, other = encoded(seed, n, values, smoothing=smoothing)
        alone.append(excess(X, y, seed, "mean"))
        paired.append(excess(X, y, seed, "stack") - excess(X, other, seed, "stack"))
    assert abs(standard_errors(alone)) < 3 and standard_errors(paired) < 3

"""The precision of float32 sums: frames, estimates of rounding, and warnings."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ask_dask import AsKLSClassifier, AsKLSRegressor, load, moments, nystrom
from ask_dask.errors import PrecisionWarning
from ask_dask.kernels import RBF, SNE, StudentT
from ask_dask.moments import Frame
from ask_dask.solve import LandmarkSystem

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6000, 5))
y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.3 * RNG.normal(size=6000)
NEW = RNG.normal(size=(2000, 5))
TRUTH = np.sin(NEW[:, 0]) + NEW[:, 1] * NEW[:, 2] / 2
ALONE = {"n_landmarks": 250, "cv": None, "merge": "mean", "random_state": 0}


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(0, 60), st.sampled_from([np.float32, np.float64]))
def test_a_frame_changes_coordinates_and_nothing_else(seed, m, n_sampled, dtype):
    random = np.random.default_rng(seed)
    C = (random.normal(size=(80, 3)) @ random.normal(size=(3, m)) + random.normal(size=(80, m)) / 9).astype(dtype)
    frame, T = Frame.of(C[:n_sampled]), random.normal(size=(m, 2))
    E, exact = frame.columns(C).astype(float), C.astype(float)
    tolerance = 300 * np.finfo(dtype).eps
    np.testing.assert_allclose(E @ frame.transform(T), (exact - frame.origin) @ T, atol=tolerance)
    around = exact - frame.origin
    np.testing.assert_allclose(frame.squares(E.T @ E), (around**2).sum(0), rtol=tolerance, atol=tolerance)
    n = int(random.integers(1, m + 1))
    smaller, kept = frame.pick(np.arange(n))
    np.testing.assert_allclose(E[:, kept] @ smaller.transform(T[:n]), around[:, :n] @ T[:n], atol=tolerance)
    again, inside = smaller.pick(np.arange(1))
    np.testing.assert_allclose(E[:, kept][:, inside] @ again.transform(T[:1]), around[:, :1] @ T[:1], atol=tolerance)


def test_pivots_make_the_other_columns_small():
    C = RBF(3.0)(X[:500], X[:200])
    frame = Frame.of(C[:256])
    plain, framed = C - C.mean(0), frame.columns(C)
    others = np.setdiff1d(np.arange(200), frame.pivots)
    assert len(frame.pivots) == len(np.unique(frame.pivots)) == 15
    assert (framed[:, others] ** 2).sum() < (plain[:, others] ** 2).sum() / 30


def test_moments_in_different_frames_are_not_added():
    at, rows = RBF(3.0).at(X[:20], X[:20], 6000), moments.Rows(y[:90, None], np.asarray, np.zeros(90, int))
    one, other = (moments.of_rows(X[:90], rows, at, 1, moments.frames_of(at, X[:s])) for s in (40, 80))
    with pytest.raises(ValueError, match="different frames cannot be combined"):
        _ = one + other


def solved(kernel, dtype, pivots=24, m=250):
    points = X[:m]
    at = kernel.at(*2 * [points.astype(dtype)], len(X))
    maps = nystrom.feature_map(kernel.at(points, points, len(X)).source(points), 4e-6, kernel.symmetric)
    rows = moments.Rows(y[:, None], np.asarray, np.zeros(len(X), int))
    found = moments.of_rows(X.astype(dtype), rows, at, 1, moments.frames_of(at, points.astype(dtype), pivots))
    return at, LandmarkSystem(moments.Centred.of(found, maps))


@pytest.mark.parametrize("kernel", [RBF(3.0), SNE(2.0), StudentT()], ids=repr)
@pytest.mark.parametrize("gamma", [1.0, 100.0, 1e4])
def test_rounding_is_estimated_within_a_factor(kernel, gamma):
    """Against sums in float64, where the estimate says that the answer has digits at all."""
    f, estimates = [], []
    for dtype in (np.float32, np.float64):
        at, system = solved(kernel, dtype)
        s = system.solve(gamma)
        C, R = (part.astype(float) for part in at.both(X.astype(dtype)))
        f.append(np.hstack([C @ s.source + s.intercepts[0], R @ s.target + s.intercepts[1]]))
        estimates.append(s.rounding)
    changed = np.sqrt(((f[0] - f[1]) ** 2).mean(0)).max() / y.std()
    assert estimates[1] < 1e-5 * estimates[0]  # as 1e-16 to 1e-7, with a margin
    assert changed / 6 < estimates[0] < 60 * changed or max(changed, estimates[0]) < 1e-6


def test_without_pivots_rounding_is_worse_and_known_to_be():
    plain, framed = (solved(RBF(3.0), np.float32, pivots)[1].solve(1e3).rounding for pivots in (0, 24))
    assert framed < 0.01 and 0.05 < plain


@pytest.mark.parametrize("kernel", [RBF(3.0), SNE(3.0), StudentT()], ids=repr)
def test_float32_scores_are_those_of_float64_or_it_is_told(kernel):
    for gamma in (1.0, 100.0, 1e4, 1e6):
        errors, told = [], False
        for dtype in (np.float64, np.float32):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = AsKLSRegressor(kernel, gamma, **ALONE).fit(X.astype(dtype), y)
            told = any(issubclass(each.category, PrecisionWarning) for each in caught)
            errors.append(np.sqrt(np.mean((model.predict(NEW.astype(dtype)) - TRUTH) ** 2) + 0.09))
        assert told or abs(errors[1] / errors[0] - 1) < 0.01, gamma


def test_a_warning_names_a_gamma_that_is_safe_and_the_record_has_the_precision(tmp_path):
    rows = X.astype(np.float32)
    with pytest.warns(PrecisionWarning, match=r"gamma=1e\+06 is too large for float32 rows .* Use gamma=\S+ or less"):
        model = AsKLSRegressor(RBF(3.0), 1e6, **ALONE).fit(rows, y)
    assert model.solver_["precision"] == "float32" and model.solver_["unresolved"] > 1
    with pytest.warns(PrecisionWarning, match=r"rounding changes the fitted values by about") as told:
        AsKLSRegressor(SNE(1.0), 1e6, **ALONE).fit(rows, y)
    safe = float(str(told[0].message).partition("Use gamma=")[2].split()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        safe_model = AsKLSRegressor(SNE(1.0), safe, **ALONE).fit(rows, y)
        AsKLSRegressor(RBF(3.0), 1e6, damping=1.0, **ALONE).fit(rows, y)
    safe_model.save(tmp_path / "m.zarr")
    assert load(tmp_path / "m.zarr").solution_.rounding == safe_model.solution_.rounding > 0


def test_a_gamma_that_rounding_spoils_is_not_chosen():
    gammas = [1.0, 1e6]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        model = AsKLSRegressor(SNE(2.0), gammas, n_landmarks=250, random_state=0).fit(X.astype(np.float32), y)
    assert model.gamma_ == 1.0 and model.cv_results_["sound"].tolist() == [True, False]
    assert model.cv_results_["rank_test_score"].tolist() == [1, 2]


def test_labels_far_from_zero_lose_nothing_in_float32():
    rows, params = X.astype(np.float32), ALONE | {"kernel": RBF(3.0), "gamma": 1.0}
    expected = AsKLSRegressor(**params).fit(rows, y).predict(NEW.astype(np.float32))
    for centre, scale in ((1e7, 1.0), (0.0, 1e-30), (0.0, 1e30)):
        found = AsKLSRegressor(**params).fit(rows, centre + scale * y).discriminants(NEW.astype(np.float64))
        np.testing.assert_allclose((found.mean(1) - centre) / scale, expected, atol=2e-4)


def test_exact_fits_of_float32_rows_evaluate_the_kernel_in_float64():
    few, labels = X[:300].astype(np.float32), (y[:300] > 0).astype(int)
    params = {"kernel": RBF(3.0), "gamma": 1e6, "n_landmarks": None, "cv": None, "merge": "mean"}
    single, double = (AsKLSClassifier(**params).fit(few.astype(dtype), labels) for dtype in (np.float32, np.float64))
    np.testing.assert_array_equal(single.solution_.source, double.solution_.source)

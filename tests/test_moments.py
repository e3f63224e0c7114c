"""Frames, sums and vectors of moments against their definitions, on a few rows."""

from dataclasses import replace

import numpy as np
import pytest

from ask_dask import budget, moments
from ask_dask.kernels import RBF, SNE
from ask_dask.moments import Frame

RNG = np.random.default_rng(21)
X = RNG.normal(size=(90, 3))
Y = RNG.normal(size=(90, 2))
FOLDS = RNG.integers(0, 3, 90)
WEIGHTS = RNG.uniform(0.5, 2, 90)


def found_of(kernel, dtype=np.float64, weights=WEIGHTS, sampled=20):
    points = X.astype(dtype)
    at, rows = kernel.at(*2 * [points[:8]], 90), moments.Rows(Y, np.asarray, FOLDS, weights)
    return at, moments.of_rows(points, rows, at, 3, moments.frames_of(at, points[:sampled]) if sampled else None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unit", "weighted"])
@pytest.mark.parametrize("kernel", [RBF(2.0), SNE(2.0)], ids=repr)
@pytest.mark.parametrize("gram_rows", [17, 4096])
def test_moments_are_the_weighted_sums_of_each_fold(monkeypatch, kernel, weights, dtype, gram_rows):
    monkeypatch.setattr(budget, "GRAM_ROWS", gram_rows)
    monkeypatch.setattr(budget, "cache_rows", lambda m: 5)
    at, found = found_of(kernel, dtype, weights)
    assert len(found.sides) == (1 if kernel.symmetric else 2)
    w = np.ones(90) if weights is None else weights
    near = {"rtol": 1e-9 if dtype is np.float64 else 2e-4, "atol": 1e-9 if dtype is np.float64 else 2e-5}
    for f in range(3):
        here = FOLDS == f
        np.testing.assert_allclose(found.count[f], w[here].sum())
        np.testing.assert_allclose(found.sum_y[f], w[here] @ Y[here])
        np.testing.assert_allclose(found.yy[f], w[here] @ Y[here] ** 2)
        for side, block in zip(found.sides, at.both(X.astype(dtype)), strict=False):
            E = side.frame.columns(block).astype(float)[here]
            np.testing.assert_allclose(side.sums[f], w[here] @ E, **near)
            np.testing.assert_allclose(side.gram[f], (E.T * w[here]) @ E, **near)
            np.testing.assert_allclose(side.cross[f], (E.T * w[here]) @ Y[here], **near)
            assert side.sums.dtype == side.gram.dtype == side.cross.dtype == np.float64


@pytest.mark.parametrize("kernel", [RBF(2.0), SNE(2.0)], ids=repr)
def test_a_vector_of_moments_gives_them_back(kernel):
    for dtype in (np.float32, np.float64):
        _, found = found_of(kernel, dtype)
        vector = found.vector()
        again = moments.Moments.of_vector(vector, found.sizes)
        np.testing.assert_array_equal(again.vector(), vector)
        for name in ("count", "sum_y", "yy"):
            np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
        assert len(again.sides) == len(found.sides)
        for one, two in zip(again.sides, found.sides, strict=True):
            assert one.frame == two.frame and one.frame.pivots.dtype == two.frame.pivots.dtype
            np.testing.assert_array_equal(one.sums, two.sums)
            np.testing.assert_allclose(one.gram, two.gram, rtol=1e-6)  # kept once for both triangles
            np.testing.assert_array_equal(one.gram, np.swapaxes(one.gram, 1, 2))
            np.testing.assert_array_equal(one.cross, two.cross)


def flat(found):
    parts = [part for side in found.sides for part in (side.sums, side.gram, side.cross)]
    return [found.count, found.sum_y, found.yy, *parts]


@pytest.mark.parametrize("kernel", [RBF(2.0), SNE(2.0)], ids=repr)
def test_moments_of_folds_are_taken_out_added_and_subtracted(kernel):
    _, found = found_of(kernel)
    for f in range(3):
        for one, every in zip(flat(found.fold(f)), flat(found), strict=True):
            np.testing.assert_array_equal(one, every[f : f + 1])
    for one, every in zip(flat(found.total()), flat(found), strict=True):
        np.testing.assert_allclose(one, every.sum(0)[None], atol=1e-12)
    others = found.total() - found.fold(0)
    for one, two, every in zip(flat(others), flat(found.fold(1) + found.fold(2)), flat(found), strict=True):
        np.testing.assert_allclose(one, every[1:].sum(0)[None], atol=1e-10)
        np.testing.assert_allclose(one, two, atol=1e-10)
    assert [side.frame for side in others.sides] == [side.frame for side in found.sides]


@pytest.mark.parametrize("kernel", [RBF(2.0), SNE(2.0)], ids=repr)
def test_the_moments_of_fewer_landmarks_are_among_those_of_more(kernel):
    at, found = found_of(kernel)
    for n in (1, 4, 8):
        fewer = found.prefix(n)
        for name in ("count", "sum_y", "yy"):
            np.testing.assert_array_equal(getattr(fewer, name), getattr(found, name))
        for side, block in zip(fewer.sides, at.both(X), strict=False):
            frame, C, T = side.frame, block[:, :n] - side.frame.origin[:n], np.eye(n)
            assert (
                frame.n == n and frame.eps == np.finfo(float).eps and len(frame.offset) == n + (frame.pivots >= n).sum()
            )
            S = frame.transform(T)
            np.testing.assert_allclose(side.sums.sum(0) @ S, WEIGHTS @ C, atol=1e-9)
            np.testing.assert_allclose(S.T @ side.gram.sum(0) @ S, (C.T * WEIGHTS) @ C, atol=1e-9)
            np.testing.assert_allclose(S.T @ side.cross.sum(0), (C.T * WEIGHTS) @ Y, atol=1e-9)
            np.testing.assert_allclose(frame.squares(side.gram.sum(0))[:n], WEIGHTS @ C**2, atol=1e-9)


def test_moments_in_other_frames_cannot_be_combined():
    (_, one), (_, other) = found_of(RBF(2.0)), found_of(RBF(2.0), sampled=12)
    with pytest.raises(ValueError, match=r"^Moments in different frames cannot be combined: gather"):
        _ = one - other


def test_moments_of_one_side_and_of_two_cannot_be_combined():
    (_, one), (_, two) = found_of(RBF(2.0), sampled=0), found_of(SNE(2.0), sampled=0)
    with pytest.raises(ValueError, match="shorter"):
        _ = two + one


@pytest.mark.parametrize("kernel", [RBF(2.0), SNE(2.0)], ids=repr)
def test_float32_rows_are_multiplied_in_float32(kernel):
    _, found = found_of(kernel, np.float32)
    for side in found.sides:
        for sums in (side.sums, side.gram, side.cross):
            np.testing.assert_array_equal(sums, sums.astype(np.float32))


def test_frames_of_a_kernel_have_as_many_pivots_as_asked_for():
    at = SNE(2.0).at(*2 * [X[:8]], 90)
    assert [len(frame.pivots) for frame in moments.frames_of(at, X, 3)] == [3, 3]


def test_the_mean_of_many_float32_rows_is_taken_in_float64():
    C = (7 + RNG.normal(size=(30000, 2))).astype(np.float32)
    np.testing.assert_array_equal(Frame.of(C, 0).offset, C.mean(0, dtype=float).astype(np.float32))


def test_the_size_of_the_columns_does_not_change_the_pivots():
    C = RNG.normal(size=(100, 12))
    np.testing.assert_array_equal(Frame.of(1e-6 * C, 5).pivots, Frame.of(C, 5).pivots)
    assert len(Frame.of(1e-7 * C, 5).pivots) == 5


def test_without_frames_columns_are_summed_as_they_are():
    at, found = found_of(SNE(2.0), sampled=0)
    for side, block in zip(found.sides, at.both(X), strict=True):
        np.testing.assert_allclose(side.sums.sum(0), WEIGHTS @ block)
        assert not side.frame.offset.any() and not side.frame.origin.any() and not len(side.frame.pivots)


def test_frames_are_equal_where_all_their_numbers_are():
    frame = Frame.of(RNG.normal(size=(40, 16)).astype(np.float32))
    assert frame == replace(frame, offset=frame.offset.copy(), weights=frame.weights.copy())
    for change in ({"n": 5}, {"eps": 1e-16}, {"offset": frame.offset + 1}, {"pivots": frame.pivots[::-1]},
                   {"weights": 2 * frame.weights}):  # fmt: skip
        assert frame != replace(frame, **change)
    assert frame != "frame"


def test_a_frame_takes_a_pivot_of_every_four_rows_and_fifteen_at_most():
    for n_rows, expected in ((0, 0), (3, 0), (4, 1), (11, 2), (59, 14), (200, 15)):
        assert len(Frame.of(RNG.normal(size=(n_rows, 30))).pivots) == expected
    assert len(Frame.of(RNG.normal(size=(200, 30)), 3).pivots) == 3


def test_columns_that_the_pivots_explain_are_not_made_pivots():
    A = RNG.normal(size=(200, 3)) * [9.0, 5.0, 2.0]
    for small, expected in ((0.0, [0, 1, 2]), (1e-6, [0, 1, 2]), (1e-3, [0, 1, 2, 3])):
        columns = np.column_stack([A, A @ [1.0, -1.0, 1.0] / 9 + small * RNG.normal(size=200)])
        assert sorted(Frame.of(columns).pivots) == expected
    assert Frame.of(columns).pivots[0] == 0  # the largest
    assert not len(Frame.of(np.ones((200, 3))).pivots)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_frame_holds_numbers_of_the_precision_of_the_blocks(dtype):
    C = (5 + RNG.normal(size=(100, 6)) @ RNG.normal(size=(6, 6))).astype(dtype)
    frame = Frame.of(C, 3)
    assert frame.eps == np.finfo(dtype).eps and frame.n == 6
    for numbers in (frame.offset, frame.weights):
        assert numbers.dtype == np.float64
        np.testing.assert_array_equal(numbers, numbers.astype(dtype))
    assert not frame.weights[:, frame.pivots].any() and frame.weights.any()
    E = frame.columns(C)
    assert E.dtype == dtype
    exact = C - C[:, frame.pivots].astype(float) @ frame.weights - frame.offset
    np.testing.assert_allclose(E, exact, atol=50 * frame.eps)
    np.testing.assert_allclose(E.mean(0), 0, atol=50 * frame.eps)
    out = np.empty_like(C)
    assert frame.columns(C, out) is out
    plain, alone = Frame.of(C[:3]), np.empty_like(C)
    assert plain.columns(C).dtype == dtype and len(plain.pick(np.arange(2))[0].offset) == 2
    assert plain.columns(C, alone) is alone and alone.dtype == dtype
    np.testing.assert_allclose(alone, C - C[:3].mean(0), atol=50 * frame.eps)
    rest = np.setdiff1d(np.arange(6), frame.pivots)
    around, P = C - C.mean(0, dtype=float), frame.pivots
    np.testing.assert_allclose(  # least squares
        around[:, P].T @ (around[:, rest] - around[:, P] @ frame.weights[:, rest]), 0, atol=1e4 * frame.eps
    )

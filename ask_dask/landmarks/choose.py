"""One door to every way of choosing landmarks: row numbers of X and column numbers (rows of Z) of K = k(X, Z)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ask_dask.errors import InputError
from ask_dask.kernels.base import Block, Kernel
from ask_dask.landmarks.coverage import coverage
from ask_dask.landmarks.cross import cross_approximation
from ask_dask.landmarks.entries import KernelLike
from ask_dask.landmarks.greedy import greedy
from ask_dask.landmarks.kmeans import kmeans
from ask_dask.landmarks.leverage import leverage
from ask_dask.landmarks.sampled import candidates, require_enough, uniform

BY_POINTS = ("uniform", "kmeans")
BY_KERNEL: dict[str, Callable] = {
    "leverage": leverage,
    "cross": cross_approximation,
    "greedy": greedy,
    "coverage": coverage,
}
HOWS = (*BY_POINTS, *BY_KERNEL)
"""The ways: from points alone, each side by itself, or from kernel values."""

Take = Callable[[Any, np.ndarray], Block]
"""Rows of an input as a plain block, such as `blocks.take_rows`."""


def plain_rows(X: Any, rows: np.ndarray) -> Block:
    """Rows of a NumPy array or a scipy.sparse matrix; others need a `take` of their own.

    >>> plain_rows(np.eye(2), np.array([1]))
    array([[0., 1.]])
    """
    if sp.issparse(X):
        return X.tocsr()[rows]
    if not isinstance(X, np.ndarray):
        raise InputError(f"X is a {type(X).__name__}: give take=ask_dask.blocks.take_rows, which reads its rows.")
    return X[rows]


def choose(
    how: str,
    X: Any,
    Z: Any,
    kernel: KernelLike | None,
    n_landmarks: int | tuple[int, int],
    random_state: int,
    *,
    n_candidates: int | None = None,
    same: bool = False,
    take: Take = plain_rows,
) -> tuple[np.ndarray, np.ndarray]:
    """Row landmarks I and column landmarks J of K = k(X, Z).

    All ways but uniform choose among candidates, a seeded uniform sample of row numbers, so that the answer does not
    depend on chunking and only the candidates are read. Where Z is X the ways that look at kernel values have the same
    candidates on both sides; uniform and kmeans have separate samples of rows and columns. Prefixes serve as nested
    counts, as each way's own function says.

    Parameters
    ----------
    how : {"uniform", "kmeans", "leverage", "cross", "greedy", "coverage"}
    X, Z : numpy, scipy.sparse, dask or zarr, (N, d) and (M, d)
        Sources and targets; one object where they are the same points.
    kernel : Kernel or function k(X, Z)
        None will do for uniform and kmeans.
    n_landmarks : int or pair of int
        Rows and columns.
    n_candidates : int, optional
        Candidates on each side, at most; by default four times the larger of n_landmarks, and 1000 if that is more;
        of coverage all points.
    same : bool
        Return one array object for both sides: only for uniform and kmeans, with Z is X and equal counts.
    take : function (X, rows) -> block
        Reads the candidates; `blocks.take_rows` for dask and zarr.

    Returns
    -------
    rows, columns : (n,) and (m,) int64, each distinct

    Raises
    ------
    InputError
        No such way, more landmarks than rows or candidates, a kernel that is zero or not finite.

    Notes
    -----
    Which to use: cross where C W^+ R is what counts, since it alone chooses both sides together. The others make the
    spans of C and R good, each for itself, and may leave W = K[I, J] nearly singular where I and J differ: then cut
    its singular values well above rounding (`rcond` of `nystrom.feature_map`). Greedy looks at every entry of the
    candidates; k-means at no kernel value, so it is cheap, and good where the kernel falls with distance. Coverage is
    for graphs, whose matrices are sparse and have no low rank.

    Examples
    --------
    >>> from ask_dask.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> rows, columns = choose("greedy", X, X, RBF(1.0), (10, 20), random_state=0)
    >>> rows.shape, columns.shape
    ((10,), (20,))
    >>> rows, columns = choose("uniform", X, X, None, 10, random_state=0, same=True)
    >>> rows is columns
    True
    """
    n, m = _pair(n_landmarks)
    _check(how, X, Z, kernel, (n, m), same)
    usual = max(X.shape[0], Z.shape[0]) if how == "coverage" else max(1000, 4 * max(n, m))
    at_most = usual if n_candidates is None else n_candidates
    if how != "uniform" and at_most < max(n, m):
        raise InputError(f"n_candidates={at_most} is fewer than the {max(n, m)} landmarks: use {max(n, m)} or more.")
    if how in BY_POINTS:
        side = _uniform if how == "uniform" else _kmeans
        rows = side(X, n, random_state, 0, at_most, take)
        return rows, rows if same else side(Z, m, random_state, 1, at_most, take)
    some_rows = candidates(X.shape[0], at_most, [random_state, 2])
    some_columns = some_rows if Z is X else candidates(Z.shape[0], at_most, [random_state, 3])
    sources = take(X, some_rows)
    targets = sources if Z is X else take(Z, some_columns)
    rows, columns = BY_KERNEL[how](kernel, sources, targets, (n, m), [random_state, 4])
    return some_rows[rows], some_columns[columns]


def _pair(n_landmarks: Any) -> tuple[int, int]:
    pair = n_landmarks if isinstance(n_landmarks, tuple | list) else (n_landmarks, n_landmarks)
    if len(pair) != 2 or not all(isinstance(count, int | np.integer) for count in pair):
        raise InputError(f"n_landmarks={n_landmarks!r} must be a whole number, or a pair of them: rows and columns.")
    return int(pair[0]), int(pair[1])


def _uniform(X: Any, n: int, seed: int, side: int, n_candidates: int, take: Take) -> np.ndarray:
    return uniform(X.shape[0], n, [seed, side] if side else seed)  # the rows are those of `uniform` itself


def _kmeans(X: Any, n: int, seed: int, side: int, n_candidates: int, take: Take) -> np.ndarray:
    some = candidates(X.shape[0], n_candidates, [seed, 2 + side])
    return some[kmeans(take(X, some), n, [seed, side])]


def _check(how: str, X: Any, Z: Any, kernel: Any, n_landmarks: tuple[int, int], same: bool) -> None:
    if how not in HOWS:
        raise InputError(f"There is no way {how!r} to choose landmarks: use one of {', '.join(HOWS)}.")
    for count, points, name in zip(n_landmarks, (X, Z), "XZ", strict=True):
        require_enough(count, points.shape[0], f"rows of {name}")
    if how in BY_KERNEL and not callable(kernel):
        raise InputError(f"how={how!r} looks at kernel values: give a kernel.")
    if how == "kmeans" and isinstance(kernel, Kernel) and kernel.shape is not None:
        raise InputError("how='kmeans' needs points with coordinates, and this kernel numbers its points: use another.")
    if same and not (how in BY_POINTS and Z is X and n_landmarks[0] == n_landmarks[1]):
        raise InputError(
            "same=True is for how='uniform' or 'kmeans', with Z the very object X and as many rows as columns."
        )

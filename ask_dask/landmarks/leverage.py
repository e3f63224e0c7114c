"""Landmarks drawn by ridge leverage score: how much a row (or column) says that others do not."""

import numpy as np

from ask_dask.kernels.base import Block
from ask_dask.landmarks.entries import Entries, KernelLike, require_not_zero
from ask_dask.landmarks.sampled import Seed, fill_uniformly, require_enough

RANK_SHARE = 4
"""Landmarks drawn for each dimension that the scores aim at: a random sample needs more than the rank itself."""


def leverage(
    kernel: KernelLike,
    X: Block,
    Z: Block,
    n_landmarks: tuple[int, int],
    random_state: Seed,
    n_pilot: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions drawn without replacement with probabilities proportional to estimated ridge leverage scores.

    The scores of rows are those of C = K[:, J0] with J0 a uniform pilot sample of columns, the scores of columns those
    of R = K[I0, :]' with a pilot sample of rows: (n + m) n_pilot entries. They aim at a quarter of n_landmarks
    dimensions. Every prefix is itself such a sample, with the scores of the full count.

    Parameters
    ----------
    kernel : Kernel or function k(X, Z)
    X, Z : (n, d) and (m, d) blocks
        Candidates.
    n_landmarks : pair of int
        Rows and columns to choose.
    n_pilot : int, optional
        Pilot columns and rows; by default eight times the larger of n_landmarks.

    Returns
    -------
    rows, columns : (n_landmarks[0],) and (n_landmarks[1],) int64, each distinct

    Raises
    ------
    InputError
        Too few candidates; a kernel that is zero, NaN or infinite.

    Notes
    -----
    Alaoui and Mahoney, Fast randomized kernel ridge regression with statistical guarantees, NeurIPS 2015; Cohen, Musco
    and Musco, Input sparsity time low-rank approximation via ridge leverage score sampling, SODA 2017. Keys
    log(score) + Gumbel noise in decreasing order are a sample without replacement: Efraimidis and Spirakis, Weighted
    random sampling with a reservoir, 2006.

    Examples
    --------
    A point far from ninety-nine equal ones is what a uniform sample would most likely miss.

    >>> from ask_dask.kernels import RBF
    >>> X = np.zeros((100, 1)); X[42] = 9.0
    >>> rows, columns = leverage(RBF(1.0), X, X, (5, 5), random_state=0, n_pilot=100)
    >>> 42 in rows, 42 in columns
    (True, True)
    """
    entries, rng = Entries(kernel, X, Z), np.random.default_rng(random_state)
    for count, available in zip(n_landmarks, entries.shape, strict=True):
        require_enough(count, available)
    n, m = entries.shape
    pilot = n_pilot or 8 * max(n_landmarks)
    C = entries.columns(rng.choice(m, min(pilot, m), replace=False))
    R = entries.rows(rng.choice(n, min(pilot, n), replace=False))
    row_scores = ridge_leverage_scores(C, -(-n_landmarks[0] // RANK_SHARE))
    column_scores = ridge_leverage_scores(R.T, -(-n_landmarks[1] // RANK_SHARE))
    return _draw(row_scores, n_landmarks[0], rng), _draw(column_scores, n_landmarks[1], rng)


def ridge_leverage_scores(A: np.ndarray, rank: int) -> np.ndarray:
    """a_i' (A'A + lambda 1)^-1 a_i of each row, with lambda = |A - A_rank|^2 / rank: shape (n,), from 0 to 1.

    A_rank is the best approximation of that rank, so the scores add up to at most 2 rank.

    Parameters
    ----------
    A : (n, p) float64
    rank : int

    Examples
    --------
    >>> ridge_leverage_scores(np.array([[1.0, 0], [1, 0], [0, 1]]), 2).round(6)
    array([0.5, 0.5, 1. ])
    """
    U, S, _ = np.linalg.svd(A, full_matrices=False)
    require_not_zero(S[0])
    ridge = (S[rank:] ** 2).sum() / rank
    ridge = max(ridge, (np.finfo(np.float64).eps * max(A.shape) * S[0]) ** 2)  # so that noise of a low rank counts not
    return U**2 @ (S**2 / (S**2 + ridge))


def _draw(scores: np.ndarray, n_landmarks: int, rng: np.random.Generator) -> np.ndarray:
    """Gumbel top-k; positions of score 0 come last, uniformly."""
    positive = np.flatnonzero(scores > 0)
    keys = np.log(scores[positive]) + rng.gumbel(size=len(positive))
    return fill_uniformly(positive[np.argsort(-keys)], len(scores), n_landmarks, rng)

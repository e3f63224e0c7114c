"""Ways to leading singular vectors of a kernel matrix, ours and their peers, each with settings from cheap to dear.

Ours on m landmarks, rows and columns at once: `eq. (9)` and `orthonormal` are the formulas of `ask_dask.nystrom` on
plain arrays (the latter's core is fitted to as many rows and columns again, or with `W alone` not, and cut where 100
others ask for it); `KSVD` is the estimator by eq. (9). Symmetric Nystrom takes left vectors from sampled columns of GG'
and right ones from G'U.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import dask
import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, svds
from sklearn.utils.extmath import randomized_svd

from ask_dask import KSVD, nystrom
from ask_dask.kernels import Kernel, Precomputed
from ask_dask.nystrom import Judge
from ask_dask.solve import vectors
from ask_dask.solve.vectors import Gram

Vectors = tuple[np.ndarray, np.ndarray]
Error = Callable[[np.ndarray, np.ndarray], float]
Form = tuple[Callable[..., Vectors], int, int]
PROBES = 100


@dataclass(frozen=True)
class Way:
    """Settings from cheap to dear, and what gives U and V at a setting and seed."""

    settings: list[Any]
    vectors: Callable[[Any, int], Vectors]


def scaled(core: np.ndarray, C: np.ndarray, R: np.ndarray, r: int) -> Vectors:
    """Eq. (9) from K[I, J] (any core that begins with it), K[:, J] and K[I, :]."""
    found = vectors.scaled(core[: len(R), : C.shape[1]], *_grams(C, R), r, False, nystrom.resolution(C.dtype))
    return C @ found.source.astype(C.dtype), R.T @ found.target.astype(C.dtype)


def orthonormal(core: np.ndarray, C: np.ndarray, R: np.ndarray, r: int) -> Vectors:
    """The decomposition of C X R from K[I', J'], landmarks first and at most PROBES judges last.

    In float64: it resolves a spectrum by the roots of Grams, and in float32 not below 2e-3 of the first value.
    """
    dtype, C, R = C.dtype, C.astype(np.float64), R.astype(np.float64)
    m, seen, cut = len(R), max(len(R), len(core) - PROBES), np.sqrt(nystrom.resolution(C.dtype))
    judge = Judge(core[seen:, :m], core[:m, seen:], core[seen:, seen:]) if len(core) > seen else None
    maps = nystrom.fitted_map(core[:seen, :seen], m, m, cut, judge)
    found = vectors.orthonormal(maps, *_grams(C, R), r, False, cut)
    return (C @ found.source).astype(dtype), (R.T @ found.target).astype(dtype)


def _grams(C: np.ndarray, R: np.ndarray) -> list[Gram]:
    return [Gram(len(side), side.sum(0), (side.T @ side).astype(np.float64)) for side in (C, R.T)]


FORMS: dict[str, Form] = {
    "eq. (9)": (scaled, 1, 0),
    "orthonormal": (orthonormal, 2, PROBES),
    "orthonormal, W alone": (orthonormal, 1, PROBES),
}
"""Each with the rows of its core for a landmark, and its judges."""
OURS = (*FORMS, "KSVD")


def sampled(n: int, count: int, seed: int) -> np.ndarray:
    """Numbers of the landmarks, then of whatever else the core has.

    Nodes are rows and columns, and one sample serves both: the spectrum of these kernels sits on the diagonal, which
    two samples would leave out of W.
    """
    return np.random.default_rng(seed).choice(n, min(n, count), False)


def of_matrix(G: np.ndarray, r: int, form: Form, m: int, seed: int) -> Vectors:
    """Ours of a matrix in memory."""
    vectors, times, judges = form
    some = sampled(len(G), times * m + judges, seed)
    return vectors(G[np.ix_(some, some)], G[:, some[:m]], G[some[:m]], r)


def of_points(kernel: Kernel, points: Any, r: int, form: Form, m: int, seed: int) -> Vectors:
    """Ours of sources and targets; the kernel is evaluated at landmarks, its normaliser estimated from them."""
    (A, Z), n, (vectors, times, judges) = points, points[0].shape[0], form
    some = sampled(n, times * m + judges, seed)
    rows = A[some]
    at = kernel.at(rows, Z[some], n)
    pass_, core = at.prefix(m, m), at.source(rows)
    return vectors(core, pass_.source(A), pass_.target(Z).T, r)


def estimator(kernel: Kernel, X: Any, Z: Any, m: int, r: int, seed: int) -> Vectors:
    """Eq. (9) by KSVD, both sides computed."""
    some = sampled(X.shape[0], m, seed)
    model = KSVD(kernel, r, m, method="scaled", n_probes=0, oversampling=0, landmarks=(some, some), random_state=seed)
    model.fit(X, Z=Z)
    return dask.compute(model.left_singular_vectors_, model.right_singular_vectors_)


def symmetric(G: np.ndarray, m: int, r: int, seed: int) -> Vectors:
    """Nystrom on GG': its columns at m rows; right vectors from the left ones."""
    some = sampled(len(G), m, seed)
    columns = G @ G[some].T
    values, Q = np.linalg.eigh(columns[some])
    U = columns @ (Q[:, : -r - 1 : -1] / values[: -r - 1 : -1])
    U /= np.linalg.norm(U, axis=0)
    V = G.T @ U
    return U, V / np.linalg.norm(V, axis=0)


def peers(form: Callable[[], np.ndarray], own: dict[str, Any], r: int, n: int) -> dict[str, Way]:
    """Those that need the whole matrix, which `form` gives."""
    landmarks = [m for m in own["landmarks"] if r <= m < n]
    return {
        "randomised SVD": Way(own["sketches"], lambda s, seed: _ends(
            randomized_svd(form(), r, n_oversamples=s[0], n_iter=s[1], random_state=seed))),
        "ARPACK": Way(own["tolerances"], lambda tol, seed: arpack(form(), r, tol, seed)[::2]),
        "symmetric Nystrom": Way(landmarks, lambda m, seed: symmetric(form(), m, r, seed)),
    }  # fmt: skip


def given(G: np.ndarray, own: dict[str, Any], r: int) -> dict[str, Way]:
    """All ways from the matrix in memory."""
    landmarks = [m for m in own["landmarks"] if r <= m < len(G)]
    ids, kernel = np.arange(len(G), dtype=G.dtype)[:, None], Precomputed(G)
    ours = {name: Way(landmarks, partial(of_matrix, G, r, form)) for name, form in FORMS.items()}
    by_estimator = Way(landmarks, lambda m, seed: estimator(kernel, ids, ids, m, r, seed))
    return ours | {"KSVD": by_estimator} | peers(lambda: G, own, r, len(G))


def evaluated(kernel: Kernel, A: Any, Z: Any, own: dict[str, Any], r: int) -> dict[str, Way]:
    """All ways from points: the peers form the matrix first, ours its columns and rows at the landmarks."""
    landmarks = [m for m in own["landmarks"] if r <= m < A.shape[0]]
    ours = {name: Way(landmarks, partial(of_points, kernel, (A, Z), r, form)) for name, form in FORMS.items()}
    by_estimator = Way(landmarks, lambda m, seed: estimator(kernel, A, Z, m, r, seed))
    return ours | {"KSVD": by_estimator} | peers(lambda: kernel(A, Z), own, r, A.shape[0])


def arpack(G: np.ndarray, r: int, tol: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, values, V, largest first."""
    U, s, Vt = svds(G, r, tol=tol, rng=seed)
    return U[:, ::-1], s[::-1], Vt[::-1].T


def _ends(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Vectors:
    return found[0], found[2].T


def smallest(way: Way, error: Error, targets: list[float], seeds: Iterable[int]) -> dict[float, Any]:
    """The cheapest setting that reaches each target with every seed; targets that none reaches are left out."""
    found: dict[float, Any] = {}
    for setting in way.settings:
        worst = 0.0
        for seed in seeds:
            worst = max(worst, _reached(way, setting, seed, error))
            if worst > max(targets):
                break
        found |= {target: setting for target in targets if target not in found and worst <= target}
        if len(found) == len(targets):
            break
    return found


def _reached(way: Way, setting: Any, seed: int, error: Error) -> float:
    try:
        return error(*way.vectors(setting, seed))
    except ArpackNoConvergence:
        return np.inf


def interleaved(works: dict[str, Callable[[int], Vectors]], seeds: Iterable[int]) -> dict[str, tuple[float, Vectors]]:
    """Median seconds of each work, one after the other with each seed, and its last vectors."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    last: dict[str, Vectors] = {}
    for seed in seeds:
        for name, work in works.items():
            started = time.perf_counter()
            last[name] = work(seed)
            seconds[name].append(time.perf_counter() - started)
    return {name: (median(seconds[name]), last[name]) for name in works}

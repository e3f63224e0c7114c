"""Time to a given eta of singular vectors of the SNE kernel of a graph, which rows and columns of A + I have.

Each method runs with settings from cheap to dear; its time is the least among those that reach eta, whose landmarks or
sketch are drawn with a fixed seed. With G given all start from the dense float32 matrix; with the kernel evaluated the
peers form it first and ours evaluates the landmark columns and rows only. `KSVD` is the estimator, `eq. (9)` the
formula under it (`nystrom.scaled`) on plain arrays. Symmetric Nystrom takes left vectors from sampled columns of GG'
and right ones from G' U. Beside eta stands the sine of the largest principal angle, since the first singular value
dominates eta.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import graphs
import numpy as np
from scipy.sparse.linalg import svds
from sklearn.utils.extmath import randomized_svd

from ask_dask import KSVD, nystrom
from ask_dask.kernels import SNE, Precomputed
from ask_dask.nystrom import Gram
from ask_dask.score.subspaces import eta, subspace_error

Vectors = tuple[np.ndarray, np.ndarray]
Work = Callable[[], Vectors]


def of_blocks(core: np.ndarray, C: np.ndarray, R: np.ndarray, r: int) -> Vectors:
    """Eq. (9) from K[I, J], K[:, J] and K[I, :]."""
    grams = [Gram(len(side), side.sum(0), (side.T @ side).astype(np.float64)) for side in (C, R.T)]
    found = nystrom.scaled(core, *grams, r, False, nystrom.resolution(C.dtype))
    return C @ found.source.astype(C.dtype), R.T @ found.target.astype(C.dtype)


def sampled(n: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of row and of column landmarks."""
    random = np.random.default_rng(seed)
    return np.sort(random.choice(n, m, False)), np.sort(random.choice(n, m, False))


def of_matrix(G: np.ndarray, m: int, r: int, seed: int) -> Vectors:
    """Eq. (9) of a matrix in memory."""
    left, right = sampled(len(G), m, seed)
    R = G[left]
    return of_blocks(R[:, right], G[:, right], R, r)


def of_points(A: Any, At: Any, bandwidth: float, m: int, r: int, seed: int) -> Vectors:
    """Eq. (9), the kernel evaluated at landmarks, its normaliser estimated from them."""
    left, right = sampled(A.shape[0], m, seed)
    at = SNE(bandwidth).at(A[left], At[right], A.shape[0])
    C, R = at.source(A), at.target(At).T
    return of_blocks(C[left], C, R, r)


def estimator(G: np.ndarray, m: int, r: int, seed: int) -> Vectors:
    """The same by KSVD."""
    ids = np.arange(len(G), dtype=G.dtype)[:, None]
    model = KSVD(Precomputed(G), r, m, method="scaled", n_probes=0, oversampling=0, random_state=seed).fit(ids, Z=ids)
    return np.asarray(model.left_singular_vectors_), np.asarray(model.right_singular_vectors_)


def orthonormal(G: np.ndarray, m: int, r: int, seed: int) -> Vectors:
    """Orthonormal vectors by KSVD, from a core of twice as many rows and columns."""
    ids = np.arange(len(G), dtype=G.dtype)[:, None]
    model = KSVD(Precomputed(G), r, m, random_state=seed).fit(ids, Z=ids)
    return np.asarray(model.left_singular_vectors_), np.asarray(model.right_singular_vectors_)


def symmetric(G: np.ndarray, m: int, r: int, seed: int) -> Vectors:
    """Nystrom on GG': its columns at m rows; right vectors from the left ones."""
    left, _ = sampled(len(G), m, seed)
    columns = G @ G[left].T
    values, Q = np.linalg.eigh(columns[left])
    U = columns @ (Q[:, : -r - 1 : -1] / values[: -r - 1 : -1])
    U /= np.linalg.norm(U, axis=0)
    V = G.T @ U
    return U, V / np.linalg.norm(V, axis=0)


def given(G: np.ndarray, own: dict[str, Any], seed: int) -> Iterator[tuple[str, str, Work]]:
    """Method, setting and work of all that start from G."""
    r = own["rank"]
    for over, iterations in own["sketches"]:
        yield "randomised SVD", f"{over} {iterations}", lambda o=over, i=iterations: _ends(
            randomized_svd(G, r, n_oversamples=o, n_iter=i, random_state=seed)
        )  # fmt: skip
    for tol in own["tolerances"]:
        yield "ARPACK", f"{tol:g}", lambda t=tol: _descending(svds(G, r, tol=t, rng=seed))
    for m in own["landmarks"]:
        if m < len(G):
            yield "symmetric Nystrom", f"{m}", lambda m=m: symmetric(G, m, r, seed)
            yield "eq. (9)", f"{m}", lambda m=m: of_matrix(G, m, r, seed)
            yield "KSVD", f"{m}", lambda m=m: estimator(G, m, r, seed)


def _ends(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Vectors:
    return found[0], found[2].T


def _descending(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Vectors:
    return found[0][:, ::-1], found[2][::-1].T


def measured(work: Work, exact: Any, repeats: int) -> tuple[float, float, float]:
    """Median seconds, eta and the larger of the angle errors; endless where fewer vectors than asked for are found."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        U, V = work()
        seconds.append(time.perf_counter() - started)
    if U.shape[1] < len(exact[1]):
        return median(seconds), np.inf, 1.0
    E, s, F = exact
    return median(seconds), eta(E, s, F, U, V), max(subspace_error(E, U), subspace_error(F, V))


def rows(data: Path, own: dict[str, Any], trials: int) -> Iterator[str]:
    """The table: for each graph and target a line for each method; times are medians of the trials."""
    yield "| graph, eta, start | method | setting | s | eta | angle | times slower than eq. (9) | paper |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, paper in own["paper"].items():
        yield from _of_graph(name, graphs.read(data / name).A.astype(np.float32), paper, own, trials)


def _of_graph(name: str, A: Any, paper: list[float], own: dict[str, Any], trials: int) -> Iterator[str]:
    At, r, width = A.T.tocsr(), own["rank"], own["bandwidth"]
    started = time.perf_counter()
    G = SNE(width)(A, At)
    forming = time.perf_counter() - started
    U, s, V = svds(G, r, tol=1e-6, rng=0)
    exact = U[:, ::-1], s[::-1], V[::-1].T
    yield f"| {name}: s_1, s_2, s_r {s[-1]:.4g}, {s[-2]:.4g}, {s[0]:.4g}; G formed in {forming:.2f} s | | | | | | | |"
    found = [(method, setting, *measured(work, exact, trials)) for method, setting, work in given(G, own, 0)]
    yield from _reached(name + ", G given", found, paper, own["etas"])
    started = [(m, s, t + forming, *rest) for m, s, t, *rest in found if m not in ("eq. (9)", "KSVD")]
    for m in own["landmarks"]:
        work = lambda m=m: of_points(A, At, width, m, r, 0)  # noqa: E731
        started.append(("eq. (9)", f"{m}", *measured(work, exact, trials)))
    yield from _reached(name + ", kernel evaluated", started, paper, own["etas"])


def _reached(what: str, found: list[Any], paper: list[float], etas: list[float]) -> Iterator[str]:
    for target, figure in zip(etas, paper, strict=True):
        best: dict[str, Any] = {}
        for method, *rest in found:
            if rest[2] <= target and (method not in best or rest[1] < best[method][1]):
                best[method] = rest
        ours = best.get("eq. (9)", ["", np.nan])[1]
        for method in dict.fromkeys(row[0] for row in found):
            start = f"| {what}, eta <= {target} | {method}"
            if method not in best:
                yield f"{start} | not reached | | | | | |"
                continue
            setting, seconds, reached, angle = best[method]
            yield (f"{start} | {setting} | {seconds:.4f} | {reached:.4f} | {angle:.3f} | {seconds / ours:.2f} "
                   f"| {figure} |")  # fmt: skip

"""Time and landmarks until the leading singular subspaces of a graph's SNE kernel are found, over its bandwidth.

The paper's figure 4. The kernel is k(rows, columns) of A + I, given as a dense matrix; a method has arrived when the
sines of the largest principal angles of both sides, to the exact subspaces of the leading r singular vectors, are at
most the target. r is the place of the largest relative gap of the spectrum from 2 to the given rank, since a subspace
that ends between two equal singular values is not defined. Methods are those of `speed`, and KSVD's orthonormal vectors
from an oversampled core.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import graphs
import numpy as np
import speed
from scipy.sparse.linalg import svds

from ask_dask.kernels import SNE


def ranked(s: np.ndarray, most: int) -> tuple[int, float]:
    """The number of leading singular values before the largest relative gap, and the gap s_r / s_{r + 1}."""
    gaps = s[1:most] / s[2 : most + 1]
    return int(gaps.argmax()) + 2, float(gaps.max())


def methods(G: np.ndarray, own: dict[str, Any], r: int, seed: int) -> Iterator[tuple[str, str, speed.Work]]:
    """Those of `speed`, and the orthonormal vectors."""
    yield from speed.given(G, own | {"rank": r}, seed)
    for m in own["landmarks"]:
        if 2 * m < len(G):
            yield "KSVD, orthonormal", f"{m}", partial(speed.orthonormal, G, m, r, seed)


def rows(data: Path, own: dict[str, Any], trials: int) -> Iterator[str]:
    """The table: for each graph and bandwidth a line for each method, with the least time that arrives."""
    yield "| graph, bandwidth | r, s_r/s_r+1, s_r/s_1, share of |G|^2 | method | setting | s | angle |"
    yield "|---|---|---|---|---|---|"
    for name in own["paper"]:
        A = graphs.read(data / name).A.astype(np.float32)
        for width in own["bandwidths"]:
            yield from _at(f"{name}, {width:g}", SNE(width)(A, A.T.tocsr()), own, trials)


def _at(what: str, G: np.ndarray, own: dict[str, Any], trials: int) -> Iterator[str]:
    U, s, Vt = svds(G.astype(np.float64), own["rank"] + 1, tol=1e-9, rng=0)
    U, s, V = U[:, ::-1], s[::-1], Vt[::-1].T
    r, gap = ranked(s, own["rank"])
    share = (s[:r] ** 2).sum() / np.linalg.norm(G) ** 2
    start = f"| {what} | {r}, {gap:.3f}, {s[r - 1] / s[0]:.2g}, {share:.3f}"
    best: dict[str, tuple[str, float, float]] = {}
    nearest: dict[str, float] = {}
    for method, setting, work in methods(G, own, r, 0):
        seconds, _, angle = speed.measured(work, (U[:, :r], s[:r], V[:, :r]), trials)
        nearest[method] = min(angle, nearest.get(method, 1.0))
        if angle <= own["angle"] and (method not in best or seconds < best[method][1]):
            best[method] = setting, seconds, angle
    for method, least in nearest.items():
        if method in best:
            setting, seconds, angle = best[method]
            yield f"{start} | {method} | {setting} | {seconds:.4f} | {angle:.3f} |"
        else:
            yield f"{start} | {method} | not reached | | at best {least:.2f} |"

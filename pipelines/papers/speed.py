"""Time to a given eta of singular vectors of the SNE kernel of a graph, which rows and columns of A + I have.

The ways and their settings are in singular.py. The cheapest setting that reaches eta with each of three seeds is found
first and is not counted; then all ways are timed one after the other, with other seeds, once for each of the trials (3
at least): medians. With G given all start from the dense float32 matrix; with the kernel evaluated the peers form it
first. Beside eta stands the sine of the largest principal angle, since the first singular value dominates eta.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import graphs
import numpy as np
import singular

from ask_dask.kernels import SNE
from ask_dask.score.subspaces import eta, subspace_error

SEARCHED, TIMED = range(1, 4), 100


def rows(data: Path, own: dict[str, Any], trials: int) -> Iterator[str]:
    """The table: for each graph and target a line for each method."""
    yield "| graph, start, eta | method | setting | s | eta | angle | times slower than eq. (9) | paper: speed-up |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, paper in own["paper"].items():
        yield from _of_graph(name, graphs.read(data / name).A.astype(np.float32), paper, own, trials)


def _of_graph(name: str, A: Any, paper: list[float], own: dict[str, Any], trials: int) -> Iterator[str]:
    At, r, kernel = A.T.tocsr(), own["rank"], SNE(own["bandwidth"])
    G = kernel(A, At)
    exact = singular.arpack(G, r, 1e-6, 0)
    s = exact[1]
    yield f"| {name}: s_1, s_2, s_{r} = {s[0]:.4g}, {s[1]:.4g}, {s[-1]:.4g} | | | | | | | |"
    for start, ways in (("G given", singular.given(G, own, r)),
                        ("kernel evaluated", singular.evaluated(kernel, A, At, own, r))):  # fmt: skip
        yield from _of_start(f"{name}, {start}", ways, exact, paper, own["etas"], trials)


def errors(exact: Any, U: np.ndarray, V: np.ndarray) -> tuple[float, float]:
    """Eta and the larger of the angle errors; endless where fewer (finite) vectors than asked for are found."""
    E, s, F = exact
    if U.shape[1] < len(s) or not (np.isfinite(U).all() and np.isfinite(V).all()):
        return np.inf, 1.0
    return eta(E, s, F, U, V), max(subspace_error(E, U), subspace_error(F, V))


def _of_start(
    what: str, ways: dict[str, singular.Way], exact: Any, paper: list[float], etas: list[float], trials: int
) -> Iterator[str]:
    found = {}
    for name, way in ways.items():
        found[name] = singular.smallest(way, lambda U, V: errors(exact, U, V)[0], etas, SEARCHED)
        print(what, name, found[name], file=sys.stderr, flush=True)
    for target, figure in zip(etas, paper, strict=True):
        works = {name: partial(ways[name].vectors, settings[target]) for name, settings in found.items()
                 if target in settings}  # fmt: skip
        measured = singular.interleaved(works, range(TIMED, TIMED + max(3, trials)))
        ours = measured.get("eq. (9)", (np.nan,))[0]
        for name in ways:
            start = f"| {what}, eta <= {target} | {name}"
            if name not in works:
                yield f"{start} | not reached | | | | | |"
                continue
            seconds, vectors = measured[name]
            reached, angle = errors(exact, *vectors)
            yield (f"{start} | {found[name][target]} | {seconds:.4f} | {reached:.4f} | {angle:.3f} "
                   f"| {seconds / ours:.2f} | {figure} |")  # fmt: skip

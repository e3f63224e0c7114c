"""Time to a largest principal angle of sine 0.1, over bandwidths from a sharp spectrum of the SNE kernel to a flat one.

Of a graph, and of points in few dimensions, whose spectra fall far faster. G is given, here in float64, and searched
and timed as in speed.py. The angle is between spaces of leading singular vectors, left and right; it has no meaning
inside a group of equal values, so the rank is where values fall most within `ranks`, and the fall is given. The last
column is the time over that of the best peer: Nystrom loses where it is above 1 for all of ours.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import graphs
import numpy as np
import singular
from speed import SEARCHED, TIMED, errors

from ask_dask.kernels import SNE


def rows(data: Path, own: dict[str, Any], trials: int) -> Iterator[str]:
    """The table: for each graph and bandwidth a line for each method."""
    what = "graph, bandwidth: rank r, s_r / s_1, s_r / s_r+1, share of squares after s_1"
    yield f"| {what} | method | setting | s | angle | times the best peer |"
    yield "|---|---|---|---|---|---|"
    for name in own["paper"]:
        X, Z = _sets(data, name, own)
        for width in own["bandwidths"]:
            yield from _of_matrix(f"{name}, {width:g}", SNE(width)(X, Z), own, trials)


def _sets(data: Path, name: str, own: dict[str, Any]) -> tuple[Any, Any]:
    """Rows and columns of a graph's A + I, or two sets of standard normal points; sharp spectra need float64."""
    if name == "normal points":
        random = np.random.default_rng(0)
        return random.normal(size=own["points"]), random.normal(size=own["points"])
    A = graphs.read(data / name).A.astype(np.float64)
    return A, A.T.tocsr()


def rank_by_gap(s: np.ndarray, least: int) -> int:
    """The r of least or more leading values after which they fall most: s_r / s_r+1.

    >>> rank_by_gap(np.array([9.0, 8.0, 4.0, 3.9]), 1)
    2
    """
    return least + int(np.argmax(s[least - 1 : -1] / s[least:]))


def _of_matrix(what: str, G: np.ndarray, own: dict[str, Any], trials: int) -> Iterator[str]:
    least, most = own["ranks"]
    U, s, V = singular.arpack(G, most + 1, 1e-6, 0)
    r = rank_by_gap(s, least)
    share = float((s[1:r] ** 2).sum() / (np.linalg.norm(G) ** 2 - s[0] ** 2))  # the first alone is nearly all
    ways, exact = singular.given(G, own, r), (U[:, :r], s[:r], V[:, :r])
    what = f"{what}: {r}, {s[r - 1] / s[0]:.2g}, {s[r - 1] / s[r]:.3f}, {share:.2g}"
    angle, target = (lambda U, V: errors(exact, U, V)[1]), own["angle"]
    found = {name: singular.smallest(way, angle, [target], SEARCHED) for name, way in ways.items()}
    works = {name: partial(ways[name].vectors, settings[target]) for name, settings in found.items() if settings}
    measured = singular.interleaved(works, range(TIMED, TIMED + max(3, trials)))
    best = min((seconds for name, (seconds, _) in measured.items() if name not in singular.OURS), default=np.nan)
    for name in ways:
        if name not in works:
            yield f"| {what} | {name} | not reached | | | |"
            continue
        seconds, vectors = measured[name]
        yield (f"| {what} | {name} | {found[name][target]} | {seconds:.4f} | {angle(*vectors):.3f} "
               f"| {seconds / best:.2f} |")  # fmt: skip

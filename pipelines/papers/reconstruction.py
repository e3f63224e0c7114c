"""Graph reconstruction: each node is connected to its nearest nodes in the embedding, as many as it has edges.

The embeddings are those of the node table, made by the same call. l1 is the largest column sum of |A - B| and l2 the
largest singular value of A - B, A being the adjacency without self loops and B the reconstructed graph; hits is the
share of the edges of A that B has. The paper does not say which way its edges point, what is near to what, nor how
many components it takes: every reading has its line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graphs
import nodes
import numpy as np
import scipy.sparse as sp
from graphs import Graph

from ask_dask.score import norms, reconstructed

READINGS = {
    "sources": ("distances of U S", "euclidean"),
    "both": ("distances of [U S, V S]", "euclidean"),
    "distance": ("from U S to V S", "euclidean"),
    "product": ("products U S V'", "dot"),
}
EDGES = {"given": lambda A: A, "turned": lambda A: A.T, "both ways": lambda A: A.maximum(A.T)}


def sides(reading: str, US: np.ndarray, VS: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nodes as sources and as targets."""
    if reading == "sources":
        return US, US
    if reading == "both":
        return (both := np.hstack([US, VS])), both
    return US, VS if reading == "distance" else VS / s


def rows(data: Path, own: dict[str, Any], trials: int) -> Iterator[str]:
    """The table: a line for each graph, method, number of components and reading; it has no chance in it."""
    yield "| graph | paper, l1 l2 | components | nearest by | l1, l2 | hits |\n|---|---|---|---|---|---|"
    for name, paper in own["paper"].items():
        found, how = graphs.read(data / name), own["edges"].get(name, "given")
        yield from _of_graph(name, Graph(EDGES[how](found.A).tocsr(), found.y), paper, own)


def _of_graph(name: str, found: Graph, paper: dict[str, str], own: dict[str, Any]) -> Iterator[str]:
    A = sp.csr_matrix(found.A - sp.identity(len(found.y)))
    A.eliminate_zeros()
    degrees = np.diff(A.indptr)
    for method, kernel, what in nodes.methods(found, own):
        pairs = nodes.embedding(found, kernel, what, own).reshape(len(found.y), -1, 2)
        s = np.linalg.norm(pairs[:, :, 0], axis=0)  # the columns of U have length 1
        for r in sorted({min(r, len(s)) for r in own["components"]}):  # landmarks may give fewer
            for reading in own["readings"]:
                left, right = sides(reading, pairs[:, :r, 0], pairs[:, :r, 1], s[:r])
                text, order = READINGS[reading]
                B = reconstructed(left, right, degrees, order)
                l1, l2 = norms(A, B)
                hits = A.multiply(B).sum() / A.nnz
                line = f"{name}: {method}"
                yield f"| {line:<14} | {paper.get(method, ''):<9} | {r} | {text} | {l1:.0f} {l2:.1f} | {hits:.3f} |"

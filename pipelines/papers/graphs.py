"""The citation and social graphs of the papers, as adjacency matrices with self loops and classes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Graph:
    """The adjacency with self loops, and a class for each node."""

    A: sp.csr_matrix
    y: np.ndarray


def read(folder: Path) -> Graph:
    """Read a folder of the data."""
    if (folder / "PTBR_edges.csv").exists():
        edges = np.loadtxt(folder / "PTBR_edges.csv", dtype=np.int64, delimiter=",", skiprows=1)
        edges = np.vstack([edges, edges[:, ::-1]])
        table = np.loadtxt(folder / "PTBR_target.csv", dtype=str, delimiter=",", skiprows=1)
        y = np.zeros(len(table), np.int64)
        y[table[:, -1].astype(int)] = table[:, 2] == "True"
    else:
        edges = np.loadtxt(folder / "directed_edges.tsv", dtype=np.int64)
        labels = folder / ("labels.tsv" if (folder / "labels.tsv").exists() else "labels.txt")
        y = np.loadtxt(labels, dtype=np.int64, usecols=-1)
    A = sp.lil_matrix((len(y), len(y)))
    A[edges[:, 0], edges[:, 1]] = 1
    A.setdiag(1)
    return Graph(A.tocsr(), y)

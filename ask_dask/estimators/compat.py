"""The compatibility of the rows and columns of a data matrix, which live in different spaces.

Tao, Tonin et al., Learning in Feature Spaces via Coupled Covariances, section 2: with a compatibility matrix, rows x
(M numbers) and columns z (N numbers) of A can be arguments of one kernel. Suykens, SVD revisited (2016), has the rows
as C'x with A C A = A, so that (C'x)'z is the entry of A.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import svd_flip

from ask_dask import blocks, compute
from ask_dask.errors import InputError
from ask_dask.estimators.sketch import Sketch
from ask_dask.kernels.base import Block
from ask_dask.sparse import is_sparse

HOWS = ("pinv", "pinv_rows", "pca", "axes", "random")


class Compatibility(Protocol):
    """Rows and columns of a data matrix as points of one space."""

    def of_rows(self, rows: Block) -> Block:
        """(n, M) -> (n, d)"""

    def of_columns(self, columns: Block) -> Block:
        """(n, N), a column of the data matrix in each row -> (n, d)"""


@dataclass(frozen=True)
class Linear:
    """A matrix for each role; None leaves that role as it is."""

    rows: np.ndarray | None = None
    columns: np.ndarray | None = None

    def of_rows(self, rows: Block) -> Block:
        return rows if self.rows is None else rows @ self.rows

    def of_columns(self, columns: Block) -> Block:
        return columns if self.columns is None else columns @ self.columns


def compatible(A: Any, how: str | None, d: int | None, seed: int) -> tuple[Any, Any, Compatibility]:
    """Rows and columns of a data matrix as points of one space, and how new ones become so.

    Parameters
    ----------
    A : (N, M) numpy, scipy.sparse, dask or zarr
        Out of memory only with how="random" and a dimension.
    how : {None, "pinv", "pinv_rows", "pca", "axes", "random"}
        None takes them as they are, which needs N = M; "pinv" brings columns to rows by A^+, "pinv_rows" rows to
        columns, as numbers along axes of what the columns span; "pca" the larger role to its principal axes, not
        centred, as many as the other has numbers; "axes" both to theirs: of A = P S Q' rows become those of P S and
        columns those of Q S, so that the k-th number of each is along the same pair of axes. Of a matrix of full rank
        with more rows than columns A^+ A = I: "pinv" makes of its columns unit vectors, which know nothing of it.
    d : int, optional
        Dimension that "random" brings both roles to; None brings the larger to the smaller one's, by a dense matrix.
    """
    n, m = A.shape
    if how not in (None, *HOWS):
        raise InputError(f"compat={how!r} must be None, {', '.join(map(repr, HOWS))} or 'learned'.")
    if how is None and n != m:
        raise InputError(
            f"The data matrix is {n} x {m}, so its rows and columns have {m} and {n} numbers: set compat to "
            f"{', '.join(map(repr, HOWS))}, or give two sets, X and Z."
        )
    if how == "random" and d is not None:
        sketch = Sketch(d, seed)
        return sketched(A, sketch)
    if blocks.is_lazy(A):
        raise InputError("Of a data matrix that is not in memory the rows and columns meet only in random projections: "
                         "set compat='random' and compat_dim.")  # fmt: skip
    found = _linear(A, how, seed)
    return found.of_rows(A), found.of_columns(A.T.tocsr() if sp.issparse(A) else np.ascontiguousarray(A.T)), found


def _linear(A: Any, how: str | None, seed: int) -> Linear:
    n, m = A.shape
    if how is None:
        return Linear()
    if how == "pinv":
        return Linear(columns=np.linalg.pinv(_dense(A)).T)
    if how in ("axes", "pinv_rows"):
        P, s, Qt = np.linalg.svd(_dense(A), full_matrices=False)
        if how == "axes":
            return Linear(rows=Qt.T, columns=P)
        kept = s > np.finfo(s.dtype).eps * max(n, m) * s.max(initial=0)
        return Linear(rows=Qt[kept].T / s[kept], columns=P[:, kept])
    d = min(n, m)
    if how == "random":
        matrix = np.random.default_rng(seed).standard_normal((max(n, m), d)) / np.sqrt(d)
    else:
        large = _dense(A) if m >= n else _dense(A).T
        matrix = svd_flip(*np.linalg.svd(large, full_matrices=False)[::2], u_based_decision=False)[1][:d].T
    matrix = matrix.astype(A.dtype, copy=False)
    if n == m:
        return Linear(rows=matrix)
    return Linear(rows=matrix) if m > n else Linear(columns=matrix)


def _dense(A: Any) -> np.ndarray:
    return A.toarray() if sp.issparse(A) else np.asarray(A)


def sketched(A: Any, sketch: Sketch) -> tuple[Any, np.ndarray, Sketch]:
    """Rows as they are read, columns in memory, from one pass over A.

    A sum over sparse rows is made in place: beside those of a million columns there is no room for partial ones.
    """
    X = blocks.map_rows(A, sketch.of_rows, sketch.d, "rows projected")
    shards, label = blocks.shards(A), "columns projected"
    if not is_sparse(A):
        task = compute.task(sketch.part_of_columns)
        return X, compute.run_sum([task(s.block, s.start) for s in shards], label).astype(X.dtype), sketch
    Z = np.zeros((A.shape[1], sketch.d), X.dtype)
    with compute.progress(label, len(shards), "shards") as advance:
        for shard in shards:
            sketch.add_columns(compute.run([shard.block], None)[0], shard.start, Z)
            advance()
    return X, Z, sketch

"""Sparse rows in a store, for tests."""

import numpy as np
import scipy.sparse as sp
import zarr

from ask_dask.sparse import SparseRows, SparseWriter


def stored(X):
    """The rows of a matrix as `SparseRows`, in memory and in the precision of X."""
    group, rows = zarr.group(), sp.csr_matrix(X)
    writer = SparseWriter(group, rows.dtype)
    writer.add(rows.data, rows.indices, np.diff(rows.indptr))
    writer.close(n_columns=X.shape[1])
    return SparseRows(group)

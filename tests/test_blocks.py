"""The walk over shards of rows: their numbers, also of a short last shard, and what refers to them."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from sparse_rows import stored

from ask_dask import blocks, budget
from ask_dask.errors import InputError

X = np.random.default_rng(0).random((47, 3)) + 0.1
STARTS, STOPS = [0, 10, 20, 30, 40], [10, 20, 30, 40, 47]


KINDS = {
    "numpy": np.asarray,
    "csr": sp.csr_matrix,
    "dask": lambda X: da.from_array(X, chunks=(13, 2)),
    "zarr": lambda X: zarr.create_array({}, data=X, chunks=(5, 3)),
    "sparse rows": stored,
}


def dense(block):
    return block.toarray() if sp.issparse(block) else np.asarray(block)


@pytest.fixture
def tens(monkeypatch):
    """Shards of ten rows, whatever the input."""
    monkeypatch.setattr(budget, "shard_rows", lambda row_bytes: 10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_last_shard_begins_where_the_one_before_ends(kind):
    found = blocks.shards(KINDS[kind](X), rows=10)
    assert [(shard.start, shard.stop) for shard in found] == list(zip(STARTS, STOPS, strict=True))
    for shard, block in zip(found, dask.compute(*[shard.block for shard in found]), strict=True):
        np.testing.assert_array_equal(dense(block), X[shard.start : shard.stop])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", [0, 39, 40, 46])
def test_a_bad_number_is_told_by_its_row_in_the_input(tens, kind, row):
    bad = X.copy()
    bad[row, 1] = np.nan
    with pytest.raises(InputError, match=f"NaN, first in row {row}, column 1"):
        np.asarray(blocks.map_rows(KINDS[kind](bad), dense, 3, None))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [[46], [40, 46, 3, 40, 39], [0, 45]], ids=str)
def test_rows_are_taken_in_the_order_asked(tens, kind, rows):
    np.testing.assert_array_equal(dense(blocks.take_rows(KINDS[kind](X), np.array(rows))), X[rows])


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_of_each_row_comes_in_the_order_of_rows(tens, kind):
    found = blocks.map_rows(KINDS[kind](X), lambda block: dense(block)[:, :1] * 2, 1, None)
    np.testing.assert_array_equal(np.asarray(found), X[:, :1] * 2)

"""Products: as numpy's in float64, for every type and layout that blocks come in."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ask_dask import compute

DTYPES = (np.float32, np.float64)
SIZES = st.tuples(st.integers(1, 40), st.integers(1, 70))


@settings(deadline=None)  # the first example compiles
@given(size=SIZES, columns=st.sampled_from((0, 1, 3, 4, 24, 25)), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 9))
def test_products_are_summed_in_float64_whatever_the_block_and_its_layout(size, columns, dtype, seed):
    rng = np.random.default_rng(seed)
    block, coefficients = rng.normal(size=size).astype(dtype), 1e6 * rng.normal(size=(size[1], columns))
    wanted = block.astype(np.float64) @ coefficients
    for same in (block, np.asfortranarray(block), np.hstack([block, block])[:, : size[1]]):
        np.testing.assert_allclose(compute.product(same, coefficients), wanted, rtol=1e-9, atol=1e-6)

"""Products of blocks of rows where numpy's take more passes over memory than need be."""

import numpy as np

from ask_dask.compute.compiled import compiled_sums

FEW = 8
"""Columns of coefficients up to which a product in one pass beats a float64 copy of the block and BLAS."""


def product(block: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """block @ coefficients in float64, for few columns without a float64 copy of a float32 block.

    Parameters
    ----------
    block : (n, m) float32 or float64 array
    coefficients : (m, r) float64 array

    Examples
    --------
    >>> product(np.ones((1, 2), np.float32), np.array([[1.0], [1e-9]]))
    array([[1.]])
    """
    if block.dtype != np.float32 or coefficients.shape[1] > FEW or block.strides[1] != block.itemsize:
        return block @ coefficients
    out = np.empty((len(block), coefficients.shape[1]))
    _product(block, np.ascontiguousarray(coefficients.T), out)
    return out


@compiled_sums
def _product(block: np.ndarray, coefficients: np.ndarray, out: np.ndarray) -> None:
    for i in range(block.shape[0]):
        for k in range(coefficients.shape[0]):
            total = 0.0
            for j in range(block.shape[1]):
                total += block[i, j] * coefficients[k, j]
            out[i, k] = total

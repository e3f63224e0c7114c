"""Products of blocks of rows where numpy's take more passes over memory than need be."""

import numpy as np

from ask_dask.compute.compiled import compiled_sums

FEW = 24
"""Columns of coefficients up to which a product in one pass beats a float64 copy of the block and BLAS."""

TOGETHER = 3
"""Columns whose products are summed in one walk along a row."""


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
    r = coefficients.shape[1]
    if block.dtype != np.float32 or r > FEW or block.strides[1] != block.itemsize:
        return block @ coefficients
    padded = np.zeros((-(-r // TOGETHER) * TOGETHER, len(coefficients)))
    padded[:r] = coefficients.T
    out = np.empty((len(block), len(padded)))
    _product(block, padded, out)
    return out[:, :r]


@compiled_sums
def _product(block: np.ndarray, coefficients: np.ndarray, out: np.ndarray) -> None:
    for i in range(block.shape[0]):
        for k in range(0, coefficients.shape[0], TOGETHER):
            first = second = third = 0.0
            for j in range(block.shape[1]):
                value = np.float64(block[i, j])
                first += value * coefficients[k, j]
                second += value * coefficients[k + 1, j]
                third += value * coefficients[k + 2, j]
            out[i, k], out[i, k + 1], out[i, k + 2] = first, second, third

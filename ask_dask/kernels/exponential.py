"""Exponentials of kernel blocks in place, compiled: numpy's take most of the time that products leave.

exp is reduced to [-ln 2 / 2, ln 2 / 2] and a polynomial: of degree 6 in float32 (the coefficients of the Cephes
library's expf), the Taylor polynomial of degree 13 in float64. Relative errors are below 2e-7 and 5e-16.
"""

from math import factorial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ask_dask.compute.compiled import FAST, compiled

_F = np.float32
_SMALLEST = _F(-87.0)  # exp of anything less is 0 in normal float32
_SMALLEST_64 = -708.0
_TAYLOR = tuple(1 / factorial(k) for k in range(14))


@intrinsic
def _as_float(typing_context: Any, bits: Any) -> Any:
    """The float32 that an int32's bits are."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


@njit(inline="always", fastmath=FAST)
def _exp(x: Any) -> Any:
    x = max(x, _SMALLEST)
    n = np.floor(x * _F(1.44269504) + _F(0.5))
    r = x - n * _F(0.693359375) - n * _F(-2.12194440e-4)
    p = _F(1.9875691500e-4)
    p = p * r + _F(1.3981999507e-3)
    p = p * r + _F(8.3334519073e-3)
    p = p * r + _F(4.1665795894e-2)
    p = p * r + _F(1.6666665459e-1)
    p = p * r + _F(5.0000001201e-1)
    p = p * r * r + r + _F(1.0)
    return p * _as_float((np.int32(n) + np.int32(127)) << np.int32(23))  # type: ignore[call-arg]


@intrinsic
def _as_double(typing_context: Any, bits: Any) -> Any:
    """The float64 that an int64's bits are."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@njit(inline="always", fastmath=FAST)
def _exp_64(x: Any) -> Any:
    x = max(x, _SMALLEST_64)
    n = np.floor(x * 1.4426950408889634 + 0.5)
    r = x - n * 6.93145751953125e-1 - n * 1.42860682030941723212e-6
    p = _TAYLOR[13]
    p = p * r + _TAYLOR[12]
    p = p * r + _TAYLOR[11]
    p = p * r + _TAYLOR[10]
    p = p * r + _TAYLOR[9]
    p = p * r + _TAYLOR[8]
    p = p * r + _TAYLOR[7]
    p = p * r + _TAYLOR[6]
    p = p * r + _TAYLOR[5]
    p = p * r + _TAYLOR[4]
    p = p * r + _TAYLOR[3]
    p = p * r + 0.5
    p = p * r * r + r + 1.0
    return p * _as_double((np.int64(np.int32(n)) + np.int64(1023)) << np.int64(52))  # type: ignore[call-arg]


@compiled
def _exp_rows(block: np.ndarray) -> None:
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = _exp(min(block[i, j], _F(0.0)))


@compiled
def _exp_rows_64(block: np.ndarray) -> None:
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = _exp_64(min(block[i, j], 0.0))


@compiled
def _shifted_exp_rows_64(block: np.ndarray, largest: np.ndarray) -> None:
    for i in range(block.shape[0]):
        top = block[i, 0]
        for j in range(block.shape[1]):
            top = max(top, block[i, j])
        for j in range(block.shape[1]):
            block[i, j] = _exp_64(block[i, j] - top)
        largest[i] = top


@compiled
def _shifted_exp_rows(block: np.ndarray, largest: np.ndarray) -> None:
    for i in range(block.shape[0]):
        top = block[i, 0]
        for j in range(block.shape[1]):
            top = max(top, block[i, j])
        for j in range(block.shape[1]):
            block[i, j] = _exp(block[i, j] - top)
        largest[i] = top


def exp_nonpositive(logits: np.ndarray) -> np.ndarray:
    """exp(min(x, 0)) of every entry, in place.

    >>> exp_nonpositive(np.array([[0.0, -1.0]], np.float32)).round(4)
    array([[1.    , 0.3679]], dtype=float32)
    """
    (_exp_rows if logits.dtype == np.float32 else _exp_rows_64)(logits)
    return logits


def exp_below_largest(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """exp(x_ij - max_j x_ij) in place, and the maxima (n,).

    >>> exp_below_largest(np.array([[5.0, 4.0]], np.float32))[0].round(4)
    array([[1.    , 0.3679]], dtype=float32)
    """
    largest = np.empty(len(logits), logits.dtype)
    (_shifted_exp_rows if logits.dtype == np.float32 else _shifted_exp_rows_64)(logits, largest)
    return logits, largest

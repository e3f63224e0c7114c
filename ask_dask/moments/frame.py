"""Coordinates in which kernel columns are summed, so that products of float32 blocks keep the digits that matter."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

PIVOTS = 15
"""Most pivot columns. Each adds 2 m operations a row to the m^2 of the Gram of m columns."""

ROWS_A_PIVOT = 4
"""Fewest sampled rows for each pivot, so that the weights are not fitted to single rows."""

FLAT = 1e-5
"""A column that the pivots leave less than this of, against the largest at the start, is not made a pivot."""


@dataclass(frozen=True)
class Frame:
    """A change of coordinates of m kernel columns C, made before they are multiplied and undone in float64.

    A few pivot columns P explain most of the others. What is summed is E = C - C_P B - 1 t', with weights B (zero at
    the pivots) and offsets t, so that C = 1 o' + E (I + e_P B) with the origin o = t + B't_P. The rounding of a product
    of float32 columns is relative to their size. Features divide the small directions of C by roots of small singular
    values, and so amplify that rounding; E has these directions in small columns. The pivots are those of a pivoted
    elimination of sampled rows, as in a pivoted QR factorisation (Golub and Van Loan, Matrix Computations, 5.4.2).

    Attributes
    ----------
    n : int
        Landmarks; columns after the first n are pivots that a smaller set of landmarks needs.
    offset : (m,) float64
        t, numbers that the precision of the blocks holds.
    pivots : (k,) int64
        Places of the pivots among the columns.
    weights : (k, m) float64
        B, numbers that the precision of the blocks holds.
    eps : float
        Distance from 1 to the next number in the precision of the blocks.

    Examples
    --------
    >>> C = np.random.default_rng(0).normal(size=(90, 2)) @ np.ones((2, 5)) + np.eye(90, 5)
    >>> frame = Frame.of(C)
    >>> E, T = frame.columns(C), np.ones((5, 1))
    >>> np.allclose(E @ frame.transform(T), (C - frame.origin) @ T)
    True
    """

    n: int
    offset: np.ndarray
    pivots: np.ndarray
    weights: np.ndarray
    eps: float

    @classmethod
    def of(cls, sample: np.ndarray, most: int = PIVOTS) -> "Frame":
        """Return the frame of kernel columns like those of a few sampled rows.

        Parameters
        ----------
        sample : (s, m) array
            In the precision of the blocks; without rows the frame changes nothing.
        most : int
            Most pivots.
        """
        dtype, m = sample.dtype, sample.shape[1]
        mean = sample.mean(0, dtype=np.float64) if len(sample) else np.zeros(m)
        around = sample - mean
        pivots = _pivots(around, min(most, len(sample) // ROWS_A_PIVOT))
        weights = np.linalg.lstsq(around[:, pivots], around, rcond=None)[0] if len(pivots) else np.zeros((0, m))
        weights[:, pivots] = 0
        weights = weights.astype(dtype).astype(np.float64)
        offset = (mean - mean[pivots] @ weights).astype(dtype).astype(np.float64)
        return cls(m, offset, pivots, weights, float(np.finfo(dtype).eps))

    @property
    def origin(self) -> np.ndarray:
        """The kernel columns (m,) that E = 0 stands for."""
        return self.offset + self.offset[self.pivots] @ self.weights

    def columns(self, C: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return E of a block of kernel columns C, (n, m)."""
        if not len(self.pivots):
            return np.subtract(C, self.offset.astype(C.dtype), out=out)
        left = np.ones((len(C), len(self.pivots) + 1), C.dtype)
        left[:, :-1] = C[:, self.pivots]
        out = np.matmul(left, self._taken.astype(C.dtype, copy=False), out=out)
        return np.add(out, C, out=out)

    @cached_property
    def _taken(self) -> np.ndarray:
        """Return (k + 1, m) numbers in the blocks' precision: [C_P, 1] times these, added to C, is E."""
        dtype = np.float32 if self.eps > np.finfo(np.float64).eps else np.float64
        return np.negative(np.vstack([self.weights, self.offset])).astype(dtype)

    def transform(self, T: np.ndarray) -> np.ndarray:
        """Return S (m, r) with E S = (C - 1 o') T, for coefficients T (n, r) of the landmarks' columns."""
        S = np.zeros((len(self.offset), T.shape[1]))
        S[: self.n] = T
        S[self.pivots] += self.weights[:, : self.n] @ T
        return S

    def squares(self, gram: np.ndarray) -> np.ndarray:
        """Return the diagonal (m,) of the Gram of C - 1 o', from that of E, (m, m)."""
        B, P = self.weights, self.pivots
        return np.diag(gram) + 2 * (B * gram[P]).sum(0) + (B * (gram[np.ix_(P, P)] @ B)).sum(0)

    def pick(self, index: np.ndarray) -> "tuple[Frame, Any]":
        """Return the frame of some landmarks, by their increasing places, and where its columns are among these."""
        beyond = np.setdiff1d(self.pivots, index)
        kept: Any = np.concatenate([index, beyond])
        place = np.empty(len(self.offset), np.int64)
        place[kept] = np.arange(len(kept))
        if not len(beyond) and index[-1] == len(index) - 1:
            kept = slice(len(index))  # a view in place of a copy
        return Frame(len(index), self.offset[kept], place[self.pivots], self.weights[:, kept], self.eps), kept

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Frame) and (self.n, self.eps) == (other.n, other.eps) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in ("offset", "pivots", "weights")
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]


def _pivots(A: np.ndarray, most: int) -> np.ndarray:
    """Return the columns that a pivoted elimination of A takes first."""
    left = A.copy()
    found: list[int] = []
    norms = np.einsum("ij,ij->j", left, left)
    least = FLAT**2 * norms.max(initial=0)
    while len(found) < most and norms.max(initial=0) > least:
        found.append(int(norms.argmax()))
        direction = left[:, found[-1]] / np.sqrt(norms[found[-1]])
        left -= np.outer(direction, direction @ left)
        norms = np.einsum("ij,ij->j", left, left)
    return np.array(found, np.int64)

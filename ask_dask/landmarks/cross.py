"""Rows and columns chosen together as the pivots of an incomplete LU factorisation, without the matrix."""

import numpy as np

from ask_dask.kernels.base import Block
from ask_dask.landmarks.entries import Entries, KernelLike, require_not_zero
from ask_dask.landmarks.sampled import Seed, fill_uniformly, require_enough

ROOK_STEPS = 8
"""Moves from a row to its largest column and back, at most, until an entry is the largest of both."""
WATCHED = 200
"""Columns watched, besides as many as there are steps: enough to meet a group of one point in a hundred."""
FRESH_ROWS = 8
"""Rows tried where every watched entry is already approximated."""


def cross_approximation(
    kernel: KernelLike,
    X: Block,
    Z: Block,
    n_landmarks: tuple[int, int],
    random_state: Seed,
    n_watched: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of pivots: step by step the row and the column that cross at a large entry of the residual.

    After k steps K is approximated by C W^-1 R on the k rows and columns chosen, exactly where K has rank k. Row r and
    column r of the answer belong together: W is factorised with large pivots, which choices for each side alone do not
    give. A prefix of the answer is the choice after fewer steps.

    The residual is watched at some columns, drawn uniformly, and where X is Z on the diagonal. A step starts at a row
    drawn in proportion to the sum of squares watched in it, and moves between row and column until an entry is the
    largest of both (rook pivoting). Starting at the largest entry instead would spend the pivots on outliers. For a
    symmetric positive semidefinite kernel with X is Z such entries are on the diagonal: the method is then pivoted
    incomplete Cholesky, and rows and columns are equal.

    The watched columns and, for each step, about two rows and two columns are evaluated: of the order of (n + m) k
    entries, never the whole matrix where candidates are many (a kernel normalised over the data sums over all of them
    once, and keeps the sums). Where the residual vanishes (K has a lower rank), or one side asks for more, the rest is
    drawn uniformly.

    Parameters
    ----------
    kernel : Kernel or function k(X, Z)
    X, Z : (n, d) and (m, d) blocks
        Candidates; one object where they are the same points.
    n_landmarks : pair of int
        Rows and columns to choose.
    n_watched : int, optional
        Columns at which the residual is known throughout; by default 200 more than the smaller of n_landmarks. A
        group of points that none of them sees is missed where Z is not X.

    Returns
    -------
    rows, columns : (n_landmarks[0],) and (n_landmarks[1],) int64, each distinct

    Raises
    ------
    InputError
        Too few candidates; a kernel that is NaN, infinite, or zero wherever it was looked at.

    Notes
    -----
    Bebendorf, Approximation of boundary element matrices, 2000; Goreinov, Tyrtyshnikov and Zamarashkin, A theory of
    pseudoskeleton approximations, 1997; Poole and Neal, The rook's pivoting strategy, 2000; for Cholesky, Fine and
    Scheinberg, Efficient SVM training using low-rank kernel representations, 2001; for the random start, Chen, Epperly,
    Tropp and Webber, Randomly pivoted Cholesky, 2023.

    Examples
    --------
    >>> from ask_dask.kernels import SNE
    >>> X = np.repeat(np.arange(3.0)[:, None], 50, axis=0)  # three different points
    >>> rows, columns = cross_approximation(SNE(1.0), X, X, (3, 4), random_state=0)
    >>> sorted(X[rows].ravel()), sorted(set(X[columns].ravel()))
    ([np.float64(0.0), np.float64(1.0), np.float64(2.0)], [np.float64(0.0), np.float64(1.0), np.float64(2.0)])
    """
    entries, rng = Entries(kernel, X, Z), np.random.default_rng(random_state)
    for count, available in zip(n_landmarks, entries.shape, strict=True):
        require_enough(count, available)
    steps = min(n_landmarks)
    residual = _Residual(entries, steps, n_watched or steps + WATCHED, rng)
    while len(residual.rows) < steps and residual.step():
        pass
    require_not_zero(residual.largest)
    rows = fill_uniformly(residual.rows, entries.shape[0], n_landmarks[0], rng)
    return rows, fill_uniformly(residual.columns, entries.shape[1], n_landmarks[1], rng)


class _Residual:
    """K - left @ right, row by row and column by column; the watched entries of it are kept up to date."""

    def __init__(self, entries: Entries, steps: int, n_watched: int, rng: np.random.Generator) -> None:
        n, m = entries.shape
        self.entries, self.rng = entries, rng
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.left, self.right = np.empty((n, steps)), np.empty((steps, m))
        self.watched = rng.choice(m, min(n_watched, m), replace=False)
        self.at_watched = entries.columns(self.watched)
        self.diagonal = entries.diagonal() if entries.paired else np.zeros(n)
        self.largest = 0.0

    def step(self) -> bool:
        """Take one pivot; False where nothing that was looked at is above rounding."""
        for start in (self._drawn_by_energy, self._largest_of_fresh):
            i, j, row, column = self._rook(start())
            if abs(row[j]) > 64 * self.entries.eps * self.largest:
                self._take(i, j, row, column)
                return True
        return False

    def row(self, i: int) -> np.ndarray:
        """Row i of the residual, 0 where it is 0 by construction."""
        done = len(self.rows)
        row = self.entries.rows(np.array([i]))[0] - self.left[i, :done] @ self.right[:done]
        row[self.columns] = 0
        return row

    def column(self, j: int) -> np.ndarray:
        """Column j of the residual, 0 where it is 0 by construction."""
        done = len(self.rows)
        column = self.entries.columns(np.array([j]))[:, 0] - self.left[:, :done] @ self.right[:done, j]
        column[self.rows] = 0
        return column

    def _rook(self, i: int) -> tuple[int, int, np.ndarray, np.ndarray]:
        """A row, a column that cross at an entry that is the largest of both, or nearly, and the residual there."""
        row = self.row(i)
        for _ in range(ROOK_STEPS):
            j = self._largest_in_row(row, i)
            column = self.column(j)
            best = _largest(column)
            if abs(column[best]) <= abs(row[j]) * (1 + 1e-12):  # of equal ones the row stays
                break
            i, row = best, self.row(best)
        return i, j, row, column

    def _largest_in_row(self, row: np.ndarray, i: int) -> int:
        """The column of the largest entry; the diagonal's where it is as large, such as among equal points."""
        j = _largest(row)
        return i if self.entries.paired and abs(row[i]) >= abs(row[j]) * (1 - 1e-12) else j

    def _drawn_by_energy(self) -> int:
        """A row, with probability in proportion to its estimated sum of squares."""
        squares = np.einsum("ij,ij->i", self.at_watched, self.at_watched)
        energy = squares * (self.entries.shape[1] / len(self.watched)) + self.diagonal**2
        total = energy.sum()
        return int(self.rng.choice(len(energy), p=energy / total)) if total > 0 else self._largest_of_fresh()

    def _largest_of_fresh(self) -> int:
        unused = np.setdiff1d(np.arange(self.entries.shape[0]), self.rows)
        fresh = self.rng.choice(unused, min(FRESH_ROWS, len(unused)), replace=False)
        return int(fresh[_largest(np.array([np.abs(self.row(i)).max() for i in fresh]))])

    def _take(self, i: int, j: int, row: np.ndarray, column: np.ndarray) -> None:
        done = len(self.rows)
        self.largest = max(self.largest, abs(row[j]))
        self.left[:, done], self.right[done] = column / row[j], row
        self.left[i, done] = 1  # exactly, so that the row vanishes
        self.rows.append(i)
        self.columns.append(j)
        self.at_watched -= np.outer(self.left[:, done], row[self.watched])
        self.at_watched[i] = 0
        if self.entries.paired:
            self.diagonal -= self.left[:, done] * row
            self.diagonal[[i, j]] = 0


def _largest(values: np.ndarray) -> int:
    return int(np.argmax(np.abs(values)))

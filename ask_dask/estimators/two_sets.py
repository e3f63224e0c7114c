"""Sources X and targets Z of a kernel matrix k(X, Z): their landmarks, and the passes over both."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ask_dask import blocks, landmarks, moments, nystrom
from ask_dask.basis import TYPICAL_ROWS, Basis
from ask_dask.errors import InputError
from ask_dask.estimators.inputs import check_rows, default_bandwidth
from ask_dask.kernels import SNE
from ask_dask.kernels.base import Block, Kernel
from ask_dask.moments import Rows
from ask_dask.nystrom import Judge
from ask_dask.solve.vectors import Error, Gram, SingularVectors, estimated_error, orthonormal, scaled


@dataclass(frozen=True)
class Pairs:
    """A kernel, its sources and its targets; one object where these are the same."""

    kernel: Kernel
    X: Any
    Z: Any

    @classmethod
    def of(cls, kernel: Kernel | None, X: Any, Z: Any, seed: int) -> "Pairs":
        """With a kernel from a sample of X where none is given."""
        if kernel is None:
            sample = landmarks.uniform(X.shape[0], min(1000, X.shape[0]), seed)
            kernel = SNE(default_bandwidth(blocks.take_rows(X, sample)))
        return cls(kernel, X, Z)

    @property
    def n(self) -> int:
        """Sources."""
        return int(self.X.shape[0])

    @property
    def m(self) -> int:
        """Targets."""
        return int(self.Z.shape[0])

    @property
    def same(self) -> bool:
        """Whether each point is source and target."""
        return self.X is self.Z

    def basis(self, rows: np.ndarray, columns: np.ndarray) -> Basis:
        """The kernel at landmarks; their points are one object where X and Z are and their numbers agree."""
        row_points = blocks.take_rows(self.X, rows)
        blocks.require_finite(row_points, rows)
        one = self.same and (columns is rows or np.array_equal(rows, columns))
        column_points = row_points if one else blocks.take_rows(self.Z, columns)
        blocks.require_finite(column_points, columns)
        return Basis.of(self.kernel, self.Z, row_points, column_points)

    def grams(self, basis: Basis, n: int, m: int) -> tuple[Gram, Gram]:
        """Of the first m columns of C over X and the first n of R' over Z; one pass where X is Z."""
        at, (rows, columns) = basis.at.prefix(n, m), (basis.row_points, basis.column_points)
        if self.same:
            sides = moments.gather(self.X, _unlabelled(self.n), 1, at, basis.typical, per_row=n + m, pivots=0).sides
            return Gram.of(self.n, sides[0]), Gram.of(self.m, sides[-1])
        return _gram(self.X, OneRole(at.source), rows, m), _gram(self.Z, OneRole(at.target), columns, n)


@dataclass(frozen=True)
class OneRole:
    """The kernel columns of one role, as a pass over rows takes them."""

    columns: Callable[[Block], np.ndarray]

    def both(self, X: Block) -> tuple[np.ndarray, np.ndarray]:
        found = self.columns(X)
        return found, found


def _gram(X: Any, role: OneRole, points: Block, per_row: int) -> Gram:
    found = moments.gather(X, _unlabelled(X.shape[0]), 1, role, points[:TYPICAL_ROWS], per_row=per_row, pivots=0)
    return Gram.of(X.shape[0], found.sides[0])


def _unlabelled(n: int) -> Rows:
    return Rows(np.zeros((n, 0)), _as_they_are, np.zeros(n, np.int8))


def _as_they_are(y: np.ndarray) -> np.ndarray:
    return y


def means(pairs: Pairs, basis: Basis, vectors: SingularVectors, side: str) -> np.ndarray:
    """Mean over all points of their kernel columns times the coefficients of a side, (r,)."""
    X, columns = (pairs.X, basis.at.source) if side == "source" else (pairs.Z, basis.at.target)
    coefficients = getattr(vectors, side)
    zero = np.zeros(coefficients.shape[1])
    return blocks.map_rows(X, lambda b: blocks.features(b, columns, coefficients, zero), len(zero), None).mean(0)


def scored(block: Block, function: Callable[[Block], np.ndarray], values: np.ndarray) -> np.ndarray:
    """Singular vectors of a block of rows times the singular values."""
    found = function(block)
    found *= values
    return found


def checked(model: Any, points: Any, side: str) -> Any:
    """New points of a side; of a data matrix rows or columns, brought to the space of both."""
    compat = getattr(model, "_compat", None)
    if compat is None:
        return check_rows(model, points)
    if side == "source":
        return compat.of_rows(check_rows(model, points))
    wanted = model.shape_[0]
    if points.ndim != 2 or points.shape[1] != wanted:
        raise InputError(f"New columns of the data matrix have shape {points.shape}: give one in each row, {wanted} "
                         "numbers.")  # fmt: skip
    return compat.of_columns(points)


METHODS = ("orthonormal", "scaled")
SOLVERS = ("auto", "dense", "arpack", "iterated")


def check_parameters(model: Any) -> None:
    """Refuse parameters of `KSVD` that are none, before any work."""
    for name, value, allowed in (("method", model.method, METHODS), ("solver", model.solver, SOLVERS)):
        if value not in allowed:
            raise InputError(f"{name}={value!r} must be one of {', '.join(allowed)}.")
    for name, least in (("n_components", 1), ("n_probes", 0), ("max_iter", 1)):
        if not isinstance(getattr(model, name), int | np.integer) or getattr(model, name) < least:
            raise InputError(f"{name}={getattr(model, name)!r} must be a whole number, {least} or more.")
    if model.tol is not None and not 0 < model.tol < 1:
        raise InputError(f"tol={model.tol!r} must be a number between 0 and 1.")
    if model.tol is not None and model.n_landmarks is not None and model.n_probes < 2:
        raise InputError("tol on landmarks needs an estimated error: set n_probes to 2 or more.")


def counts(n_landmarks: Any, given: Any, pairs: Pairs) -> tuple[int, int]:
    """Row and column landmarks, each at most as many as there are points."""
    if not isinstance(given, str):
        return len(given[0]), len(given[1])
    if isinstance(n_landmarks, str) and n_landmarks == "auto":
        return min(1000, pairs.n), min(1000, pairs.m)
    found = np.atleast_1d(n_landmarks)
    n, m = (found[0], found[0]) if len(found) == 1 else found
    if len(found) > 2 or found.dtype.kind not in "iu" or min(n, m) < 1:
        raise InputError(f"n_landmarks={n_landmarks!r} must be a whole number above 0, or two: of rows and of columns.")
    for name, count, points in (("row", n, pairs.n), ("column", m, pairs.m)):
        if count > points:
            raise InputError(f"{count} {name} landmarks are more than the {points} points: use {points} or fewer.")
    return int(n), int(m)


@dataclass(frozen=True)
class Chosen:
    """Row and column numbers: landmarks, then probes, then more that only the core is fitted to.

    Attributes
    ----------
    rows, columns : int64 arrays
        One object where X and Z are and both sides are alike.
    n_landmarks : (int, int)
    in_pass : (int, int)
        Landmarks and probes of each side: these go along in the passes over the data.
    """

    rows: np.ndarray
    columns: np.ndarray
    n_landmarks: tuple[int, int]
    in_pass: tuple[int, int]

    def places(self, side: int, count: int) -> np.ndarray:
        """Where a choice of the first `count` landmarks of a side has its points: its probes, and as many more in
        proportion."""
        n, seen, size = self.n_landmarks[side], self.in_pass[side], len((self.rows, self.columns)[side])
        return np.r_[:count, n:seen, seen : seen + (size - seen) * count // n]

    def fitted(self, core: np.ndarray) -> np.ndarray:
        """The core without the probes, which are to judge it."""
        kept = [
            np.r_[:landmarks, seen:size]
            for landmarks, seen, size in zip(self.n_landmarks, self.in_pass, core.shape, strict=True)
        ]
        return core[np.ix_(*kept)]

    def judge(self, core: np.ndarray) -> Judge | None:
        """The core at the probes, if there are any."""
        (n, m), (rows, columns) = self.n_landmarks, self.in_pass
        if rows == n or columns == m:
            return None
        return Judge(core[n:rows, :m], core[:n, m:columns], core[n:rows, m:columns])

    def probed(self, core: np.ndarray) -> np.ndarray:
        """The core at landmarks and probes."""
        return core[: self.in_pass[0], : self.in_pass[1]]


@dataclass(frozen=True)
class Sampled:
    """What is known of the kernel matrix after one pass over X and one over Z: enough for its singular vectors.

    Attributes
    ----------
    core : (n', m') array
        The kernel at all chosen rows and columns.
    C, R : Gram
        Of the columns and rows that went along in the passes.
    """

    chosen: Chosen
    core: np.ndarray
    C: Gram
    R: Gram

    def first(self, n: int, m: int) -> "Sampled":
        """What fewer landmarks would have given, of an order whose prefixes are choices themselves."""
        c = self.chosen
        rows, columns = c.places(0, n), c.places(1, m)
        in_pass = (n + c.in_pass[0] - c.n_landmarks[0], m + c.in_pass[1] - c.n_landmarks[1])
        chosen = Chosen(c.rows[rows], c.columns[columns], (n, m), in_pass)
        C, R = self.C.at(columns[: in_pass[1]]), self.R.at(rows[: in_pass[0]])
        return Sampled(chosen, self.core[np.ix_(rows, columns)], C, R)

    def vectors(self, method: str, n_components: int, center: bool, rcond: float) -> SingularVectors:
        """By eq. (9), "scaled", or "orthonormal"."""
        n, m = self.chosen.n_landmarks
        at = self.C.at(slice(m)), self.R.at(slice(n))
        if method == "scaled":
            return scaled(self.core[:n, :m], *at, n_components, center, rcond)
        squared = np.sqrt(rcond)  # what Grams, which hold squares, can resolve
        maps = nystrom.fitted_map(self.chosen.fitted(self.core), n, m, squared, self.chosen.judge(self.core))
        return orthonormal(maps, *at, n_components, center, squared)

    def error(self, vectors: SingularVectors, center: bool) -> Error | None:
        """Estimated from the probes; of a side whose points all are landmarks it is exact. None where all of both are,
        or where one has neither that nor two probes."""
        (n, m), (rows, columns) = self.chosen.n_landmarks, self.chosen.in_pass
        complete = n == self.C.count, m == self.R.count
        if all(complete) or not (complete[0] or rows - n > 1) or not (complete[1] or columns - m > 1):
            return None
        return estimated_error(vectors, self.chosen.probed(self.core), self.C, self.R, center)


def choose(how: Any, pairs: Pairs, n_landmarks: tuple[int, int], n_probes: int, oversampling: Any, seed: int) -> Chosen:
    """Landmarks as asked for, then others as far as there are any; one array where both sides may be alike."""
    if not (oversampling == "auto" or (isinstance(oversampling, int | np.integer) and oversampling >= 0)):
        raise InputError(f"oversampling={oversampling!r} must be 'auto' or a whole number, 0 or more.")
    one = isinstance(how, str) and how in landmarks.BY_POINTS and pairs.same and n_landmarks[0] == n_landmarks[1]
    if isinstance(how, str):
        how = landmarks.choose(how, pairs.X, pairs.Z, pairs.kernel, n_landmarks, seed, same=one, take=blocks.take_rows)
    sides = []
    for k, (given, points) in enumerate(zip(how[:1] if one else how, (pairs.n, pairs.m), strict=False)):
        more = n_probes + (len(given) if isinstance(oversampling, str) else oversampling)
        sides.append(_completed(np.asarray(given, np.int64), points, more, seed + k))
    rows, columns = sides[0], sides[-1]
    in_pass = [min(count + n_probes, len(side)) for count, side in zip(n_landmarks, (rows, columns), strict=True)]
    return Chosen(rows, columns, n_landmarks, (in_pass[0], in_pass[1]))


def _completed(given: np.ndarray, points: int, more: int, seed: int) -> np.ndarray:
    """Landmarks followed by others, drawn uniformly among the rest."""
    if given.ndim != 1 or not len(given) or given.min() < 0 or given.max() >= points:
        raise InputError(f"landmarks must be two arrays of row numbers, here from 0 to {points - 1}.")
    if not more:
        return given
    drawn = landmarks.uniform(points, min(points, len(given) + more), seed)
    return np.concatenate([given, drawn[~np.isin(drawn, given)][:more]])

"""Learned compatibility (a3): the matrix that brings rows and columns together, by gradient descent on a loss.

The paper's (Tao, Tonin et al., Learning in Feature Spaces via Coupled Covariances, appendix C.3): the compatibility
matrix is a parameter of G = k(X, Z), learned on a downstream loss of the features G V, with V fixed in a gradient step
and recomputed in turn. Ours: the start is a0 or a1; the loss is the squared one of a ridge regression (an LS-SVM for
classes), whose solution has a closed form and follows each step; the steps are those of L-BFGS. The start, the ridge
and the number of rounds (0 is the start itself) are those of least loss on rows left out in turn: on small data the
loss of the rows themselves goes on falling when that of new ones has long risen.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.utils.multiclass import type_of_target

from ask_dask import blocks, budget
from ask_dask.errors import BudgetError, InputError
from ask_dask.estimators.compat import Compatibility, Linear, compatible
from ask_dask.kernels import Kernel
from ask_dask.kernels.gradients import gradients, require_gradient

ROUNDS, STEPS = 6, 5
"""Times V is recomputed at most, and gradient steps between."""

FOLDS = 5
"""Of the rows, which choose the start, the ridge and the number of rounds."""

RIDGES = (1e-3, 1e-1)
"""Of the linear model, relative to the mean square of the first feature."""

COPIES = 40
"""Arrays as large as the data matrix at work: the memory of L-BFGS, the kernel matrix, its gradient and its SVD."""


@dataclass(frozen=True)
class Problem:
    """The data matrix (N, M), the linear model's outputs (N, q), and how the kernel matrix is decomposed."""

    A: np.ndarray
    Y: np.ndarray
    kernel: Kernel
    n_components: int
    center: bool
    ridge: float = RIDGES[0]

    def points(self, C: Linear) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns in one space."""
        return C.of_rows(self.A), C.of_columns(self.A.T)

    def vectors(self, C: Linear) -> tuple[np.ndarray, float]:
        """V (M, r) of the kernel matrix, and the ridge of the linear model, which is fixed as long as V is."""
        K = self.kernel(*self.points(C))
        if self.center:
            K = K - K.mean(0) - K.mean(1)[:, None] + K.mean()
        _, s, Vt = np.linalg.svd(K, full_matrices=False)
        return Vt[: self.n_components].T, self.ridge * float(s[0] ** 2) / len(K)

    def loss(self, C: Linear, V: np.ndarray, ridge: float) -> tuple[float, np.ndarray]:
        """Least loss of a linear model on K V, and its gradient with regard to C's matrix, V fixed.

        The linear model is the best one, so that its own change adds nothing to the gradient.
        """
        X, Z = self.points(C)
        K = self.kernel(X, Z)
        loss, dF = ridge_loss(K @ V, self.Y, ridge)
        dX, dZ = gradients(self.kernel, X, Z, K, dF @ V.T)
        return loss, self.A.T @ dX if C.rows is not None else self.A @ dZ

    def squares(self, C: Linear, A: np.ndarray, Y: np.ndarray) -> float:
        """Sum of the squared errors on other rows of the linear model of these, with the V that belongs to C."""
        (X, Z), (V, ridge) = self.points(C), self.vectors(C)
        F = self.kernel(X, Z) @ V
        w = ridge_solution(F, self.Y, ridge)
        new = (self.kernel(C.of_rows(A), Z) @ V - F.mean(0)) @ w + self.Y.mean(0)
        return float(((new - Y) ** 2).sum())

    def starts(self) -> list[Linear]:
        """a0 and a1."""
        found = (compatible(self.A, how, None, 0)[2] for how in ("pinv", "pca"))
        return [C for C in found if isinstance(C, Linear)]


def ridge_solution(F: np.ndarray, Y: np.ndarray, ridge: float) -> np.ndarray:
    """The least w (r, q) that minimises |F w + b - Y|^2 / n + ridge |w|^2.

    Of rows and columns far apart the kernel, and so the ridge, may be next to nothing, and the system singular.
    """
    n, centred = len(F), F - F.mean(0)
    gram = centred.T @ centred / n + ridge * np.eye(F.shape[1])
    return np.linalg.lstsq(gram, centred.T @ (Y - Y.mean(0)) / n, rcond=None)[0]


def ridge_loss(F: np.ndarray, Y: np.ndarray, ridge: float) -> tuple[float, np.ndarray]:
    """min over w, b of |F w + b - Y|^2 / n + ridge |w|^2, and its gradient with regard to F (n, r).

    >>> ridge_loss(np.array([[1.0], [-1.0]]), np.array([[1.0], [-1.0]]), 1.0)
    (0.5, array([[-0.25],
           [ 0.25]]))
    """
    n, w = len(F), ridge_solution(F, Y, ridge)
    residual = (F - F.mean(0)) @ w - (Y - Y.mean(0))
    return float((residual**2).sum() / n + ridge * (w**2).sum()), 2 / n * residual @ w.T


def learned(A: Any, y: Any, kernel: Kernel, n_components: int, center: bool, memory: int
            ) -> tuple[np.ndarray, np.ndarray, Compatibility, list[float]]:  # fmt: skip
    """Rows and columns of a data matrix as points of one space, how new ones become so, and the losses.

    Parameters
    ----------
    A : (N, M) numpy, scipy.sparse, dask or zarr
        Taken into memory.
    y : (N,) class labels or real values
    kernel : RBF or SNE
    memory : int
        Bytes.

    Returns
    -------
    (N, d) and (M, d) float64, d = min(N, M); Linear; losses on rows left out, the first of the start.

    Raises
    ------
    InputError
        No y or one that is not of the rows, a kernel without a gradient.
    BudgetError
        The data matrix is too large.
    """
    n, m = A.shape
    require_gradient(kernel)
    Y = targets(y, n)
    need = 8 * (COPIES * n * m + 2 * max(n, m) * min(n, m))
    if need > memory:
        raise BudgetError(
            f"compat='learned' of a {n} x {m} data matrix needs {budget.size(need)} and the budget is "
            f"{budget.size(memory)}: give fewer rows or columns, or use compat='random' with compat_dim."
        )
    A = blocks.take_rows(A, np.arange(n))
    A = np.asarray(A.toarray() if sp.issparse(A) else A, np.float64)
    if not np.isfinite(A).all():
        raise InputError("The data matrix has NaN or infinity: fill them or leave those rows out.")
    problem = Problem(A, Y, kernel, n_components, center)
    losses = held_out(problem)
    way, rounds = np.unravel_index(losses.argmin(), losses.shape)
    *_, C = islice(descent(*list(ways(problem))[way]), int(rounds) + 1)
    return C.of_rows(A), C.of_columns(np.ascontiguousarray(A.T)), C, losses[way].tolist()


def ways(problem: Problem) -> Iterator[tuple[Problem, Linear]]:
    """With each ridge from each start."""
    return ((replace(problem, ridge=ridge), start) for start in problem.starts() for ridge in RIDGES)


def held_out(problem: Problem) -> np.ndarray:
    """Mean squared error of rows left out in turn, (ways, 1 + ROUNDS), before the first round and after each."""
    n, folds = len(problem.A), min(FOLDS, len(problem.A))
    places = np.random.default_rng(0).permutation(n) % folds
    found = np.zeros((2 * len(RIDGES), 1 + ROUNDS))
    for fold in range(folds):
        inside, A, Y = places != fold, problem.A[places == fold], problem.Y[places == fold]
        part = replace(problem, A=problem.A[inside], Y=problem.Y[inside])
        for k, (way, start) in enumerate(ways(part)):
            found[k] += [way.squares(C, A, Y) for C in islice(descent(way, start), 1 + ROUNDS)]
    return found / n


def descent(problem: Problem, start: Linear) -> Iterator[Linear]:
    """The start, then the matrix after each round of finding V and steps along the gradient."""
    C = start
    while True:
        yield C
        V, ridge = problem.vectors(C)
        C = _stepped(C, partial(problem.loss, V=V, ridge=ridge))


def _stepped(C: Linear, loss: Callable[[Linear], tuple[float, np.ndarray]]) -> Linear:
    matrix = C.columns if C.rows is None else C.rows
    assert matrix is not None

    def of(flat: np.ndarray) -> Linear:
        changed = flat.reshape(matrix.shape)
        return Linear(columns=changed) if C.rows is None else Linear(rows=changed)

    def both(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = loss(of(flat))
        return value, gradient.ravel()

    return of(minimize(both, matrix.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x)


def targets(y: Any, n: int) -> np.ndarray:
    """(n, q) float64 of mean square near 1: +1 and -1 for each class (one column for two), or standardised values.

    >>> targets(["a", "b", "a"], 3).tolist()
    [[-1.0], [1.0], [-1.0]]
    """
    if y is None:
        raise InputError("compat='learned' needs labels or values of the rows: give y, or use another compat.")
    y = np.asarray(y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != (n,):
        raise InputError(f"y has shape {y.shape} and the data matrix {n} rows: give one label or value for each row.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise InputError("y has NaN or infinity: fill them or leave those rows out.")
    classes = np.unique(y)
    if len(classes) < 2:
        raise InputError("y has one value only, from which nothing is learned: give rows that differ in it.")
    if type_of_target(y).startswith("continuous"):
        return (y[:, None] - y.mean()) / y.std()
    return np.where(y[:, None] == (classes if len(classes) > 2 else classes[1:]), 1.0, -1.0)

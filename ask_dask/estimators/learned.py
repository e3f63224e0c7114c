"""Learned compatibility (a3): the matrix that brings rows and columns together, by gradient descent on a loss.

The paper's (Tao, Tonin et al., Learning in Feature Spaces via Coupled Covariances, appendix C.3): the compatibility
matrix is a parameter of G = k(X, Z), learned on a downstream loss of the features G V, with V fixed in a gradient step
and recomputed in turn. Ours: the start is a0 or a1, whichever has the smaller loss; the loss is the squared one of a
ridge regression (an LS-SVM for classes), whose solution has a closed form and follows each step; the steps are those of
L-BFGS; the best round is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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

ROUNDS, STEPS = 10, 10
"""Times V is recomputed, and gradient steps between."""

RIDGE = 1e-3
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

    def points(self, C: Linear) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns in one space."""
        return C.of_rows(self.A), C.of_columns(self.A.T)

    def vectors(self, C: Linear) -> tuple[np.ndarray, float]:
        """V (M, r) of the kernel matrix, and the ridge of the linear model, which is fixed as long as V is."""
        K = self.kernel(*self.points(C))
        if self.center:
            K = K - K.mean(0) - K.mean(1)[:, None] + K.mean()
        _, s, Vt = np.linalg.svd(K, full_matrices=False)
        return Vt[: self.n_components].T, RIDGE * max(float(s[0] ** 2), np.finfo(float).tiny) / len(K)

    def loss(self, C: Linear, V: np.ndarray, ridge: float) -> tuple[float, np.ndarray]:
        """Least loss of a linear model on K V, and its gradient with regard to C's matrix, V fixed.

        The linear model is the best one, so that its own change adds nothing to the gradient.
        """
        X, Z = self.points(C)
        K = self.kernel(X, Z)
        loss, dF = ridge_loss(K @ V, self.Y, ridge)
        dX, dZ = gradients(self.kernel, X, Z, K, dF @ V.T)
        return loss, self.A.T @ dX if C.rows is not None else self.A @ dZ

    def own_loss(self, C: Any) -> float:
        """The loss with the V that belongs to C."""
        return self.loss(C, *self.vectors(C))[0]


def ridge_loss(F: np.ndarray, Y: np.ndarray, ridge: float) -> tuple[float, np.ndarray]:
    """min over w, b of |F w + b - Y|^2 / n + ridge |w|^2, and its gradient with regard to F (n, r).

    >>> ridge_loss(np.array([[1.0], [-1.0]]), np.array([[1.0], [-1.0]]), 1.0)
    (0.5, array([[-0.25],
           [ 0.25]]))
    """
    n, centred = len(F), F - F.mean(0)
    w = np.linalg.solve(centred.T @ centred / n + ridge * np.eye(F.shape[1]), centred.T @ (Y - Y.mean(0)) / n)
    residual = centred @ w - (Y - Y.mean(0))
    return float((residual**2).sum() / n + ridge * (w**2).sum()), 2 / n * residual @ w.T


def learned(A: Any, y: Any, kernel: Kernel, n_components: int, center: bool, memory: int
            ) -> tuple[np.ndarray, np.ndarray, Compatibility, list[float]]:  # fmt: skip
    """Rows and columns of a data matrix as points of one space, how new ones become so, and the loss of each round.

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
    (N, d) and (M, d) float64, d = min(N, M); Linear; losses, each of its own V, the first of the start.

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
    starts = [C for how in ("pinv", "pca") if isinstance(C := compatible(A, how, None, 0)[2], Linear)]
    C, losses = descend(problem, min(starts, key=problem.own_loss))
    return C.of_rows(A), C.of_columns(np.ascontiguousarray(A.T)), C, losses


def descend(problem: Problem, start: Linear) -> tuple[Linear, list[float]]:
    """Alternate between V and gradient steps; the best of the rounds, each judged with its own V."""
    C, best, losses = start, start, [problem.own_loss(start)]
    for _ in range(ROUNDS):
        V, ridge = problem.vectors(C)
        C = _stepped(C, partial(problem.loss, V=V, ridge=ridge))
        losses.append(problem.own_loss(C))
        if losses[-1] == min(losses):
            best = C
    return best, losses


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

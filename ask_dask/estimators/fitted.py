"""The fit that all methods on landmarks share, whatever is learned."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ask_dask import blocks, compute
from ask_dask.basis import Basis
from ask_dask.estimators.inputs import check_rows, check_seed, check_size, check_weights, choose_landmarks, in_memory
from ask_dask.estimators.parameters import WithKernel
from ask_dask.estimators.saved import save
from ask_dask.fit import selection
from ask_dask.fit.folds import check_folds, check_scored, check_weight_of_folds
from ask_dask.fit.outputs import Outputs, Task
from ask_dask.fit.plan import check_label_memory
from ask_dask.fit.problem import Problem
from ask_dask.fit.solved import Solved
from ask_dask.kernels import Kernel
from ask_dask.solve import Solve


class LandmarkEstimator(WithKernel):
    """An estimator that is solved on landmarks: what differs among methods is left to them.

    A method has the parameters kernel, n_landmarks, landmarks, cv, checkpoint, memory and random_state. It gives its
    labels as `Outputs`, its `Solve`, its engine, and what it chooses by and keeps.
    """

    exact = False
    """The whole kernel matrix is solved, with every row a landmark."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    parameter: str
    """The parameter that the method's grid has values of."""
    kept: tuple[str, ...] = ()
    """Attributes that a store keeps beside those of every estimator: JSON values, arrays, and objects of
    `stored.OBJECTS`."""
    max_scored_rows: int = 1_000_000
    """Most rows that are scored one by one when held out."""

    @property
    def _cv(self) -> Any:
        """The folds, as `check_folds` takes them."""
        return self.cv

    @abstractmethod
    def _check_y(self, y: Any, n_rows: int) -> Outputs:
        """Return the labels as outputs, and set what the estimator keeps of them."""

    @abstractmethod
    def _method(self, outputs: Outputs) -> Solve:
        """Return the method with its grid, after checking the parameters."""

    @abstractmethod
    def _default_kernel(self, points: Any) -> Kernel:
        """Return the kernel where none is given, from the landmarks."""

    @abstractmethod
    def _plan(self, fit: "Fit") -> Any:
        """Raise BudgetError when a fit does not fit the memory, and return the engine's name."""

    @abstractmethod
    def _solved(self, engine: Any, problem: Problem, counts: Sequence[int], apart: bool) -> Solved:
        """Return the models of all training sets."""

    @abstractmethod
    def _select(self, solved: Solved, problem: Problem) -> int:
        """Choose a pair, and keep what led to it: the scores of every pair on held-out rows, if there are folds."""

    @abstractmethod
    def _keep(self, solved: Solved, pair: int, basis: Basis) -> None:
        """Keep the solution of the pair that was chosen."""

    @abstractmethod
    def block_outputs(self, block: Any) -> dict[str, np.ndarray]:
        """Return what a store of predictions keeps of a block of rows, (n, k) each."""

    @property
    @abstractmethod
    def output_widths(self) -> dict[str, int]:
        """The columns k of each of `block_outputs`."""

    def _shaped(self, kernel: Kernel) -> Kernel:
        """Return the kernel that a given one is turned into."""
        return kernel

    def _class_weights(self, y: Any) -> np.ndarray | None:
        """Return the weights (N,) of the rows by their class."""
        return None

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        X = check_rows(self, X, reset=True)
        check_label_memory(self, X.shape[0], y, sample_weight)
        outputs = self._check_y(y, X.shape[0])
        if outputs.task == "regression":
            check_size(outputs.y, X.dtype)
        self.task_: Task = outputs.task
        self.n_outputs_ = outputs.q
        method = self._method(outputs)
        self.seed_ = check_seed(self.random_state)
        folds, n_folds = check_folds(self._cv, X.shape[0], outputs.codes, self.seed_, in_memory(groups, "groups"))
        weights = check_weights(sample_weight, self._class_weights(y), X.shape[0])
        rows, columns, counts = choose_landmarks(
            self.landmarks, self.n_landmarks, X, self.kernel, outputs.codes, self.seed_
        )
        n_folds = 0 if self._cv is None else n_folds
        check_weight_of_folds(weights, folds, n_folds)
        apart, unlike_new = self._held_out_rows(X.shape[0], rows, columns, counts, outputs.codes, weights.fit)
        scored = selection.sampled_rows(X.shape[0], self.max_scored_rows, self.seed_, unlike_new)
        if n_folds:
            check_scored(scored, folds, weights)
        engine = self._plan(Fit(X, outputs, method, counts, n_folds))
        self.steps_: list[dict[str, Any]] = []
        with compute.measured(self.steps_, "landmarks"):
            X, basis = self._place(X, rows, columns)
        problem = Problem(
            X, basis, outputs, weights, folds, n_folds, method, self.seed_, (rows, columns), scored, unlike_new,
            self.steps_,
        )  # fmt: skip
        found = self._solved(engine, problem, counts, apart and n_folds > 0)
        chosen = self._select(found, problem)
        n = found.pairs[chosen][0]
        self.n_landmarks_, self.row_landmarks_, self.column_landmarks_ = n, rows[:n], columns[:n]
        self._bind(basis)
        self._keep(found, chosen, basis)
        self._finish(found, problem)
        found.finished()
        return self

    def _finish(self, solved: Solved, problem: Problem) -> None:
        """Do what comes after everything is kept."""

    def _held_out_rows(
        self,
        n_rows: int,
        rows: np.ndarray,
        columns: np.ndarray,
        counts: tuple[int, ...],
        codes: np.ndarray | None,
        weight: np.ndarray | None,
    ) -> tuple[bool, np.ndarray | None]:
        """Return whether each fold needs landmarks and normalisers of its own, and the rows that are not scored.

        A held-out row must be like a new one: neither a landmark nor a target that its own kernel is normalised over.
        Where a kernel has no normaliser and every row is a landmark, a row without its label is like a new one. Where
        landmarks are most of the rows, of a class or of the weight, the others cannot stand for all.
        """
        relative = self.kernel is None or self._shaped(self.kernel).relative
        if (self.exact or counts[0] == n_rows) and not relative:
            return False, None
        landmarks = np.union1d(rows, columns)
        most = 2 * len(landmarks) > n_rows
        if weight is not None:
            most = most or 2 * weight[landmarks].sum() > weight.sum()
        if codes is not None:
            taken = np.bincount(codes[landmarks])
            most = most or any(2 * count > (codes == code).sum() for code, count in enumerate(taken) if count)
        apart = self.exact or most
        return apart, None if apart else landmarks

    def _place(self, X: Any, rows: np.ndarray, columns: np.ndarray) -> tuple[Any, Basis]:
        """The kernel at the landmarks; of an exact fit X is then in memory, since every row is one."""
        row_points = blocks.take_rows(X, rows)
        column_points = row_points if columns is rows else blocks.take_rows(X, columns)
        blocks.require_finite(row_points, rows)
        if self.exact:  # rounded entries would be amplified where the regularisation is weak
            row_points = column_points = row_points.astype(np.float64, copy=False)
        kernel = self._shaped(self.kernel if self.kernel is not None else self._default_kernel(row_points))
        X = row_points if self.exact else X
        return X, Basis.of(kernel, X, row_points, column_points)

    def _bind(self, basis: Basis) -> None:
        self.basis_, self.kernel_ = basis, basis.kernel
        self._at = basis.at.prefix(self.n_landmarks_)

    def save(self, path: str | Path, overwrite: bool = False, **facts: Any) -> None:
        """Write a model store; `ask_dask.load` reads it. Facts (JSON values) are kept in its attributes."""
        save(self, path, overwrite, facts)


@dataclass(frozen=True)
class Fit:
    """A fit as the plan of its memory and time sees it."""

    X: Any
    outputs: Outputs
    method: Solve
    counts: tuple[int, ...]
    n_folds: int

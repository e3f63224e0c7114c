"""The step that fits: a dataset store in, a model store out."""

import logging
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import zarr
from cyclopts import Group, Parameter
from pydantic import Field

from ask_dask import store
from ask_dask.errors import InputError
from ask_dask.steps.fitting import Fitting
from ask_dask.steps.options import List, Seed

if TYPE_CHECKING:  # most commands need none, which take half of the time that a command takes to load
    from ask_dask.estimators import AsKLSClassifier, AsKLSRegressor

log = logging.getLogger("ask_dask")

OfChoice = Parameter(group=Group("What is learned, and what is chosen on held-out rows", sort_key=2))
OfLandmarks = Parameter(group=Group("Landmarks", sort_key=3))
OfExact = Parameter(group=Group("Exact solution", sort_key=4))
OfSolver = Parameter(group=Group("Solver", sort_key=5))


class Fit(Fitting):
    """A dataset store -> an AsK-LS model: gamma and landmark count chosen on held-out rows."""

    title: ClassVar[str] = "fit"
    do: Annotated[Literal["fit"], Parameter(show=False, parse=False)] = "fit"
    method: Annotated[Literal["askls"], Parameter(show=False, parse=False)] = "askls"
    task: Annotated[
        Literal["classification", "regression"] | None,
        OfChoice,
        Field(description="Default: regression of labels that are real numbers, else classification."),
    ] = None
    gamma: Annotated[list[float], *List, OfChoice, Field(description="Weights of the squared errors, with commas.")] = [
        1.0,
        10.0,
        100.0,
        1000.0,
    ]
    merge: Annotated[
        Literal["stack", "balanced", "mean", "source", "target"],
        OfChoice,
        Field(description="The score from f_s and f_t; balanced: stacked with classes of equal weight."),
    ] = "stack"
    scoring: Annotated[
        Literal["auroc", "log_loss", "accuracy", "f1_micro", "f1_macro", "r2", "rmse", "mae"] | None,
        OfChoice,
        Field(description="What chooses; default: auroc, or r2 of a regression."),
    ] = None
    cv: Annotated[int, OfChoice, Field(ge=2, description="Cross-validation folds.")] = 5
    class_weight: Annotated[
        Literal["balanced"] | None,
        OfChoice,
        Field(description="Weigh each class by the inverse of its frequency."),
    ] = None
    max_scored_rows: Annotated[int, OfChoice, Field(ge=1, description="Most rows that held-out scores use.")] = (
        1_000_000
    )
    n_landmarks: Annotated[
        list[int], *List, OfLandmarks, Field(description="Landmark counts to choose from, with commas.")
    ] = [1000]
    landmarks: Annotated[
        Literal["uniform", "stratified", "kmeans", "leverage", "cross", "greedy", "coverage"],
        OfLandmarks,
        Field(description="How landmarks are chosen; coverage is of a graph."),
    ] = "uniform"
    ridge: Annotated[
        float, OfLandmarks, Field(ge=0, description="Ridge of the primal; from 1 on no resonance exists.")
    ] = 0.0
    damping: Annotated[
        float, OfLandmarks, Field(ge=0, description="Tikhonov damping, of landmarks or exact; cures a resonance.")
    ] = 0.0
    compare_exact: Annotated[
        bool,
        Parameter(negative=""),
        OfLandmarks,
        Field(description="Also solve exactly, and report the error of f on landmarks."),
    ] = False
    exact: Annotated[
        bool, Parameter(negative=""), OfExact, Field(description="Solve on all rows; --n-landmarks is not used.")
    ] = False
    solver: Annotated[
        Literal["auto", "direct", "minres"],
        OfSolver,
        Field(description="Decompose (moments; exact: the kernel matrix) or iterate; auto: what fits and is faster."),
    ] = "auto"
    tol: Annotated[float, OfSolver, Field(gt=0, lt=1, description="minres: relative residual to reach.")] = 1e-8
    max_iter: Annotated[int, OfSolver, Field(ge=1, description="minres: most iterations.")] = 1000
    preconditioner: Annotated[
        int | None,
        OfSolver,
        Field(ge=0, description="minres: rows that precondition, default 3 a landmark; exact: landmarks, at most 500."),
    ] = None
    seed: Seed = 0

    def _estimator(self, data: zarr.Group) -> "AsKLSClassifier | AsKLSRegressor":
        from ask_dask.estimators import AsKLSClassifier, AsKLSRegressor

        regression = self._is_regression(store.array(data, "y"))
        more: dict[str, Any] = {} if regression else {"class_weight": self.class_weight}
        return (AsKLSRegressor if regression else AsKLSClassifier)(
            kernel=self.make_kernel(data),
            gamma=self.gamma,
            n_landmarks=None if self.exact else self.n_landmarks,
            cv=self.cv,
            preconditioner="auto" if self.preconditioner is None else self.preconditioner,
            landmarks=self.landmarks,
            checkpoint=store.checkpoint_of(self.to),
            memory=self.memory,
            random_state=self.seed,
            **{name: getattr(self, name) for name in SAME},
            **more,
        )

    def _is_regression(self, y: zarr.Array) -> bool:
        """What is learned; refuses options and labels that do not go with it."""
        regression = self.task == "regression" or (self.task is None and y.dtype.kind == "f")
        for wrong, says in (
            (self.class_weight and regression, "--class-weight is of classes, and this is a regression: leave it out."),
            (self.compare_exact and self.exact,
             "--compare-exact is of landmarks, and --exact has none: leave one of them out."),
            (not regression and y.ndim == 2 and not _is_binary(y),
             f"The label columns of {self.data} are not all 0 or 1: for numbers give --task regression, for classes "
             "ingest one label column."),
        ):  # fmt: skip
            if wrong:
                raise InputError(says)
        return regression


def _is_binary(y: zarr.Array) -> bool:
    """Whether all labels are 0 or 1; read a shard at a time, since nobody has said yet that they fit the memory."""
    step = (y.shards or y.chunks)[0]
    blocks = (store.read(y, start, start + step) for start in range(0, y.shape[0], step))
    return y.dtype.kind in "biuf" and all(np.isin(block, (0, 1)).all() for block in blocks)


SAME = (
    "symmetrise", "solver", "merge", "scoring", "ridge", "damping", "tol", "max_iter", "compare_exact",
    "max_scored_rows",
)  # fmt: skip
"""Options that are parameters of the estimators by the same name."""

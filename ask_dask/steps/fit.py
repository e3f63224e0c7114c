"""The step that fits: a dataset store in, a model store out."""

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import zarr
from cyclopts import Parameter
from pydantic import Field

from ask_dask import store
from ask_dask.encode import Encoder
from ask_dask.errors import InputError
from ask_dask.estimators import AsKLSClassifier, AsKLSRegressor, model_store
from ask_dask.ingest import read_divergence, read_graph
from ask_dask.kernels import (
    RBF,
    SNE,
    ConditionalProbability,
    DirectedGraph,
    ExpNegative,
    Kernel,
    KLDivergence,
    Laplacian,
    Linear,
    LocalRBF,
    Polynomial,
    Precomputed,
    StudentT,
)
from ask_dask.steps.each import info, provenance
from ask_dask.steps.options import List, Seed, Storing

NAMES = Literal[
    "sne", "student-t", "rbf", "local-rbf", "laplacian", "linear", "polynomial", "conditional-probability", "kl",
    "kl-gaussian", "graph", "precomputed",
]  # fmt: skip


class KernelOptions(Storing):
    """Which kernel, and its parameters."""

    data: Annotated[Path, Field(description="The dataset store.")]
    kernel: Annotated[
        NAMES | None,
        Field(description="The kernel; default: graph for a graph, kl for samples, else sne. kl takes rows that are "
              "distributions, kl-gaussian rows of means and then variances."),
    ] = None  # fmt: skip
    bandwidth: Annotated[
        float | None, Field(gt=0, description="Width h in exp(-|x-z|^2/h^2); default: from the landmarks' variance.")
    ] = None
    scale: Annotated[
        float, Field(gt=0, description="The a of exp(-a KL), or what multiplies the widths of local-rbf.")
    ] = 1.0
    neighbours: Annotated[int, Field(ge=1, description="Neighbours that give a width in local-rbf.")] = 10
    normaliser: Annotated[
        Literal["landmarks", "exact"], Field(description="Normaliser of sne, student-t and conditional-probability.")
    ] = "landmarks"
    degree: Annotated[int, Field(ge=1, description="Of the polynomial kernel.")] = 3
    normalise: Annotated[
        Literal["in-degree", "out-degree", "none"], Field(description="What the weights of a graph are divided by.")
    ] = "in-degree"
    self_loops: Annotated[bool, Field(description="Add an edge from each node of a graph to itself.")] = True
    matrix: Annotated[Path | None, Field(description="The zarr array (N, N) of the precomputed kernel.")] = None
    symmetrise: Annotated[
        Literal["mean", "K'K", "KK'"] | None,
        Field(description="Use (K + K')/2, K'K or KK' instead, to see what asymmetry buys."),
    ] = None

    def make_kernel(self, data: zarr.Group) -> Kernel | None:
        """The kernel; None for the estimator's own, SNE with a bandwidth from the landmarks."""
        held = {"graph": "graph", "samples": "kl"}.get(store.about(data).get("format", ""))
        name = self.kernel or held or "sne"
        if name == "sne" and self.bandwidth is None and self.normaliser == "landmarks":
            return None
        if name in ("sne", "rbf", "laplacian") and self.bandwidth is None:
            raise InputError(f"The {name} kernel needs a bandwidth: give --bandwidth.")
        width = self.bandwidth or 0.0
        made = {
            "sne": lambda: SNE(width, self.normaliser),
            "student-t": lambda: StudentT(self.normaliser),
            "rbf": lambda: RBF(width),
            "local-rbf": lambda: LocalRBF(self.neighbours, self.scale),
            "laplacian": lambda: Laplacian(width),
            "linear": Linear,
            "polynomial": lambda: Polynomial(self.degree),
            "conditional-probability": lambda: ConditionalProbability(self.normaliser),
            "kl": lambda: self._divergence(data) if held == "kl" else KLDivergence(self.scale),
            "kl-gaussian": lambda: KLDivergence(self.scale, "gaussian"),
            "graph": lambda: self._graph(data),
            "precomputed": self._precomputed,
        }
        return made[name]()

    def _divergence(self, data: zarr.Group) -> Kernel:
        return ExpNegative(Precomputed(read_divergence(data)), self.scale)

    def _graph(self, data: zarr.Group) -> Kernel:
        return DirectedGraph(read_graph(data), self.self_loops, None if self.normalise == "none" else self.normalise)

    def _precomputed(self) -> Kernel:
        if self.matrix is None:
            raise InputError("The precomputed kernel needs its matrix: give --matrix, the path of a zarr array (N, N).")
        try:
            return Precomputed(zarr.open_array(self.matrix, mode="r"))
        except (OSError, KeyError, ValueError) as error:
            raise InputError(f"{self.matrix} is not a zarr array: give the path of one, (N, N).") from error


class Fit(KernelOptions):
    """A dataset store -> an AsK-LS model: gamma and landmark count chosen on held-out rows."""

    title: ClassVar[str] = "fit"
    do: Annotated[Literal["fit"], Parameter(show=False, parse=False)] = "fit"
    task: Annotated[
        Literal["classification", "regression"] | None,
        Field(description="Default: regression of labels that are real numbers, else classification."),
    ] = None
    gamma: Annotated[list[float], *List, Field(description="Weights of the squared errors, with commas.")] = [
        1.0, 10.0, 100.0, 1000.0]  # fmt: skip
    landmarks: Annotated[list[int], *List, Field(description="Landmark counts to choose from, with commas.")] = [1000]
    exact: Annotated[
        bool,
        Parameter(negative=""),
        Field(description="Every row a landmark, solved exactly; --landmarks is not used."),
    ] = False
    solver: Annotated[
        Literal["direct", "minres"],
        Field(description="Of an exact fit: decompose the whole kernel matrix, or iterate on its tiles, out of core."),
    ] = "direct"
    sampling: Annotated[Literal["uniform", "stratified"], Field(description="How landmarks are chosen.")] = "uniform"
    folds: Annotated[int, Field(ge=2, description="Cross-validation folds.")] = 5
    merge: Annotated[
        Literal["stack", "balanced", "mean", "source", "target"], Field(description="The score from f_s and f_t.")
    ] = "stack"
    scoring: Annotated[
        Literal["auroc", "log_loss", "accuracy", "f1_micro", "f1_macro", "r2", "rmse", "mae"] | None,
        Field(description="What chooses; default: auroc, or r2 of a regression."),
    ] = None
    class_weight: Annotated[
        Literal["balanced"] | None, Field(description="Weigh each class by the inverse of its frequency.")
    ] = None
    ridge: Annotated[float, Field(ge=0, description="Ridge of the primal; from 1 on no resonance exists.")] = 0.0
    damping: Annotated[float, Field(ge=0, description="Tikhonov damping of the saddle point.")] = 0.0
    tol: Annotated[float, Field(gt=0, lt=1, description="Relative residual that minres reaches.")] = 1e-8
    max_iter: Annotated[int, Field(ge=1, description="Most iterations of minres.")] = 1000
    preconditioner: Annotated[
        int | None, Field(ge=0, description="Landmarks that precondition minres; default: 500, or what fits.")
    ] = None
    compare_exact: Annotated[
        bool, Parameter(negative=""), Field(description="Also solve exactly, and report the error of f on landmarks.")
    ] = False
    max_scored_rows: Annotated[int, Field(ge=1, description="Most rows that held-out scores use.")] = 1_000_000
    seed: Seed = 0

    def inputs(self) -> dict[str, Any]:
        return {"data": store.about(store.open_store(self.data, "dataset"))["fingerprint"]}

    def run(self) -> dict[str, Any]:
        data = store.open_store(self.data, "dataset")
        if "y" not in data:
            raise InputError(f"{self.data} holds no labels, and fit needs them: ingest files that have a label column.")
        with store.create(self.to, "model", self.overwrite) as group:  # first, so that a place is refused at once
            model = self._estimator(data)
            weight = store.array(data, "weight") if "weight" in data else None
            model.fit(store.array(data, "X"), store.array(data, "y"), weight)
            self._write(model, data, group)
        return info(self.to) | {"steps": model.steps_}

    def _estimator(self, data: zarr.Group) -> AsKLSClassifier | AsKLSRegressor:
        continuous = store.array(data, "y").dtype.kind == "f"
        regression = self.task == "regression" or (self.task is None and continuous)
        if self.class_weight and regression:
            raise InputError("--class-weight is of classes, and these labels are real numbers: leave it out.")
        more: dict[str, Any] = {} if regression else {"class_weight": self.class_weight}
        return (AsKLSRegressor if regression else AsKLSClassifier)(
            kernel=self.make_kernel(data),
            gamma=self.gamma,
            n_landmarks=None if self.exact else self.landmarks,
            cv=self.folds,
            preconditioner="auto" if self.preconditioner is None else self.preconditioner,
            landmarks=self.sampling,
            checkpoint=self.to.with_name(f".{self.to.name}.checkpoint") if self.solver == "minres" else None,
            memory=self.memory,
            random_state=self.seed,
            **{name: getattr(self, name) for name in SAME},
            **more,
        )

    def _write(self, model: AsKLSClassifier | AsKLSRegressor, data: zarr.Group, group: zarr.Group) -> None:
        model_store.write(model, group)
        about, recipe = store.about(data), self.recipe()
        store.describe(
            group,
            # With the recipe, since the merger and the scores on held-out rows depend on it too.
            fingerprint=store.fingerprint(store.about(group)["fingerprint"], json.dumps(recipe, sort_keys=True)),
            recipe=recipe,
            data=provenance(self.data, data),
            feature_names=about.get("feature_names"),
            label_names=about.get("label_names"),
            steps=[*about.get("steps", []), *model.steps_],
        )
        if "encoder" in data:
            Encoder.load(store.subgroup(data, "encoder")).save(group.create_group("encoder"))


SAME = (
    "symmetrise", "solver", "merge", "scoring", "ridge", "damping", "tol", "max_iter", "compare_exact",
    "max_scored_rows",
)  # fmt: skip
"""Options that are parameters of the estimators by the same name."""

"""The step that embeds: a dataset store in, the singular vectors of its kernel matrix out."""

import json
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import zarr
from cyclopts import Group, Parameter
from pydantic import Field

from ask_dask import blocks, budget, compute, store
from ask_dask.errors import BudgetError, InputError
from ask_dask.sparse import rows_of
from ask_dask.steps.each import info, provenance
from ask_dask.steps.kernel import OF_NUMBERS, KernelOptions
from ask_dask.steps.options import List, Place, Seed
from ask_dask.steps.rows import require_rows

if TYPE_CHECKING:  # as in the step that fits
    from ask_dask.estimators import KSVD

OfVectors = Parameter(group=Group("Singular vectors", sort_key=2))
OfLandmarks = Parameter(group=Group("Landmarks", sort_key=3))
OfExact = Parameter(group=Group("Exact", sort_key=4))
OfMatrix = Parameter(group=Group("A data matrix", sort_key=5))


class Embed(KernelOptions):
    """A dataset store -> the singular vectors of its kernel matrix, of rows with themselves or with those of another
    store, or of rows and columns."""

    title: ClassVar[str] = "embed"
    do: Annotated[Literal["embed"], Parameter(show=False, parse=False)] = "embed"
    targets: Annotated[
        Place | None, Field(description="A dataset store whose rows are the targets; default: those of --data.")
    ] = None
    n_components: Annotated[int, OfVectors, Field(ge=1, description="Singular vectors.")] = 10
    center: Annotated[bool, Parameter(negative=""), OfVectors, Field(description="Centre the kernel matrix.")] = False
    tol: Annotated[
        float | None,
        OfVectors,
        Field(gt=0, lt=1, description="Estimated error up to which landmarks are added; exact: residual to reach."),
    ] = None
    n_landmarks: Annotated[
        list[int] | None,
        *List,
        OfLandmarks,
        Field(min_length=1, max_length=2, description="How many, or of rows,columns; default: 1000, or every row."),
    ] = None
    landmarks: Annotated[
        Literal["uniform", "kmeans", "leverage", "cross", "greedy", "coverage"],
        OfLandmarks,
        Field(description="How landmarks are chosen."),
    ] = "uniform"
    method: Annotated[
        Literal["orthonormal", "scaled"],
        OfLandmarks,
        Field(description="The decomposition of the approximation, or the paper's scaled vectors."),
    ] = "orthonormal"
    compare_exact: Annotated[
        bool,
        Parameter(negative=""),
        OfLandmarks,
        Field(description="Also decompose exactly, and report eta and the largest principal angles."),
    ] = False
    exact: Annotated[
        bool, Parameter(negative=""), OfExact, Field(description="Use all rows; --n-landmarks is not used.")
    ] = False
    solver: Annotated[
        Literal["auto", "dense", "arpack", "iterated"],
        OfExact,
        Field(description="How all rows are decomposed; auto: by their number, the kernel and the memory."),
    ] = "auto"
    max_iter: Annotated[int, OfExact, Field(ge=1, description="arpack, iterated: most iterations.")] = 200
    columns: Annotated[
        bool,
        Parameter(negative=""),
        OfMatrix,
        Field(description="Take the data as a matrix whose rows are sources and whose columns are targets."),
    ] = False
    compat: Annotated[
        Literal["pinv", "pinv_rows", "pca", "axes", "random", "learned"] | None,
        OfMatrix,
        Field(description="How rows and columns become points of one space; learned: on the labels. All need the "
              "matrix in memory but random with --compat-dim; a square one needs none."),
    ] = None  # fmt: skip
    compat_dim: Annotated[int | None, OfMatrix, Field(ge=1, description="Dimension of random projections.")] = None
    seed: Seed = 0

    def inputs(self) -> dict[str, Any]:
        found = {"data": self.data} | ({"targets": self.targets} if self.targets else {})
        prints = {name: store.about(store.open_store(path, "dataset"))["fingerprint"] for name, path in found.items()}
        return prints | self.matrix_facts()

    def run(self) -> dict[str, Any]:
        data = store.open_store(self.data, "dataset")
        self._require_roles(data)
        targets = self._targets(data)
        steps: list[dict[str, Any]] = []
        with store.create(self.to, "embedding", self.overwrite) as group:  # first, so a place is refused at once
            model = self._estimator(data)
            for rows in (data, targets):
                if rows is not None:
                    require_rows(model.kernel, rows)
            X = rows_of(data)
            with compute.measured(steps, "singular vectors"):
                X = blocks.take_rows(X, np.arange(X.shape[0])) if self._whole else X
                if self.columns:
                    model.fit(X, self._labels(data))
                else:
                    model.fit(X, Z=X if targets is None else rows_of(targets))
            with compute.measured(steps, "write"):
                self._write(model, data, targets, group)
            store.describe(group, steps=[*store.about(data).get("steps", []), *steps])
        return info(self.to) | {"steps": steps}

    def _require_roles(self, data: zarr.Group) -> None:
        if (self.compat or self.compat_dim) and not self.columns:
            raise InputError("--compat is of rows and columns of a data matrix: give --columns too, or leave it out.")
        if self.columns and self.targets:
            raise InputError("--targets is of two sets of rows, and --columns of one matrix: leave one of them out.")
        if self.compare_exact and self.exact:
            raise InputError("--compare-exact is of landmarks, and --exact has none: leave one of them out.")
        if not (self.exact or self.compare_exact):
            self._refuse_exact_options()
        if self.columns and (store.about(data).get("format") in OF_NUMBERS or self.kernel == "precomputed"):
            raise InputError(f"The rows of {self.data} are numbers of points and no data matrix: leave out --columns.")
        if self.compat_dim and self.compat != "random":
            raise InputError("--compat-dim is of --compat random: give that, or leave it out.")
        if self.columns:
            self._require_compatible(*rows_of(data).shape)

    def _refuse_exact_options(self) -> None:
        for option in ("solver", "max_iter"):
            if getattr(self, option) != type(self).model_fields[option].default:
                shown = option.replace("_", "-")
                raise InputError(
                    f"--{shown} is of the exact decomposition: give --exact or --compare-exact too, or leave it out."
                )

    def _require_compatible(self, n: int, m: int) -> None:
        """That the rows and columns of an n x m matrix can meet as asked, in the memory there is."""
        if self.compat is None and n != m:
            raise InputError(f"{self.data} is a matrix of {n} x {m}, so that its rows and columns are of different "
                             "spaces: give --compat.")  # fmt: skip
        from ask_dask.fit.plan import limit

        plan, allowed = budget.matrix_plan(n, m), limit(self.memory)
        if self._whole and plan.total > allowed:
            raise BudgetError(
                f"{self.data} is a matrix of {n} x {m}, which needs {budget.size(plan.total)} ({plan}), and the memory "
                f"budget is {budget.size(allowed)}: give --compat random with --compat-dim, or a larger --memory."
            )

    @property
    def _whole(self) -> bool:
        """Whether a data matrix is taken into memory; one that is learned on has a check of its own."""
        return self.columns and self.compat != "learned" and self.compat_dim is None

    def _targets(self, data: zarr.Group) -> zarr.Group | None:
        """The store of the targets, of rows of the same space as those of the data."""
        if self.targets is None:
            return None
        targets = store.open_store(self.targets, "dataset")
        (own, width), (other, given) = (
            (store.about(group).get("encoder_fingerprint"), rows_of(group).shape[1]) for group in (data, targets)
        )
        if own != other or width != given:
            raise InputError(
                f"{self.targets} was not made as {self.data}, so that its rows are of another space: ingest both with "
                "the same columns, nodes or items, click logs with --encoder."
            )
        return targets

    def _labels(self, data: zarr.Group) -> Any:
        if self.compat != "learned":
            return None
        if "y" not in data:
            raise InputError(f"{self.data} has no labels, on which --compat learned learns: use another --compat.")
        return store.read(store.array(data, "y"))

    def _estimator(self, data: zarr.Group) -> "KSVD":
        from ask_dask.estimators import KSVD

        return KSVD(
            kernel=self.shaped_kernel(data),
            n_components=self.n_components,
            n_landmarks=None if self.exact else tuple(self.n_landmarks) if self.n_landmarks else "auto",
            method=self.method,
            center=self.center,
            tol=self.tol,
            solver=self.solver,
            max_iter=self.max_iter,
            compare_fewer=True,
            compare_exact=self.compare_exact,
            landmarks=self.landmarks,
            compat=self.compat,
            compat_dim=self.compat_dim,
            memory=self.memory,
            random_state=self.seed,
        )

    def _write(self, model: "KSVD", data: zarr.Group, targets: zarr.Group | None, group: zarr.Group) -> None:
        from ask_dask.estimators import embedding_store

        embedding_store.write(model, group)
        for name in ("y", "id"):
            if name in data:
                _copy(store.array(data, name), group, name)
        recipe = self.recipe()
        inputs = {"data": provenance(self.data, data)}
        if targets is not None and self.targets is not None:
            inputs["targets"] = provenance(self.targets, targets)
        store.describe(
            group,
            fingerprint=store.fingerprint(store.about(group)["fingerprint"], json.dumps(recipe, sort_keys=True)),
            recipe=recipe,
            **inputs,
        )


def _copy(rows: zarr.Array, group: zarr.Group, name: str) -> None:
    """Rows of one store into another, a shard at a time."""
    out = store.create_aligned(group, {name: (rows.shape, rows.dtype)})[name]
    height = (out.shards or out.chunks)[0]
    for start in range(0, rows.shape[0], height):
        out[start : start + height] = store.read(rows, start, min(start + height, rows.shape[0]))

"""The options that name a kernel and its parameters, and the kernel that they make for a dataset store."""

import re
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, ClassVar, Literal, get_type_hints

import zarr
from cyclopts import Group, Parameter
from pydantic import AfterValidator, Field
from pydantic.fields import FieldInfo

from ask_dask import store
from ask_dask.errors import InputError, StoreError
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
    Symmetrised,
)
from ask_dask.kernels.base import subclasses
from ask_dask.steps.options import Place, Storing

TAKES: dict[str, tuple[str, ...]] = {
    "sne": ("bandwidth", "normaliser"),
    "student-t": ("normaliser",),
    "rbf": ("bandwidth",),
    "local-rbf": ("scale", "neighbours"),
    "laplacian": ("bandwidth",),
    "linear": (),
    "polynomial": ("degree",),
    "conditional-probability": ("normaliser",),
    "kl": ("scale",),
    "kl-gaussian": ("scale",),
    "graph": ("normalise", "self_loops"),
    "precomputed": ("matrix",),
}
"""The options of each kernel of this package."""


def own_kernels() -> dict[str, Any]:
    """Return the kernels that other modules have made, dataclasses, by the names that the command gives them."""
    found: list[Any] = [
        cls for cls in subclasses(Kernel) if is_dataclass(cls) and not cls.__module__.startswith("ask_dask.")
    ]
    return {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower(): cls for cls in found}


def add_own_kernels() -> None:
    """Give every step that has a kernel the fields of kernels that other modules have made as options."""
    for name, cls in own_kernels().items():
        hints = get_type_hints(cls)
        for field in fields(cls):
            if field.name not in KernelOptions.model_fields:
                kind: Any = Annotated[hints[field.name] | None, OfKernel]
                said = Field(default=None, description=f"{name}: {field.name}.")
                for step in (KernelOptions, *subclasses(KernelOptions)):
                    step.__annotations__[field.name] = kind
                    step.model_fields[field.name] = FieldInfo.from_annotated_attribute(kind, said)
    for step in (KernelOptions, *subclasses(KernelOptions)):
        step.model_rebuild(force=True)


def _known(name: str | None) -> str | None:
    known = [*TAKES, *own_kernels()]
    if name is not None and name not in known:
        raise ValueError(f"is one of {', '.join(known)}")
    return name


OF_NUMBERS = {"graph": ("graph", "nodes"), "samples": ("kl", "items")}
"""Formats whose rows are numbers of points: the kernel over these, and what they are."""

OfKernel = Parameter(group=Group("Kernel", sort_key=1))


class KernelOptions(Storing):
    """Which kernel, and its parameters."""

    usual_kernel: ClassVar[str] = "sne"
    """The kernel of rows of features where none is named."""
    data: Annotated[Place, Field(description="The dataset store.")]
    kernel: Annotated[
        str | None,
        AfterValidator(_known),
        OfKernel,
        Field(description=f"One of {', '.join(TAKES)}. Default: graph for a graph, kl for samples, else sne for askls "
              "and ksvd and rbf for other methods. kl takes rows that are distributions, kl-gaussian rows of means, "
              "then variances."),
    ] = None  # fmt: skip
    bandwidth: Annotated[
        float | None,
        OfKernel,
        Field(gt=0, description="sne, rbf, laplacian: width h. Default, of sne: from the landmarks' variance."),
    ] = None
    normaliser: Annotated[
        Literal["landmarks", "exact"],
        OfKernel,
        Field(description="sne, student-t, conditional-probability: what the sums over all targets come from."),
    ] = "landmarks"
    scale: Annotated[
        float, OfKernel, Field(gt=0, description="kl, kl-gaussian: a of exp(-a KL). local-rbf: times the widths.")
    ] = 1.0
    neighbours: Annotated[int, OfKernel, Field(ge=1, description="local-rbf: neighbours that give a width.")] = 10
    degree: Annotated[int, OfKernel, Field(ge=1, description="polynomial: its degree.")] = 3
    normalise: Annotated[
        Literal["in-degree", "out-degree", "none"], OfKernel, Field(description="graph: what divides the weights.")
    ] = "in-degree"
    self_loops: Annotated[bool, OfKernel, Field(description="graph: an edge from each node to itself.")] = True
    matrix: Annotated[
        Place | None, OfKernel, Field(description="precomputed: a zarr array (N, N); rows hold point numbers.")
    ] = None
    symmetrise: Annotated[
        Literal["mean", "K'K", "KK'"] | None,
        OfKernel,
        Field(description="Use (K + K')/2, K'K or KK' instead, to see what asymmetry buys."),
    ] = None

    def make_kernel(self, data: zarr.Group) -> Kernel | None:
        """The kernel; None for the estimator's own, SNE with a bandwidth from the landmarks.

        Raises
        ------
        InputError
            A kernel that the store's rows are not made for, that lacks an option, or that does not have one.
        """
        form = store.about(data).get("format", "")
        own, rows = OF_NUMBERS.get(form, (self.usual_kernel, ""))
        name = self.kernel or own
        if rows and name not in (own, "precomputed"):
            raise InputError(
                f"The {name} kernel takes features, and the rows of {self.data} are numbers of {rows}: use --kernel "
                f"{own}, or precomputed with a matrix over them."
            )
        if name in own_kernels():
            cls = own_kernels()[name]
            given = {field.name: getattr(self, field.name, None) for field in fields(cls)}
            return cls(**{key: value for key, value in given.items() if value is not None})
        self._refuse_unused(name)
        if name == self.usual_kernel and self.bandwidth is None and self.normaliser == "landmarks":
            return None
        if "bandwidth" in TAKES[name] and self.bandwidth is None:
            raise InputError(f"The {name} kernel needs a bandwidth: give --bandwidth.")
        return self._made(name, data, form)

    def shaped_kernel(self, data: zarr.Group) -> Kernel | None:
        """Return the kernel, symmetrised where that is asked for; None for the estimator's own.

        Raises
        ------
        InputError
            As `make_kernel`, or there is no kernel to symmetrise.
        """
        kernel = self.make_kernel(data)
        if self.symmetrise is None:
            return kernel
        if kernel is None:
            raise InputError("--symmetrise needs a kernel with its bandwidth: give --bandwidth.")
        return Symmetrised(kernel, self.symmetrise)

    def _refuse_unused(self, name: str) -> None:
        for option in sorted({option for options in TAKES.values() for option in options}.difference(TAKES[name])):
            if getattr(self, option) != type(self).model_fields[option].default:
                kernels = ", ".join(kernel for kernel, options in TAKES.items() if option in options)
                shown = option.replace("_", "-")
                raise InputError(f"The {name} kernel has no --{shown}, which is of {kernels}: leave it out.")

    def _made(self, name: str, data: zarr.Group, form: str) -> Kernel:
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
            "kl": self._divergence if form == "samples" else lambda: KLDivergence(self.scale),
            "kl-gaussian": lambda: KLDivergence(self.scale, "gaussian"),
            "graph": lambda: self._graph(data),
            "precomputed": self._precomputed,
        }
        return made[name]()

    def _divergence(self) -> Kernel:
        # By its absolute path, since the model keeps it.
        return ExpNegative(Precomputed(read_divergence(store.open_store(self.data.absolute()))), self.scale)

    def _graph(self, data: zarr.Group) -> Kernel:
        return DirectedGraph(read_graph(data), self.self_loops, None if self.normalise == "none" else self.normalise)

    def _precomputed(self) -> Kernel:
        if self.matrix is None:
            raise InputError("The precomputed kernel needs its matrix: give --matrix, the path of a zarr array (N, N).")
        try:
            K = store.open_matrix(self.matrix.absolute())
        except (OSError, KeyError, ValueError, TypeError) as error:
            if isinstance(error, StoreError):
                raise
            said = "is not a zarr array of format 3: give --matrix the path of one, (N, N)"
            raise InputError(f"{self.matrix} {said}.") from error
        if K.ndim != 2 or K.shape[0] != K.shape[-1] or K.dtype.kind not in "biuf":
            raise InputError(
                f"{self.matrix} is an array of shape {K.shape} and dtype {K.dtype}, and a kernel matrix must be "
                "square, (N, N), and of numbers: give another --matrix."
            )
        return Precomputed(K)

    def matrix_facts(self) -> dict[str, Any]:
        """What tells a changed matrix without reading it: its bytes, and when they were last written."""
        if self.matrix is None:
            return {}
        return {"matrix": [sum(store.files(self.matrix).values()), store.last_written(self.matrix)]}

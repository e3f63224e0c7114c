"""The steps that make dataset stores from raw files, one for each kind of file."""

from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter
from pydantic import Field

from ask_dask.ingest import ingest, ingest_graph, ingest_samples, ingest_svmlight, ingest_table
from ask_dask.ingest.table import parts_of
from ask_dask.steps.each import file_facts, info
from ask_dask.steps.options import Encoding, List, Placing, Seed, Storing, read_encoder


class _Ingesting(Storing):
    """Raw files -> a dataset store."""

    title: ClassVar[str] = "ingest"
    do: Annotated[Literal["ingest"], Parameter(show=False, parse=False)] = "ingest"
    files: Annotated[list[str], *List]

    def inputs(self) -> dict[str, Any]:
        found: dict[str, Any] = {"files": [file_facts(part) for file in self.files for part in parts_of(file)]}
        beside = {name: getattr(self, name, None) for name in ("labels", "nodes")}
        return found | {name: file_facts(file) for name, file in beside.items() if file}

    def _common(self) -> dict[str, Any]:
        return {"memory": self.bytes_allowed, "overwrite": self.overwrite, "facts": {"recipe": self.recipe()}}


class LogOptions(Encoding, Placing):
    """How the columns of click logs become numbers."""

    max_rejects: Annotated[float, Field(ge=0, le=1, description="Largest share of bad rows that is set aside.")] = 0.001
    seed: Seed = 0


class Ingest(LogOptions, _Ingesting):
    """Raw click logs -> a dataset store."""

    format: Literal["criteo", "avazu"]

    def inputs(self) -> dict[str, Any]:
        return super().inputs() | ({"encoder": read_encoder(self.encoder).fingerprint} if self.encoder else {})

    def run(self) -> dict[str, Any]:
        ingest(
            self.files,
            self.to,
            format=self.format,
            random_state=self.seed,
            max_rejects=self.max_rejects,
            **self.encoding(),
            **self._common(),
        )
        return info(self.to)


class GraphOptions(Placing):
    """What is beside the edges of a graph."""

    labels: Annotated[
        str | None,
        Field(description="One column, the labels of nodes 0, 1, ..., or two: id and label of some or all nodes."),
    ] = None
    nodes: Annotated[
        str | None,
        Field(
            description="Ids of all nodes, one a line, in the order of their numbers; default: ids that are all whole "
            "numbers are the numbers, others are numbered as they appear."
        ),
    ] = None


class IngestGraph(GraphOptions, _Ingesting):
    """Edge lists, and labels of nodes -> a dataset store."""

    format: Literal["graph"] = "graph"

    def run(self) -> dict[str, Any]:
        ingest_graph(self.files, self.to, labels=self.labels, nodes=self.nodes, **self._common())
        return info(self.to)


class TableOptions(Placing):
    """What the columns of a table are."""

    label: Annotated[
        list[str], *List, Field(description="Label columns, with commas; default: none, for rows to be predicted.")
    ] = []
    weight: Annotated[str | None, Field(description="The column of sample weights.")] = None
    drop: Annotated[list[str], *List, Field(description="Columns to leave out, with commas.")] = []
    dtype: Annotated[Literal["float64", "float32"], Field(description="Type of the features.")] = "float64"
    header: Annotated[
        bool, Parameter(negative="--no-header"), Field(description="Text begins with names; else they are 1, 2, ...")
    ] = True


class IngestTable(TableOptions, _Ingesting):
    """Tables of numbers -> a dataset store."""

    format: Literal["table"] = "table"

    def run(self) -> dict[str, Any]:
        ingest_table(
            self.files,
            self.to,
            labels=self.label,
            weight=self.weight,
            drop=self.drop,
            dtype=self.dtype,
            header=self.header,
            **self._common(),
        )
        return info(self.to)


class SvmlightOptions(Placing):
    """How the pairs of sparse rows are read."""

    zero_based: Annotated[
        bool | None,
        Parameter(negative="--one-based"),
        Field(description="Whether the first column has index 0 or 1; default: 0 where any index is 0, else 1."),
    ] = None
    columns: Annotated[
        int | None, Field(ge=1, description="How many columns there are; default: as the largest index needs.")
    ] = None
    dtype: Annotated[Literal["float64", "float32"], Field(description="Type of the values.")] = "float64"


class IngestSvmlight(SvmlightOptions, _Ingesting):
    """Sparse rows of index:value pairs -> a dataset store."""

    format: Literal["svmlight"] = "svmlight"

    def run(self) -> dict[str, Any]:
        ingest_svmlight(
            self.files,
            self.to,
            columns=self.columns,
            zero_based=self.zero_based,
            dtype=self.dtype,
            **self._common(),
        )
        return info(self.to)


class SampleOptions(Placing):
    """How samples become distributions, and these divergences."""

    labels: Annotated[str | None, Field(description="Two columns: id and label of some or all items.")] = None
    components: Annotated[int, Field(ge=1, description="Components of each item's Gaussian mixture.")] = 3
    draws: Annotated[int, Field(ge=2, description="Draws from each item that its divergences are means of.")] = 1000
    seed: Seed = 0


class IngestSamples(SampleOptions, _Ingesting):
    """Samples of points, one sample an item -> a dataset store with the divergences between the items."""

    format: Literal["samples"] = "samples"

    def run(self) -> dict[str, Any]:
        ingest_samples(
            self.files,
            self.to,
            labels=self.labels,
            n_components=self.components,
            n_draws=self.draws,
            random_state=self.seed,
            **self._common(),
        )
        return info(self.to)


AnyIngest = Annotated[
    Ingest | IngestGraph | IngestTable | IngestSvmlight | IngestSamples, Field(discriminator="format")
]
"""The step of any format."""

"""The steps that make dataset stores from raw files, one for each kind of file."""

from typing import Annotated, Any, ClassVar, Literal, get_args

from cyclopts import Parameter
from pydantic import Field

from ask_dask.ingest import ingest, ingest_graph, ingest_samples, ingest_svmlight, ingest_table
from ask_dask.ingest.table import parts_of
from ask_dask.steps.each import file_facts, info
from ask_dask.steps.options import Encoding, List, Seed, Storing, read_encoder

INGESTS: dict[str, type["Ingesting"]] = {}
"""The steps by the formats that they read; a step of a format is added as its class is made."""


class Ingesting(Storing):
    """Raw files -> a dataset store. The docstring of a format's step is the help of its command."""

    title: ClassVar[str] = "ingest"
    do: Annotated[Literal["ingest"], Parameter(show=False, parse=False)] = "ingest"
    files: Annotated[list[str], *List]
    format: Any

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        INGESTS.update(dict.fromkeys(get_args(cls.model_fields["format"].annotation), cls))

    def inputs(self) -> dict[str, Any]:
        found: dict[str, Any] = {"files": [file_facts(part) for file in self.files for part in parts_of(file)]}
        beside = {name: getattr(self, name, None) for name in ("labels", "nodes")}
        return found | {name: file_facts(file) for name, file in beside.items() if file}

    def _common(self) -> dict[str, Any]:
        return {"memory": self.bytes_allowed, "overwrite": self.overwrite, "facts": {"recipe": self.recipe()}}


class Ingest(Encoding, Ingesting):
    """Click logs: of Criteo (label, I1..I13, C1..C26, tab separated, no header) or Avazu (CSV with its header).

    Bad rows are set aside with file, line and reason.
    """

    format: Literal["criteo", "avazu"]
    max_rejects: Annotated[float, Field(ge=0, le=1, description="Largest share of bad rows that is set aside.")] = 0.001
    seed: Seed = 0

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


class IngestGraph(Ingesting):
    """A directed graph: a line "a b" is an edge a -> b, a third column its weight.

    Columns are separated by tabs, commas or spaces; lines that start with # or % are comments. An edge that is there
    twice counts once, or with the sum of its weights. The rows of the store are the labelled nodes, or all without
    labels.
    """

    format: Literal["graph"] = "graph"
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

    def run(self) -> dict[str, Any]:
        ingest_graph(self.files, self.to, labels=self.labels, nodes=self.nodes, **self._common())
        return info(self.to)


class IngestTable(Ingesting):
    """Tables of numbers: Parquet, or text with a header, separated by commas, tabs or semicolons.

    Every column is a feature, but for labels, the weight and those dropped.
    """

    format: Literal["table"] = "table"
    label: Annotated[
        list[str], *List, Field(description="Label columns, with commas; default: none, for rows to be predicted.")
    ] = []
    weight: Annotated[str | None, Field(description="The column of sample weights.")] = None
    drop: Annotated[list[str], *List, Field(description="Columns to leave out, with commas.")] = []
    dtype: Annotated[Literal["float64", "float32"], Field(description="Type of the features.")] = "float64"
    header: Annotated[
        bool, Parameter(negative="--no-header"), Field(description="Text begins with names; else they are 1, 2, ...")
    ] = True

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


class IngestSvmlight(Ingesting):
    """Sparse rows as SVMLight and LIBSVM write them: a line is a label and index:value pairs, indices ascending.

    qid:number is ignored, and so is what follows a #. The rows stay sparse in the store; fit and predict read them so.
    """

    format: Literal["svmlight"] = "svmlight"
    zero_based: Annotated[
        bool | None,
        Parameter(negative="--one-based"),
        Field(description="Whether the first column has index 0 or 1; default: 0 where any index is 0, else 1."),
    ] = None
    columns: Annotated[
        int | None, Field(ge=1, description="How many columns there are; default: as the largest index needs.")
    ] = None
    dtype: Annotated[Literal["float64", "float32"], Field(description="Type of the values.")] = "float64"

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


class IngestSamples(Ingesting):
    """Samples of points: a line is an item's id and the coordinates of one of its points.

    Each item becomes a Gaussian mixture, and the store holds the divergence between each two of them.
    """

    format: Literal["samples"] = "samples"
    labels: Annotated[str | None, Field(description="Two columns: id and label of some or all items.")] = None
    components: Annotated[int, Field(ge=1, description="Components of each item's Gaussian mixture.")] = 3
    draws: Annotated[int, Field(ge=2, description="Draws from each item that its divergences are means of.")] = 1000
    seed: Seed = 0

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

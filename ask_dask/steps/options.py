"""What the options of every step are made of, and what a step is."""

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

from cyclopts import Parameter
from dask.utils import parse_bytes
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WrapValidator

from ask_dask import store
from ask_dask.encode import Encoder
from ask_dask.errors import InputError


def _split(values: Any) -> Any:
    """Lists may be written with commas, after the last one too: --gamma 1,10,100."""
    if values is None:
        return None
    values = values if isinstance(values, list | tuple) else [values]
    lists = (value.removesuffix(",").split(",") if isinstance(value, str) else [value] for value in values)
    parts = [part for values in lists for part in values]
    kept = [part for part in parts if part != ""]
    if kept and len(kept) < len(parts):
        raise ValueError("a value is missing beside a comma")
    return kept


def _check_size(value: str | None) -> str | None:
    try:
        if value is None or parse_bytes(value) > 0:
            return value
    except (ValueError, OverflowError):
        pass
    raise ValueError("not a size such as 2GiB or 512MiB")


def _locate(path: Any, as_path: Callable[[Any], Path]) -> Path:
    return store.located(path if isinstance(path, store.Url) else as_path(path))


Place = Annotated[
    Path,
    WrapValidator(_locate),
    PlainSerializer(lambda place, info: str(place) if info.mode == "json" else place, when_used="unless-none"),
]
"""A path, or the URL of object storage, which then is a `store.Url`."""
List = (BeforeValidator(_split), Parameter(negative="", consume_multiple=False))
Memory = Annotated[
    str | None,
    AfterValidator(_check_size),
    Field(description="Budget of the arrays at work, such as 2GiB; default: what the machine has."),
]
Overwrite = Annotated[bool, Parameter(negative=""), Field(description="Replace what is there.")]
Seed = Annotated[int, Field(ge=0, lt=2**32, description="Seed of everything random in this step.")]


class Step(BaseModel):
    """One step of a job."""

    model_config = ConfigDict(extra="forbid")
    title: ClassVar[str]
    paths: ClassVar[tuple[str, ...]] = (
        "to", "data", "targets", "model", "embedding", "predictions", "encoder", "files", "labels", "nodes", "matrix"
    )  # fmt: skip
    """Options that are paths."""

    @abstractmethod
    def inputs(self) -> dict[str, Any]:
        """Name -> fingerprint of everything this step reads."""

    @abstractmethod
    def run(self) -> dict[str, Any]:
        """Do it; what came out, as JSON values."""

    def carried_out(self) -> dict[str, Any]:
        """Run the step, and refuse to read any array that is larger than the memory budget."""
        with store.within(self.bytes_allowed):
            return self.run()

    @property
    def bytes_allowed(self) -> int | None:
        """The memory budget in bytes, where the step has one."""
        memory = getattr(self, "memory", None)
        return None if memory is None else int(parse_bytes(memory))

    def recipe(self) -> dict[str, Any]:
        """What decides the output: parameters and input fingerprints. Paths do not, so a folder may be moved."""
        parameters = self.model_dump(mode="json", exclude={"overwrite", "memory", *self.paths})
        return {"step": self.title, "parameters": parameters, "inputs": self.inputs()}

    @abstractmethod
    def made(self) -> dict[str, Any] | None:
        """The recipe of the output that is there, None when there is none."""


class Placing(BaseModel):
    """Where a store goes, and what making it may take."""

    model_config = ConfigDict(extra="forbid")
    to: Annotated[Place, Field(description="The store to make.")]
    overwrite: Overwrite = False
    memory: Memory = None


class Storing(Placing, Step):
    """A step whose output is a store."""

    def made(self) -> dict[str, Any] | None:
        return store.about(store.open_store(self.to)).get("recipe", {}) if self.to.exists() else None


class Encoding(BaseModel):
    """How columns become numbers."""

    model_config = ConfigDict(extra="forbid")
    encoder: Annotated[
        Place | None,
        Field(description="A dataset or model store whose encoder to use, for new rows; default: fit one."),
    ] = None
    encoding_folds: Annotated[int, Field(ge=3, le=255, description="Folds of the target encoding.")] = 5
    smoothing: Annotated[float, Field(gt=0, description="Rows that the mean label counts for in each value.")] = 10.0
    buckets: Annotated[int, Field(ge=2, description="Hash buckets of each categorical column.")] = 2**18
    counts: Annotated[bool, Field(description="Add the log count of each categorical value.")] = True

    def encoding(self) -> dict[str, Any]:
        """These options as `ingest` takes them; the encoder is read."""
        return {
            "encoder": read_encoder(self.encoder) if self.encoder else None,
            "n_folds": self.encoding_folds,
            "smoothing": self.smoothing,
            "n_buckets": self.buckets,
            "counts": self.counts,
        }


def read_encoder(path: Path) -> Encoder:
    """The encoder of a dataset or model store.

    Raises
    ------
    InputError
        The store has none.
    """
    group = store.open_store(path)
    if "encoder" not in group:
        raise InputError(f"{path} has no encoder: give a dataset or model store that was made from raw files.")
    return Encoder.load(store.subgroup(group, "encoder"))

"""The step that makes up a click log: files of text, or the dataset store that they would be ingested to."""

from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter
from pydantic import Field

from ask_dask.errors import InputError
from ask_dask.ingest.synthetic import make_folder, make_store, read_manifest
from ask_dask.steps.each import info
from ask_dask.steps.options import Encoding, Place, Placing, Seed, Storing, read_encoder


class MakeOptions(Encoding, Placing):
    """Which rows to make, and as what; how columns become numbers is for a store."""

    to: Annotated[Place, Field(description="The folder to make, or with --store the store.")]
    rows: Annotated[int, Field(ge=1, description="Rows to make; Criteo's log has 45840617.")]
    first: Annotated[int, Field(ge=0, description="Number of the first row: others may have been made before.")] = 0
    seed: Annotated[Seed, Field(description="Seed of the log; a row depends on it and on its own number alone.")] = 0
    files: Annotated[int | None, Field(ge=1, description="Files of text; default: one for each 500,000 rows.")] = None
    compress: Annotated[Literal["gz", "none"], Field(description="How files of text are compressed.")] = "gz"
    store: Annotated[
        bool, Parameter(negative=""), Field(description="Make the dataset store of these rows, and no text.")
    ] = False


class Make(MakeOptions, Storing):
    """A made-up click log -> files of text, or a dataset store."""

    title: ClassVar[str] = "make"
    paths: ClassVar[tuple[str, ...]] = ("to", "encoder")
    do: Annotated[Literal["make"], Parameter(show=False, parse=False)] = "make"
    format: Literal["criteo"]

    def inputs(self) -> dict[str, Any]:
        return {"encoder": read_encoder(self.encoder).fingerprint} if self.encoder else {}

    def made(self) -> dict[str, Any] | None:
        """The recipe of what is there; of files that are not all made yet there is none, and making goes on."""
        if self.store:
            return super().made()
        manifest = read_manifest(self.to)
        return manifest.get("recipe", {}) if manifest and manifest["complete"] else None

    def run(self) -> dict[str, Any]:
        self._check()
        common: dict[str, Any] = {
            "first": self.first, "random_state": self.seed, "memory": self.bytes_allowed, "overwrite": self.overwrite,
            "facts": {"recipe": self.recipe()},
        }  # fmt: skip
        if self.store:
            make_store(self.to, self.rows, **self.encoding(), **common)
            return info(self.to)
        made = make_folder(self.to, self.rows, n_files=self.files, compress=self.compress, **common)
        return {"path": str(self.to), "bytes": sum((self.to / name).stat().st_size for name in made["files"])} | made

    def _check(self) -> None:
        """Refuse options of the other kind of output."""
        others = {"files", "compress"} if self.store else set(Encoding.model_fields)
        given = sorted(name for name in others if getattr(self, name) != type(self).model_fields[name].default)
        if given:
            kind = "files of text, and --store makes none" if self.store else "a store: add --store"
            raise InputError(f"--{given[0].replace('_', '-')} is for {kind}.")

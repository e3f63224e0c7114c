"""`ask-dask ingest FORMAT FILES ...`: a command for each format."""

from typing import Annotated, Any, get_type_hints

from cyclopts import App, Parameter
from pydantic import ConfigDict, create_model

from ask_dask.cli.run import AS_USUAL, Run, run_step
from ask_dask.steps.ingest import INGESTS, Ingesting

ingest = App(
    name="ingest",
    help="Turn raw files into a dataset store. Files may be plain or compressed, paths or URLs.",
)


def _command(name: str, kind: type[Ingesting]) -> Any:
    hints = get_type_hints(kind, include_extras=True)
    options: dict[str, Any] = {
        key: (hints[key], ... if field.is_required() else field.default)
        for key, field in kind.model_fields.items()
        if key not in ("do", "format", "files")
    }
    model = create_model(f"{kind.__name__}Options", __config__=ConfigDict(extra="forbid"), **options)

    def command(*files: str, options: Any, run: Run = AS_USUAL) -> None:
        run_step(kind(format=name, files=list(files), **options.model_dump()), run)

    command.__annotations__["options"] = Annotated[model, Parameter(name="*")]
    command.__doc__ = f"{kind.__doc__}\n\nParameters\n----------\nfiles\n    The files, in order.\n"
    return command


def add_formats() -> None:
    """Add a command for each format that has none yet."""
    for name, kind in INGESTS.items():
        if name not in ingest:
            ingest.command(_command(name, kind), name=name)


add_formats()

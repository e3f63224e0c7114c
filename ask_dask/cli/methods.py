"""`ask-dask fit METHOD` and `ask-dask embed METHOD`: a command for each method of the catalogue."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from ask_dask.cli.run import AS_USUAL, Run, run_step
from ask_dask.steps.methods import CATALOGUE, step_of


def add_methods(apps: dict[str, App]) -> None:
    """Add the methods of the catalogue to the commands that fit them."""
    for method in CATALOGUE.values():
        if method.name not in apps[method.command]:
            apps[method.command].command(_command(method.name), name=method.name)


def _command(name: str) -> Any:
    kind = step_of(name)

    def command(*, step: Any, run: Run = AS_USUAL) -> None:
        run_step(step, run)

    command.__annotations__["step"] = Annotated[kind, Parameter(name="*")]
    command.__doc__ = kind.__doc__
    return command

"""`ask-dask make FORMAT ...`: a command for each format."""

from typing import Annotated

from cyclopts import App, Parameter

from ask_dask import steps
from ask_dask.cli.run import AS_USUAL, Run, run_step

make = App(name="make", help="Make up raw files of any size, with a known best score, or the dataset store of them.")


@make.command
def criteo(*, options: Annotated[steps.MakeOptions, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Click logs in the text of Criteo's, files part-0.txt.gz and so on; the same command again goes on with them.

    Values are as many as Criteo's and change with time, cells are missing, and most of what can be known of a click is
    in no column alone.
    """
    run_step(steps.Make(format="criteo", **options.model_dump()), run)

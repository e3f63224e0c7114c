"""The command `ask-dask`, to which the other files add its commands."""

from cyclopts import App

from ask_dask.cli.codes import EXIT_CODES

app = App(
    name="ask-dask",
    help="Learning with asymmetric kernels, out of core: raw files to models, predictions and a report.",
    help_epilogue=EXIT_CODES,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)

"""`ask-dask ...`: arguments in, exit code (`EXIT_CODES`) and one clear line out."""

from ask_dask.cli.codes import EXIT_CODES
from ask_dask.cli.entry import main

__all__ = ["EXIT_CODES", "main"]

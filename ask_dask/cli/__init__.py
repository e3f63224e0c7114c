"""`ask-dask ...`: arguments in, exit code (`EXIT_CODES`) and one clear line out."""

from ask_dask.cli.entry import EXIT_CODES, main

__all__ = ["EXIT_CODES", "main"]

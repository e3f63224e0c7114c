"""`ask-dask ...`: arguments in, exit code (`EXIT_CODES`) and one clear line out."""

from ask_dask.cli.commands import EXIT_CODES, app, main

__all__ = ["EXIT_CODES", "app", "main"]

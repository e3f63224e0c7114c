"""`ask-dask ...`: arguments in, exit code (`EXIT_CODES`) and one clear line out."""

import gc

from ask_dask.cli.commands import EXIT_CODES, app, main

gc.freeze()
"""All that is loaded stays to the end: to look through it for garbage then takes most of a second."""

__all__ = ["EXIT_CODES", "app", "main"]

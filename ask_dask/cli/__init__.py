"""`ask-dask ...`: arguments in, exit code and one clear line out.

Exit codes: 0 done, 1 something the user can put right (one line on stderr), 2 told to end (SIGTERM: a time limit or a
pre-emption) and continued by the same command, 130 interrupted by Ctrl-C, likewise.
"""

from ask_dask.cli.commands import app, main

__all__ = ["app", "main"]

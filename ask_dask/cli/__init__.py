"""`ask-dask ...`: arguments in, exit code and one clear line out.

Exit codes: 0 done, 1 something the user can put right (one line on stderr), 130 interrupted (SIGINT, SIGTERM).
"""

from ask_dask.cli.commands import app, main

__all__ = ["app", "main"]

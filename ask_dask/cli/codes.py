"""Exit codes of commands, and the signals that stop them."""

import signal
from typing import Any

DONE, WRONG, STOPPED, INTERRUPTED = 0, 1, 2, 130
HEARD = (signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Signals that stop a command; of these, those after the first stay ignored where they are."""

EXIT_CODES = """\
Exit codes: 0 done; 1 something you can put right, said in one line on stderr (verify: damage was found); 2 stopped from
outside and continued by the same command (SIGTERM of a time limit or a pre-emption, SIGHUP of a terminal that closed, a
scheduler that is gone); 130 interrupted by Ctrl-C, likewise. A job that was killed (137) goes on in the same way."""


def unheard(number: int, frame: Any) -> None:
    """Do nothing; unlike SIG_IGN this does not pass to what the process may still start."""

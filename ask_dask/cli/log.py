"""Messages on stderr: lines for people, or with ASK_DASK_LOG=json an object a line for machines; without secrets."""

import json
import logging
import sys
import time
from typing import Any

from ask_dask.errors import mask

LOG = logging.getLogger("ask_dask")  # not the root: dask's own loggers then stay silent


def printable(text: str, encoding: str | None) -> str:
    """Text whose characters that command a terminal, or that it has no letters for, are written as escapes: names and
    facts come from files and stores of others.

    >>> printable("a\\x1b[31m\\u202eb\\n\\ud800 é", "ascii").replace("\\n", "|")
    'a\\\\x1b[31m\\\\u202eb|\\\\ud800 \\\\xe9'
    """
    shown = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    encoding = encoding or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)


class JsonLines(logging.Formatter):
    """time (UTC), level and message, and the facts that a record carries."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        said: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z", "level": record.levelname.lower(),
            "message": mask(record.getMessage()),
        }  # fmt: skip
        return json.dumps(said | getattr(record, "facts", {}))


class Lines(logging.Formatter):
    """The message; of an error after the name of the command."""

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        said = f"{'ask-dask: ' * (record.levelno >= logging.ERROR)}{mask(record.getMessage())}"
        return printable(said, sys.stderr.encoding)


def to_stderr(as_json: bool, level: int) -> None:
    """Send what the package logs to stderr, from a level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Lines())
    LOG.handlers = [handler]
    LOG.setLevel(level)

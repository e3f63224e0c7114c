"""Messages on stderr: lines for people, or with ASK_DASK_LOG=json an object a line for machines; without secrets."""

import json
import logging
import sys
import time
from typing import Any

from ask_dask.errors import mask

LOG = logging.getLogger("ask_dask")  # not the root: dask's own loggers then stay silent


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
        return f"{'ask-dask: ' * (record.levelno >= logging.ERROR)}{mask(record.getMessage())}"


def to_stderr(as_json: bool, level: int) -> None:
    """Send what the package logs to stderr, from a level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Lines())
    LOG.handlers = [handler]
    LOG.setLevel(level)

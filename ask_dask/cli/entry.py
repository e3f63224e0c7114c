"""The entry point: turns signals and errors into exit codes, from the first moment on."""

import gc
import os
import signal
import sys
from typing import Any

from ask_dask.cli.codes import DONE, HEARD, INTERRUPTED, STOPPED, WRONG, unheard


def main(arguments: list[str] | None = None) -> None:
    """Runs a command and exits."""
    _stand_in()
    signal.signal(signal.SIGTERM, _told)
    for number in HEARD[1:]:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell's background job or nohup has it
            signal.signal(number, _told)
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unraisable
    try:
        _run(arguments)
    except KeyboardInterrupt as stopped:
        for number in HEARD:  # it ends, and ends no sooner when told again
            signal.signal(number, unheard)
        _stop("stopped; complete stores and checkpoints are kept: the same command goes on.",
              STOPPED if isinstance(stopped, Terminated) else INTERRUPTED)  # fmt: skip
    sys.exit(DONE)


def _stand_in() -> None:
    """What the caller closed is the null device: the next file that is opened would be in its place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _run(arguments: list[str] | None) -> None:
    """Errors to exit codes; nothing is loaded before, so that signals are heard first."""
    import logging

    from ask_dask.cli.log import to_stderr
    from ask_dask.errors import AskDaskError, Stopped

    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # of what was cut off nobody asks how it ended
    to_stderr(_as_json(), logging.WARNING)
    try:
        _loaded().execute(arguments)
    except AskDaskError as error:
        _stop(str(error), STOPPED if isinstance(error, Stopped) else WRONG)
    except MemoryError as error:
        _stop(f"Memory ran out ({error or 'no more to be had'}): give a budget with --memory, or fewer --workers.")
    except OSError as error:
        _stop(f"{error.filename or 'A file'}: {error.strerror or error}.")
    except Exception as error:
        _stop(_unforeseen(error))


def _unforeseen(error: Exception) -> str:
    """What a stranger's store, or a mistake of ours, can make of a command, in a sentence; --verbose has all of it."""
    import logging
    import traceback

    logging.getLogger("ask_dask").debug("%s", traceback.format_exc())
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "ask_dask" in frame.filename]
    where = f" in {ours[-1].name}, line {ours[-1].lineno} of {os.path.basename(ours[-1].filename)}" if ours else ""
    return (
        f"An unforeseen {type(error).__name__}{where} ({str(error)[:300]}): see what ask-dask verify says of the "
        "stores that were given, or report it with what --verbose adds."
    )


def _as_json() -> bool:
    return os.environ.get("ASK_DASK_LOG") == "json"


def _loaded() -> Any:
    """The commands, with all that they need, which takes seconds."""
    first = "ask_dask.cli.commands" not in sys.modules
    if first:
        gc.disable()  # it would look for garbage in what stays to the end, for most of a second
    from ask_dask.cli import commands

    if first:
        gc.freeze()
        gc.enable()
    return commands


class Terminated(KeyboardInterrupt):
    """SIGTERM and SIGHUP: they end a job as Ctrl-C does, cleanly, with an exit code of its own."""


_STOPPING: set[int] = set()
"""The signals that came."""


def _told(number: int, frame: Any) -> None:
    _STOPPING.add(number)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _unraisable(given: Any) -> None:
    """What comes where nothing can be raised, such as in the end of an object: a signal comes again in a moment.

    Once one came, what objects say that it left half made is no matter.
    """
    import threading

    if issubclass(given.exc_type, KeyboardInterrupt):
        number = signal.SIGTERM if issubclass(given.exc_type, Terminated) else signal.SIGINT
        again = threading.Timer(0.1, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    elif not _STOPPING:
        sys.__unraisablehook__(given)


def _stop(message: str, code: int = WRONG) -> None:
    from ask_dask.cli.log import LOG, to_stderr

    if not LOG.handlers:  # it was told to stop in its first moment
        to_stderr(_as_json(), 0)
    LOG.error("%s", " ".join(message.split()), extra={"facts": {"exit_code": code}})
    sys.exit(code)

"""The commands, and the entry point that turns errors into exit codes."""

import logging
import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError
from pydantic import ValidationError
from sklearn.exceptions import ConvergenceWarning

from ask_dask import demo as demonstration
from ask_dask import steps
from ask_dask.cli.cluster import cluster
from ask_dask.cli.ingest import ingest
from ask_dask.cli.log import LOG, to_stderr
from ask_dask.cli.make import make
from ask_dask.cli.run import AS_USUAL, Run, run_step
from ask_dask.cli.words import in_lines, in_words, standing, verified
from ask_dask.errors import AskDaskError, ResonanceWarning, Stopped

DONE, WRONG, STOPPED, INTERRUPTED = 0, 1, 2, 130
EXIT_CODES = """\
Exit codes: 0 done; 1 something you can put right, said in one line on stderr (verify: damage was found); 2 stopped from
outside and continued by the same command (SIGTERM of a time limit or a pre-emption, a scheduler that is gone); 130
interrupted by Ctrl-C, likewise. A job that was killed (137) goes on in the same way."""

app = App(
    name="ask-dask",
    help="Learning with asymmetric kernels, out of core: raw files to models, predictions and a report.",
    help_epilogue=EXIT_CODES,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)
app.command(make)
app.command(ingest)
app.command(cluster)


@app.command
def fit(*, step: Annotated[steps.Fit, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Fit AsK-LS on landmarks, or exactly; gamma and the landmark count are chosen on held-out rows."""
    run_step(step, run)


@app.command
def embed(*, step: Annotated[steps.Embed, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Embed rows, or the rows and columns of a data matrix: singular vectors of a kernel matrix (KSVD), into zarr."""
    run_step(step, run)


@app.command
def predict(*, step: Annotated[steps.Predict, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Predict the rows of a dataset store, or of raw files through the model's own encoder."""
    run_step(step, run)


@app.command
def score(*, step: Annotated[steps.Score, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Score predictions against labels: AUROC, log loss, accuracy and F1; of a regression R2, RMSE and MAE."""
    run_step(step, run)


@app.command
def report(*, step: Annotated[steps.Report, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Write one self-contained HTML page about a model or an embedding."""
    run_step(step, run)


@app.command
def info(store: Path, /, *, run: Run = AS_USUAL) -> None:
    """Say what a store is: schema, arrays, kernel, who made it from what, bytes.

    Parameters
    ----------
    store
        Any store.
    """
    run.show(steps.info(store), lambda found: "\n".join(in_lines(found)))


@app.command
def verify(store: Path, /, *, run: Run = AS_USUAL) -> None:
    """Read all of a store, and list what is damaged; the exit code is 1 if anything is.

    Parameters
    ----------
    store
        Any store.
    """
    with run.running():
        found = steps.verify(store)
    run.show(found, verified)
    if found["problems"]:
        sys.exit(WRONG)


@app.command
def status(store: Path, /, *, run: Run = AS_USUAL) -> None:
    """Say how far the job is that writes a store, or was when it stopped, and what going on would cost.

    On object storage it takes 15 seconds to see that a job is dead.

    Parameters
    ----------
    store
        The place that the job was given with --to.
    """
    run.show(steps.status(store), standing)


@app.command(name="run")
def run_job(
    job: Path,
    /,
    *,
    overwrite: steps.Overwrite = False,
    run: Run = AS_USUAL,
) -> None:
    """Run the steps of a TOML file, skipping each whose output is already complete.

    Parameters
    ----------
    job
        A TOML file of [[step]] tables, each with do = "make", "ingest", "fit", "embed", "predict", "score" or "report"
        and that command's options, ingest with format = "criteo" (or another) and files; paths are relative to the
        file.
    """
    with run.running():
        results = steps.run_job(steps.read_job(job), overwrite, run.say)
    run.show(results, lambda found: "\n".join(in_words(result) for result in found if not result["skipped"]))


@app.command
def demo(
    *,
    to: Annotated[Path, Parameter(help="Folder for everything it makes.")] = Path("ask-dask-demo"),
    rows: Annotated[int, Parameter(help="Rows of text to make, a fifth of them for testing.")] = 300_000,
    run: Run = AS_USUAL,
) -> None:
    """Make Criteo-format text and run the whole job on it: ingest, fit, predict, score, report."""
    with run.running():
        job = demonstration.make(to, rows)
        run.say(f"The job, as a file: {job} (again with: ask-dask run {job})")
        results = steps.run_job(steps.read_job(job), False, run.say)
    run.show(results, lambda found: "\n".join(in_words(result) for result in found if not result["skipped"]))


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, ResonanceWarning | ConvergenceWarning):
        LOG.warning("Warning: %s", message)


def main(arguments: list[str] | None = None) -> None:
    """The entry point: runs a command and exits."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # of what was cut off nobody asks how it ended
    signal.signal(signal.SIGTERM, _told)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell has it of what it runs in the background
        signal.signal(signal.SIGINT, _told)
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unraisable
    to_stderr(os.environ.get("ASK_DASK_LOG") == "json", logging.WARNING)
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        cause = error.__cause__
        more = " Separate several values with commas." if isinstance(error, UnusedCliTokensError) else ""
        _stop(f"{steps.complaint(cause, '--')}." if isinstance(cause, ValidationError) else f"{error}{more}")
    except ValidationError as error:
        _stop(f"{steps.complaint(error, '--')}.")
    except AskDaskError as error:
        _stop(str(error), STOPPED if isinstance(error, Stopped) else WRONG)
    except MemoryError as error:
        _stop(f"Memory ran out ({error or 'no more to be had'}): give a budget with --memory, or fewer --workers.")
    except OSError as error:
        _stop(f"{error.filename or 'A file'}: {error.strerror or error}.")
    except KeyboardInterrupt as stopped:
        for number in (signal.SIGINT, signal.SIGTERM):  # it ends, and ends no sooner when told again
            signal.signal(number, _unheard)
        _stop("stopped; complete stores and checkpoints are kept: the same command goes on.",
              STOPPED if isinstance(stopped, Terminated) else INTERRUPTED)  # fmt: skip
    sys.exit(DONE)


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends a job as Ctrl-C does, cleanly, with an exit code of its own."""


_STOPPING: set[int] = set()
"""The signals that came."""


def _told(number: int, frame: Any) -> None:
    _STOPPING.add(number)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _unheard(number: int, frame: Any) -> None:
    """Unlike SIG_IGN not for what this process may still start."""


def _unraisable(given: Any) -> None:
    """What comes where nothing can be raised, such as in the end of an object: a signal comes again in a moment.

    Once one came, what objects say that it left half made is no matter.
    """
    if issubclass(given.exc_type, KeyboardInterrupt):
        number = signal.SIGTERM if issubclass(given.exc_type, Terminated) else signal.SIGINT
        again = threading.Timer(0.1, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    elif not _STOPPING:
        sys.__unraisablehook__(given)


def _stop(message: str, code: int = WRONG) -> None:
    LOG.error("%s", " ".join(message.split()), extra={"facts": {"exit_code": code}})
    sys.exit(code)

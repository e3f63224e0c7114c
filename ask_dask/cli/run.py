"""How a command is run, and how its result is shown."""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ask_dask import steps, store
from ask_dask.cli.codes import unheard
from ask_dask.cli.log import LOG, printable, to_stderr
from ask_dask.cli.words import in_words
from ask_dask.cluster import running_on
from ask_dask.compute import progress_shown, tell
from ask_dask.errors import InputError, mask


@Parameter(name="*")
@dataclass(frozen=True)
class Run:
    """How to run and what to print."""

    cluster: Annotated[
        str, Parameter(help="threads, processes, slurm, a scheduler's address (tcp://host:8786) or its scheduler file.")
    ] = "threads"
    workers: Annotated[int | None, Parameter(help="Threads or processes; default: one for each core.")] = None
    host: Annotated[
        str | None, Parameter(help="Where a started scheduler listens; default: loopback. Wider, it talks TLS.")
    ] = None
    tls: Annotated[
        Path | None, Parameter(help="Folder of ca.pem, cert.pem and key.pem; default: temporary ones where needed.")
    ] = None
    json: Annotated[bool, Parameter(negative="", help="Print the result as JSON.")] = False
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="", help="Say more on stderr.")] = False
    log: Annotated[
        Literal["text", "json"],
        Parameter(env_var="ASK_DASK_LOG", help="How stderr is written; json: an object a line, for machines."),
    ] = "text"
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", help="No progress.")] = False
    use: Annotated[
        str | None, Parameter(help="Python files or modules, with commas, whose methods, kernels and formats to use.")
    ] = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Logging, progress and a place to compute."""
        usual = logging.INFO if self.log == "json" and not self.quiet else logging.WARNING
        to_stderr(self.log == "json", logging.DEBUG if self.verbose else usual)
        place = running_on(self.cluster, self.workers, self.host, self.tls)
        with progress_shown(not self.quiet, self.log == "json"), place:
            yield

    def say(self, line: str) -> None:
        """A line of progress."""
        if self.log == "json":
            LOG.info(line)
        elif not self.quiet:
            tell(printable(mask(line), sys.stderr.encoding))

    def show(self, result: Any, words: Callable[[Any], str]) -> None:
        """The result on stdout, for a machine or in words."""
        try:
            print(json.dumps(result) if self.json else printable(words(result), sys.stdout.encoding), flush=True)
        except BrokenPipeError:  # the reader has seen enough, as in `ask-dask info ... | head -1`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            raise InputError(
                f"The result could not be printed ({error.strerror}): what was made is complete."
            ) from error


AS_USUAL = Run()
"""On threads, in words, with progress."""


def run_step(step: steps.Step, run: Run) -> None:
    """Run a step and show its result."""
    with run.running():
        result = step.carried_out()
        for number in store.ENDING:
            signal.signal(number, unheard)  # it is done, and code 2 would have it done again
    run.show(result | {"step": step.title}, in_words)


def run_steps(job: list[steps.Step], overwrite: bool, run: Run) -> None:
    """Run the steps of a job: the result of each in words as it ends, or for machines those of all."""
    results = steps.run_job(job, overwrite, run.say, lambda result: None if run.json else run.show(result, in_words))
    if run.json:
        run.show(results, str)

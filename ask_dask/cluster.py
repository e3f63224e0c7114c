"""A place to run: threads of this process, local processes, or a scheduler that is already there."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
from dask.system import CPU_COUNT

from ask_dask.compute import connected
from ask_dask.errors import InputError

log = logging.getLogger("ask_dask")

TIMEOUT = "10s"
"""How long a scheduler may take to answer."""

DEATHS = 10
"""Workers that may die at one task, which then is what kills them; dask's own 3 is met by chance where workers are
pre-empted. Of a scheduler that others start: DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=10."""


@contextmanager
def running_on(spec: str = "threads", workers: int | None = None) -> Iterator[None]:
    """Everything computed inside runs there.

    Parameters
    ----------
    spec : str
        "threads" (of this process), "processes" (a scheduler and workers of one thread each, on loopback), the
        address of a scheduler ("tcp://host:8786"), or the path of its scheduler file.
    workers : int, optional
        Threads or processes; by default one for each core.

    Raises
    ------
    InputError
        No such place, or no scheduler answers there.

    Examples
    --------
    >>> with running_on("threads", workers=2):
    ...     dask.config.get("num_workers")
    2
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers={workers} must be 1 or more.")
    if spec == "threads":
        with dask.config.set(scheduler="threads", num_workers=workers or CPU_COUNT):
            yield
        return
    from distributed import Client, LocalCluster

    if spec == "processes":
        with _interrupts_held(), dask.config.set({"distributed.scheduler.allowed-failures": DEATHS}):
            cluster = LocalCluster(
                n_workers=workers or CPU_COUNT,
                threads_per_worker=1,
                dashboard_address=None,
                host="127.0.0.1",
                silence_logs=logging.CRITICAL,  # what goes wrong is raised here
            )
        with cluster, Client(cluster):
            yield
        return
    if "://" not in spec and not Path(spec).is_file():
        raise InputError(
            f"There is no cluster {spec!r}: give threads, processes, a scheduler's address (tcp://host:8786) or the "
            "path of its scheduler file."
        )
    try:
        client = Client(spec, timeout=TIMEOUT) if "://" in spec else Client(scheduler_file=spec, timeout=TIMEOUT)
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise InputError(
            f"No scheduler answers at {spec} ({str(error) or 'no answer'}): check that it runs."
        ) from error
    with client, connected(client, spec):
        if not client.nthreads():
            log.warning("The scheduler at %s has no workers yet: waiting for the first.", spec)
        yield


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits, and processes started inside never get it: they are ended by this one, without a word."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # when it starts, it lets SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

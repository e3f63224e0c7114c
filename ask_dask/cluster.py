"""A place to run: threads of this process, local processes, or a scheduler that is already there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
from dask.system import CPU_COUNT

from ask_dask.errors import InputError


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
        cluster = LocalCluster(
            n_workers=workers or CPU_COUNT, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
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
        client = Client(spec, timeout="10s") if "://" in spec else Client(scheduler_file=spec, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"No scheduler answers at {spec} ({error}): check that it runs.") from error
    with client:
        yield

"""Threads of this process, local processes, jobs of SLURM, or a scheduler that is already there."""

import logging
import platform
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask
from dask.system import CPU_COUNT

from ask_dask.cluster.security import LOOPBACK, own_security, security_for, temporary_security
from ask_dask.compute import connected
from ask_dask.errors import InputError

log = logging.getLogger("ask_dask")

ALLOCATOR = {
    f"distributed.nanny.pre-spawn-environ.MALLOC_{name}_THRESHOLD_": size << 20
    for name, size in (("MMAP", 32), ("TRIM", 64))
}
"""What glibc comes to by itself in any process, and not in dask's workers, which are to return each block at once: a
worker then asks the system for every temporary array anew, and a pass takes a fifth longer."""
UNWATCHED = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms"}
"""What no dashboard shows is not sampled, and loops that wait are not woken 50 times a second: on two cores a pass of
two workers takes a tenth less."""
TIMEOUT = "10s"
"""How long a scheduler may take to answer."""
DEATHS = 10
"""Workers that may die at one task, which then is what kills them; dask's own 3 is met by chance where workers are
pre-empted. Of a scheduler that others start: DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=10."""
NO_DASHBOARD = {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
"""Of a scheduler: what it serves by HTTP even so (its health) stays on this machine."""


@contextmanager
def running_on(
    spec: str = "threads", workers: int | None = None, host: str | None = None, tls: Path | str | None = None
) -> Iterator[None]:
    """Everything computed inside runs there.

    Parameters
    ----------
    spec : str
        "threads" (of this process), "processes" (a scheduler and workers of one thread each), "slurm" (a scheduler
        here and workers as jobs, by dask-jobqueue and its configuration), the address of a scheduler
        ("tcp://host:8786"), or the path of its scheduler file.
    workers : int, optional
        Threads or processes; by default one for each core. "slurm" needs it.
    host : str, optional
        Where a scheduler that is started here listens; by default loopback, with "slurm" this machine's address.
        Beyond loopback it talks TLS, and both sides show certificates.
    tls : path, optional
        A folder with ca.pem, cert.pem and key.pem; by default temporary ones for a cluster that is started here, and
        those of dask's configuration (distributed.comm.tls) for a scheduler that is there.

    Raises
    ------
    InputError
        No such place, no scheduler answers there, or it takes none but those with certificates.

    Examples
    --------
    >>> with running_on("threads", workers=2):
    ...     dask.config.get("num_workers")
    2
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers={workers} must be 1 or more.")
    if host and spec not in STARTED:
        raise InputError(
            f"A host to listen on is for {' and '.join(STARTED)}, which start a scheduler, not for {spec}."
        )
    if spec == "threads":
        with dask.config.set(scheduler="threads", num_workers=workers or CPU_COUNT):
            yield
        return
    place = STARTED[spec](workers, host, tls) if spec in STARTED else _connected(spec, tls)
    with dask.config.set({"distributed.scheduler.allowed-failures": DEATHS}), place as client, connected(client, spec):
        if not client.nthreads():
            log.warning("The scheduler at %s has no workers yet: waiting for the first.", spec)
            client.wait_for_workers(1)
        if spec != "processes":
            require_same_versions(client)
        yield


SAME = ("ask_dask", "dask", "distributed", "zarr")
"""Packages whose versions must be equal here and on workers."""


def require_same_versions(client: Any) -> None:
    """Raise InputError naming a worker that lacks a package of `SAME` or has another version or another Python."""
    for name in SAME:
        own = version(name)
        for worker, found in client.run(version, name, on_error="return").items():
            if isinstance(found, BaseException):
                raise InputError(f"The worker at {worker} has no {name}: install {name} {own} where workers run.")
            if found != own:
                raise InputError(f"The worker at {worker} has {name} {found}, and this job has {own}: install the same "
                                 "version at both.")  # fmt: skip
    own_python = platform.python_version_tuple()[:2]
    for worker, found in client.run(platform.python_version_tuple).items():
        if tuple(found[:2]) != own_python:
            raise InputError(f"The worker at {worker} runs Python {'.'.join(found)}, and this job Python "
                             f"{platform.python_version()}: use the same minor version at both.")  # fmt: skip


@contextmanager
def _processes(workers: int | None, host: str | None, tls: Path | str | None) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    security = security_for(host or LOOPBACK, tls)
    try:
        with _interrupts_held(), dask.config.set(ALLOCATOR | UNWATCHED):
            cluster = LocalCluster(
                n_workers=workers or CPU_COUNT,
                threads_per_worker=1,
                host=host or LOOPBACK,
                protocol="tls://" if security else "tcp://",
                security=security,
                dashboard_address=None,
                scheduler_kwargs=NO_DASHBOARD,
                worker_dashboard_address=NO_DASHBOARD["dashboard_address"],
                silence_logs=logging.CRITICAL,  # what goes wrong is raised here
            )
    except (OSError, RuntimeError) as error:
        raise _not_started(host or LOOPBACK, error) from error
    with cluster, Client(cluster) as client:
        yield client


@contextmanager
def _slurm(workers: int | None, host: str | None, tls: Path | str | None) -> Iterator[Any]:
    """The scheduler in this process, and jobs of workers; those that wait in the queue join when they start."""
    if workers is None:
        raise InputError("slurm needs --workers, the number of worker processes that its jobs start in all.")
    try:
        from dask_jobqueue import SLURMCluster
        from dask_jobqueue.slurm import SLURMJob
    except ImportError as error:
        raise InputError("slurm needs dask-jobqueue: pip install 'ask_dask[slurm]'.") from error
    from distributed import Client

    try:
        SLURMJob()  # reads the configuration
    except ValueError as error:
        raise InputError(
            f"slurm needs a configuration of dask-jobqueue (jobqueue.slurm), such as cluster/jobqueue.yaml in "
            f"~/.config/dask: {str(error).splitlines()[0]}"
        ) from error
    taken: list[str | None] = []
    try:
        cluster = SLURMCluster(
            job_cls=_telling(SLURMJob, taken),
            protocol="tls://",
            security=own_security(tls) if tls else temporary_security(),  # on loopback too: its workers talk TLS
            scheduler_options=NO_DASHBOARD | ({"host": host} if host else {}) | _configured("scheduler-options", {}),
            worker_extra_args=[*_configured("worker-extra-args", []), "--no-dashboard",
                               "--dashboard-address", NO_DASHBOARD["dashboard_address"]],
            shared_temp_directory=_configured("shared-temp-directory", None) or str(Path.cwd()),
            silence_logs=logging.CRITICAL,
        )  # fmt: skip
    except (OSError, RuntimeError, ValueError) as error:
        raise _not_started(host or "this machine", error) from error
    with cluster, Client(cluster) as client:
        cluster.scale(workers)
        while len(taken) < len(cluster.worker_spec):
            time.sleep(0.05)
        if any(taken):
            _refused(taken)
        yield client


def _telling(kind: Any, taken: list[str | None]) -> Any:
    """Jobs of that kind, each of which tells why it was not taken, or None; the cluster itself says nothing of it."""
    from distributed import Status

    class Job(kind):
        async def start(self) -> None:
            why = None
            try:
                await super().start()
            except Exception as error:
                why = "; ".join(str(error).rpartition("stderr:\n")[2].split("\n")).strip("; ") or repr(error)
                self.status = Status.running  # as one that waits in the queue: else the cluster does not close
            taken.append(why)

    return Job


def _refused(taken: list[str | None]) -> None:
    """Why jobs were not taken: an error where none was."""
    reasons = ", ".join(sorted({why for why in taken if why}))
    if None in taken:
        log.warning("SLURM took %d of %d jobs of workers (%s).", taken.count(None), len(taken), reasons)
        return
    raise InputError(
        f"SLURM takes no job of workers ({reasons}): check jobqueue.slurm of dask's configuration in ~/.config/dask."
    )


def _not_started(host: str, error: Exception) -> InputError:
    return InputError(f"No cluster starts on {host}: {error.__cause__ or error}.")


def _configured(name: str, default: Any) -> Any:
    return dask.config.get(f"jobqueue.slurm.{name}", default) or default


STARTED = {"processes": _processes, "slurm": _slurm}
"""Places that are started here, and end with the work."""


def _connected(spec: str, tls: Path | str | None) -> AbstractContextManager[Any]:
    """A client of a scheduler that is there."""
    from distributed import Client

    if spec == "kubernetes":
        raise InputError(
            "There is no cluster 'kubernetes': apply the manifests of cluster/kubernetes, and give their scheduler's "
            "address."
        )
    if "://" not in spec and not Path(spec).is_file():
        raise InputError(
            f"There is no cluster {spec!r}: give threads, processes, slurm, a scheduler's address (tcp://host:8786) or "
            "the path of its scheduler file."
        )
    where = {"address": spec} if "://" in spec else {"scheduler_file": spec}
    try:
        return Client(**where, timeout=TIMEOUT, security=own_security(tls) if tls else None)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AssertionError, RuntimeError) as error:
        said = str(error) or "no answer"
        raise InputError(
            f"No scheduler answers at {spec} ({said}): check that it runs, and give --tls FOLDER if it asks for "
            "certificates."
        ) from error


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits, and processes started inside never get it: they are ended by this one, without a word."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # when it starts, it lets SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

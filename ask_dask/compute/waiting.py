"""Waiting for the futures of a cluster: each is told as it ends, and what can no longer end is said.

Workers may die: the scheduler gives their tasks to others, and waits for others where there are none. What cannot go on
is a task that killed worker after worker, workers that all wait for memory, and a scheduler that is gone.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dask

from ask_dask.errors import AskDaskError, Stopped

log = logging.getLogger("ask_dask")

LOOK = 10.0
"""Seconds between looks at the workers."""

PATIENCE = 60.0
"""Seconds for which all workers may do nothing for want of memory."""

IDLE = 60.0
"""Most seconds for which a job that is cut off waits for the tasks that run: a time limit gives it two minutes."""

GONE = ("scheduler-connection-lost", "scheduler-restart")
"""Reasons of distributed for giving up what it was asked for: the scheduler that knew of it is gone."""


class ValuesLost(AskDaskError):
    """Every worker died that held a value which tasks take."""


def each_done(
    client: Any,
    submit: Callable[[int], Any],
    number: int,
    done: Callable[[int, Any], None],
    ahead: Callable[[], int] | None = None,
) -> None:
    """`done` is told the place and the value of each future as it ends; the cluster then forgets it.

    An interrupt is raised when those that had ended by then were told too, and none runs any more.

    Parameters
    ----------
    submit : callable
        Place, of 0 .. number - 1 -> future.
    ahead : callable, optional
        No place is submitted that is so many beyond the first that has not ended: what comes early and has to wait is
        bounded, and the first results are told before the last places are submitted. Asked each time: workers come.
    """
    futures, last = _Futures(submit, number, ahead or (lambda: number)), -1
    try:
        for last, future in _as_they_end(client, futures):
            done(last, future.result())
            future.release()
    except BaseException as error:
        for place, future in futures.waiting.values():
            if isinstance(error, KeyboardInterrupt) and place != last and future.status == "finished":
                with suppress(Exception):  # the worker that has it may be what was lost
                    done(place, future.result(LOOK))
            future.release()
        with suppress(Exception):  # the scheduler may be what was lost
            if client.status == "running":
                client.run(_until_idle, IDLE, on_error="ignore")
        said = _in_words(error)
        if said is error:
            raise
        raise said from error


class _Futures:
    """Those that were submitted and have not ended."""

    def __init__(self, submit: Callable[[int], Any], number: int, ahead: Callable[[], int]) -> None:
        self.submit, self.number, self.ahead, self.next = submit, number, ahead, 0
        self.waiting: dict[str, tuple[int, Any]] = {}

    def more(self) -> list[Any]:
        """Submit what may be."""
        if self.next == self.number:
            return []
        first = min((place for place, _ in self.waiting.values()), default=self.next)
        places = range(self.next, min(self.number, first + self.ahead()))
        new = {future.key: (place, future) for place in places for future in [self.submit(place)]}
        self.waiting |= new
        self.next += len(new)
        return [future for _, future in new.values()]


def _as_they_end(client: Any, futures: _Futures) -> Iterator[tuple[int, Any]]:
    from distributed import as_completed

    watch = _Watch(client)
    while futures.more() or futures.waiting:
        ended = as_completed([future for _, future in futures.waiting.values()], raise_errors=False, timeout=LOOK)
        try:
            for future in ended:
                yield futures.waiting[future.key][0], future
                del futures.waiting[future.key]
                watch.stuck_since = None
                ended.update(futures.more())
        except TimeoutError:
            watch.look()


class _Watch:
    """Looks now and then whether the workers can work."""

    def __init__(self, client: Any) -> None:
        self.client, self.told = client, False
        self.stuck_since: float | None = None

    def look(self) -> None:
        """Raises AskDaskError where all have waited for memory too long."""
        workers = self.client.run_on_scheduler(_workers)
        if not workers and not self.told:
            log.warning("There are no workers: waiting for some.")
        self.told = not workers
        if not workers or any(works for works, _ in workers):
            self.stuck_since = None
            return
        now = time.monotonic()
        self.stuck_since = self.stuck_since or now
        if now - self.stuck_since >= PATIENCE:
            raise AskDaskError(
                f"All {len(workers)} workers have been at their memory limit for {PATIENCE:.0f} s and do nothing: give "
                "them more memory (dask worker --memory-limit), or use a smaller --memory or fewer landmarks."
            )


def _workers(dask_scheduler: Any) -> list[tuple[bool, int]]:
    """On the scheduler: whether each worker works or could, and its bytes."""
    return [
        (worker.status.name != "paused" or bool(worker.executing), worker.metrics.get("memory", 0))
        for worker in dask_scheduler.workers.values()
    ]


def inside_task() -> bool:
    """Return whether this runs inside a task of a distributed worker, as where an estimator is given to `submit`.

    Such a task must not wait for others, which may need its thread: all of it is computed in that thread, as a worker
    plans for. Only where the input is on the cluster the task leaves the worker's pool meanwhile (`left_pool`).
    """
    if "distributed.worker" not in sys.modules:
        return False
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


@contextmanager
def left_pool(tasks: Any) -> Iterator[Any]:
    """Yield the Client that computes what is on the cluster already, from inside a task; None where nothing is."""
    from distributed import get_client, rejoin, secede
    from distributed.client import futures_of

    graphs = [dict(task.__dask_graph__()) for task in tasks]
    # an optimised graph only names what the scheduler has
    named = any(not getattr(node, "dependencies", set()) <= graph.keys() for graph in graphs for node in graph.values())
    if not named and not futures_of(list(tasks)):
        yield None
        return
    secede()
    try:
        yield get_client()
    finally:
        rejoin()


def current_client() -> Any:
    """Return the distributed Client that computes here, None where threads or processes of this machine do."""
    if inside_task():
        return None
    owner = getattr(dask.base.get_scheduler(), "__self__", None)
    return owner if hasattr(owner, "submit") and hasattr(owner, "scheduler_info") else None


def memory_elsewhere() -> int:
    """Bytes that the workers of a scheduler which was there before take; others are processes of this one."""
    client = current_client()
    if client is None or client.cluster is not None:
        return 0
    return sum(memory for _, memory in client.run_on_scheduler(_workers))


def _in_words(error: BaseException) -> BaseException:
    """What distributed raises as what a user can put right; all else as it is."""
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return AskDaskError(
            f"Workers died, the last at {error.last_worker.address}, most likely for want of memory: give them "
            "more, or use fewer."
        )
    if getattr(error, "reason", None) == "lost dependencies":
        return ValuesLost("Every worker died that held what the tasks take: give them more memory, or use fewer.")
    return error


@contextmanager
def connected(client: Any, where: str) -> Iterator[None]:
    """Raises Stopped where what runs inside fails because the scheduler is gone."""
    for name in ("", ".client", ".core", ".utils"):  # what goes wrong is raised here
        logging.getLogger(f"distributed{name}").setLevel(logging.CRITICAL)
    try:
        yield
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if client.status == "running" and getattr(error, "reason", None) not in GONE:
            raise
        raise Stopped(
            f"The scheduler at {where} is gone, and its workers with it; complete stores and checkpoints are kept: "
            "start both, and the same command goes on."
        ) from error


async def _until_idle(seconds: float, dask_worker: Any) -> None:
    """Wait on a worker for the tasks that still run there: after one failed, none still writes to a store."""
    await asyncio.sleep(0.2)  # what the client gave up is known here by then
    until = time.monotonic() + seconds
    while dask_worker.state.executing_count and time.monotonic() < until:
        await asyncio.sleep(0.05)

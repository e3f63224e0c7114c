"""Tasks on threads of this process, or on a cluster: results in order, sums in order."""

import operator
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import dask
import dask.threaded
import numpy as np
from dask.delayed import Delayed
from dask.system import CPU_COUNT

from ask_dask.compute.allocator import give_back_freed_memory
from ask_dask.compute.bars import progress
from ask_dask.compute.blas import one_blas_thread
from ask_dask.compute.pairs import OF_MANY, Sums, halves, joined
from ask_dask.compute.waiting import ValuesLost, current_client, each_done, inside_task, left_pool


def task(function: Callable[..., Any]) -> Callable[..., Delayed]:
    """Return a function that makes a task of a call, for `run` and `run_sum`."""
    return dask.delayed(function, pure=False, traverse=False)


def shared(value: Any) -> Delayed:
    """Return an argument of many tasks, which goes to each worker once."""
    return dask.delayed(value, pure=False, traverse=False)


def is_dask(value: Any) -> bool:
    """Return whether a value is a dask collection, which is still to be computed."""
    return bool(dask.is_dask_collection(value))


def here(array: Any) -> np.ndarray:
    """Return a lazy array as numpy, computed in this thread."""
    with dask.config.set(scheduler="synchronous"):
        return np.asarray(array)


def run(
    tasks: Sequence[Delayed], label: str | None, unit: str = "shards", local: bool = False, rows: int | None = None
) -> list[Any]:
    """Compute the tasks together and return their results in order; progress is shown inside `progress_shown`.

    Without a label none is shown: for small work, and for steps of a loop that shows its own.
    `local` keeps them in threads of this process whatever the scheduler, for small work on large arguments.
    `rows` are those of all tasks, for the log.
    """
    if not tasks:
        return []
    with progress(label, len(tasks), unit, rows=rows) as advance:
        keys = {task.key for task in tasks}

        def told(key: Any, _: Any) -> None:
            if key in keys:
                advance()

        if local:
            with dask.config.set(scheduler="threads"):
                return _run_local(tasks, told)
        with _client_of(tasks) as client:
            return _run_distributed(client, tasks, advance) if client else _run_local(tasks, told)


def run_sum(
    parts: Sequence[Delayed],
    label: str | None,
    unit: str = "shards",
    known: Sums | None = None,
    told: Callable[[Sums], None] = lambda known: None,
    rows: int | None = None,
) -> Any:
    """Return the sum of the parts (anything with +), in an order that does not depend on who was done first.

    Without a label no progress is shown.

    Parameters
    ----------
    known : Sums, optional
        What is known of it, and not computed again.
    told : callable
        Told what is known whenever that is more: sums of neighbours, until all are one.
    rows : int, optional
        Of all parts, for the log.
    """
    known = joined(known or {}, len(parts), operator.add)
    done = sum(stop - start for start, (stop, _) in known.items())
    with progress(label, len(parts), unit, done, rows) as advance:
        if done == len(parts):
            return known[0][1]
        with _client_of(parts) as client:
            if client:
                return _sum_distributed(client, parts, known, told, advance)
            return _sum_local(parts, known, told, advance)


def _client_of(tasks: Sequence[Delayed]) -> AbstractContextManager[Any]:
    """Return the Client that computes tasks, None where this process does."""
    return left_pool(tasks) if inside_task() else nullcontext(current_client())


def _unknown(known: Sums, total: int, height: int) -> list[tuple[int, int]]:
    """Return the parts of all that are not known, so many neighbours together where none of them is.

    >>> _unknown({0: (2, "sum"), 5: (6, "part")}, 8, 2)
    [(2, 4), (4, 5), (6, 8)]
    """
    found, at = [], 0
    for start, stop in (*sorted((start, stop) for start, (stop, _) in known.items()), (total, total)):
        while at < start:
            after = min(at + height, total)
            found.append((at, after if at % height == 0 and after <= start else at + 1))
            at = found[-1][1]
        at = stop
    return found


def _sum_local(parts: Sequence[Delayed], known: Sums, told: Callable[[Sums], None], advance: Callable[[], None]) -> Any:
    """As a graph of additions, which also has the parts computed about in their order."""
    spans: dict[Any, tuple[int, int]] = {}
    whole = _additions(parts, known, 0, len(parts), spans)

    def ended(key: Any, value: Any) -> None:
        nonlocal known
        if key in spans:
            start, stop = spans[key]
            if stop == start + 1:
                advance()
            known = {first: sums for first, sums in known.items() if not start <= first < stop} | {start: (stop, value)}
            told(known)

    return _run_local([whole], ended)[0]


def _additions(
    parts: Sequence[Delayed], known: Sums, start: int, stop: int, spans: dict[Any, tuple[int, int]]
) -> Delayed:
    """Return the sum of parts start .. stop - 1 as a task, and write down of which parts each task below it is."""
    if start in known and known[start][0] == stop:
        return dask.delayed(known[start][1], traverse=False, pure=False)
    middle, found = halves(start, stop, len(parts)), parts[start]
    if middle is not None:
        halved = (_additions(parts, known, *half, spans) for half in ((start, middle), (middle, stop)))
        found = dask.delayed(operator.add, pure=False)(*halved)
    spans[found.key] = start, stop
    return found


def _sum_distributed(
    client: Any, parts: Sequence[Delayed], known: Sums, told: Callable[[Sums], None], advance: Callable[[], None]
) -> Any:
    """Added here; of many workers the parts come in groups."""
    height = next(height for height in (OF_MANY, 4, 2, 1) if height <= max(1, workers() // 4))
    bounds = _unknown(known, len(parts), height)
    groups = [parts[start:stop] for start, stop in bounds]
    sums = [group[0] if len(group) == 1 else dask.delayed(_added, pure=False)(*group) for group in groups]

    def take(place: int, value: Any) -> None:
        nonlocal known
        start, stop = bounds[place]
        known = joined(known | {start: (stop, value)}, len(parts), operator.add)
        told(known)
        for _ in groups[place]:
            advance()

    def submit(place: int) -> Any:
        return client.compute(sums[place], optimize_graph=False, priority=-place)

    each_done(client, submit, len(sums), take, lambda: max(2, AHEAD * workers() // height))
    return known[0][1]


AHEAD = 4
"""Parts of a sum for each worker that may wait, run or have come too early."""


def _added(*parts: Any) -> Any:
    return joined({i: (i + 1, part) for i, part in enumerate(parts)}, len(parts), operator.add)[0][1]


class Shared:
    """One value that many tasks, of many runs, take first: it goes to each worker of a cluster once.

    Where every worker that had it died it goes there again.
    """

    def __init__(self, value: Any) -> None:
        self.value, self._there = value, _spread(value)

    def run(self, function: Callable[..., Any], argument_lists: Sequence[tuple], label: str | None = None) -> list[Any]:
        """`function(value, *arguments)` for each list of arguments, in order."""
        task = dask.delayed(function, pure=False)
        for _ in range(AGAIN):
            try:
                return run([task(self._there, *arguments) for arguments in argument_lists], label)
            except ValuesLost:
                self._there = _spread(self.value)
        return run([task(self._there, *arguments) for arguments in argument_lists], label)


AGAIN = 20
"""How often a run starts again because all workers were lost."""


def _spread(value: Any) -> Delayed:
    client = current_client()
    if client is None:
        return dask.delayed(value, traverse=False, pure=False)
    client.wait_for_workers(1)
    return dask.delayed(client.scatter(value, broadcast=True, hash=False), pure=False)


def workers() -> int:
    """Return how many tasks run at the same time under the current scheduler."""
    if inside_task():
        return 1
    client = current_client()
    if client:
        return max(1, sum(client.nthreads().values()))
    return dask.config.get("num_workers", None) or CPU_COUNT


def machine_memory() -> int:
    """Bytes of memory that this process may use (cgroup limits counted)."""
    from distributed.system import MEMORY_LIMIT

    return MEMORY_LIMIT


def _run_local(tasks: Sequence[Delayed], done: Callable[[Any, Any], None]) -> list[Any]:
    """Results in order; `done` is told the key and the value of each task of the graph as it ends."""

    def told(key: Any, value: Any, *_: Any) -> None:
        done(key, value)

    # As arguments: settings and active callbacks belong to the process, where other threads may be computing too.
    compute = partial(dask.compute, *tasks, optimize_graph=False, callbacks=[(None, None, None, told, None)])
    give_back_freed_memory()
    with one_blas_thread():
        if inside_task():
            return list(compute(scheduler="synchronous"))
        if dask.base.get_scheduler() not in (None, dask.threaded.get):
            return list(compute())
        with ThreadPoolExecutor(workers()) as pool:  # left when all threads have ended: none still writes to a store
            return list(compute(pool=pool))


def _run_distributed(client: Any, tasks: Sequence[Delayed], advance: Callable[[], None]) -> list[Any]:
    """Results in order."""
    found: list[Any] = [None] * len(tasks)

    def done(place: int, value: Any) -> None:
        found[place] = value
        advance()

    futures = dict(enumerate(client.compute(list(tasks), optimize_graph=False)))
    each_done(client, futures.pop, len(tasks), done)
    return found

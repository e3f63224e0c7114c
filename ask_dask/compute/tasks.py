"""Tasks on threads of this process, or on a cluster: results in order, sums in order."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import dask
import dask.threaded
from dask.delayed import Delayed
from dask.system import CPU_COUNT

from ask_dask.compute.bars import progress
from ask_dask.compute.blas import one_blas_thread
from ask_dask.compute.waiting import ValuesLost, current_client, each_done


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
        client = current_client()
        return _run_distributed(client, tasks, advance) if client else _run_local(tasks, told)


def run_sum(
    parts: Sequence[Delayed],
    label: str | None,
    unit: str = "shards",
    so_far: Any = None,
    done: int = 0,
    added: Callable[[int, Any], None] = lambda number, total: None,
    rows: int | None = None,
) -> Any:
    """The sum of the parts (anything with +) in their order, so that it does not depend on who was done first.

    Without a label no progress is shown.

    Parameters
    ----------
    so_far, done : optional
        The sum of the first `done` parts, which are not computed again.
    added : callable
        Told the number of parts in the sum, and the sum, after each addition.
    rows : int, optional
        Of all parts, for the log.
    """
    with progress(label, len(parts), unit, done, rows) as advance:
        if done == len(parts):
            return so_far
        client = current_client()
        if client:
            return _sum_distributed(client, parts, so_far, done, added, advance)
        return _sum_local(parts, so_far, done, added, advance)


def _sum_local(
    parts: Sequence[Delayed], so_far: Any, done: int, added: Callable[[int, Any], None], advance: Callable[[], None]
) -> Any:
    """As a chain of additions, which also has the parts computed in their order."""
    add, total, numbers = dask.delayed(_added, pure=False), so_far, {}
    for number, part in enumerate(parts[done:], done + 1):
        total = part if total is None else add(total, part)
        numbers[total.key] = number
    keys = {part.key for part in parts}

    def told(key: Any, value: Any) -> None:
        if key in keys:
            advance()
        if key in numbers:
            added(numbers[key], value)

    return _run_local([total], told)[0]


def _sum_distributed(
    client: Any,
    parts: Sequence[Delayed],
    so_far: Any,
    done: int,
    added: Callable[[int, Any], None],
    advance: Callable[[], None],
) -> Any:
    """Added here; of many workers the parts come in groups, those that are early wait for those before them."""
    height = max(1, min(8, workers() // 4))
    groups = [parts[start : start + height] for start in range(done, len(parts), height)]
    sums = [group[0] if len(group) == 1 else dask.delayed(_added, pure=False)(*group) for group in groups]
    total, number, early = so_far, 0, {}

    def take(place: int, value: Any) -> None:
        nonlocal total, number
        early[place] = value
        while number in early:
            value = early.pop(number)
            total = value if total is None else total + value
            number += 1
            added(min(done + number * height, len(parts)), total)
        for _ in groups[place]:
            advance()

    def submit(place: int) -> Any:
        return client.compute(sums[place], optimize_graph=False, priority=-place)

    each_done(client, submit, len(sums), take, lambda: max(2, AHEAD * workers() // height))
    return total


AHEAD = 4
"""Parts of a sum for each worker that may wait, run or have come too early."""


def _added(first: Any, *rest: Any) -> Any:
    for part in rest:
        first = first + part
    return first


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
    """Tasks that run at the same time under the current scheduler."""
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
    with one_blas_thread():
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

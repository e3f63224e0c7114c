"""Tasks on threads of this process, or on a cluster: results in order, sums in order."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

import dask
import dask.threaded
from dask.delayed import Delayed
from dask.system import CPU_COUNT

from ask_dask.compute.bars import progress
from ask_dask.compute.blas import one_blas_thread
from ask_dask.compute.waiting import ValuesLost, current_client, each_done

Sums: TypeAlias = dict[int, tuple[int, Any]]
"""{start: (stop, the sum of the parts start .. stop - 1)}; at 0 the sum so far."""


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
    known: Sums | None = None,
    told: Callable[[Sums], None] = lambda known: None,
    rows: int | None = None,
) -> Any:
    """The sum of the parts (anything with +) in their order, so that it does not depend on who was done first.

    Without a label no progress is shown.

    Parameters
    ----------
    known : Sums, optional
        What is known of it, and not computed again.
    told : callable
        Told what is known whenever that is more: the sum so far, and parts that wait for those before them.
    rows : int, optional
        Of all parts, for the log.
    """
    known = _joined(known or {})
    done = sum(stop - start for start, (stop, _) in known.items())
    with progress(label, len(parts), unit, done, rows) as advance:
        if done == len(parts):
            return known[0][1]
        client = current_client()
        if client:
            return _sum_distributed(client, parts, known, told, advance)
        return _sum_local(parts, known, told, advance)


def _joined(known: Sums) -> Sums:
    """The same, the sum so far with all that follows it."""
    known = dict(known)
    while 0 in known and known[0][0] in known:
        middle, total = known[0]
        stop, value = known.pop(middle)
        known[0] = stop, total + value
    return known


def _unknown(known: Sums, number: int, height: int) -> list[tuple[int, int]]:
    """Parts of all that are not known, at most so many together.

    >>> _unknown({0: (2, "sum"), 5: (6, "part")}, 8, 2)
    [(2, 4), (4, 5), (6, 8)]
    """
    found, at = [], 0
    for start, stop in (*sorted((start, stop) for start, (stop, _) in known.items()), (number, number)):
        found += [(first, min(first + height, start)) for first in range(at, start, height)]
        at = stop
    return found


def _sum_local(parts: Sequence[Delayed], known: Sums, told: Callable[[Sums], None], advance: Callable[[], None]) -> Any:
    """As a chain of additions, which also has the parts computed in their order."""
    add = dask.delayed(_added, pure=False)
    given = {start: dask.delayed(value, traverse=False, pure=False) for start, (_, value) in known.items()}
    singles = _unknown(known, len(parts), 1)
    first, *others = sorted([*singles, *((start, stop) for start, (stop, _) in known.items())])
    total = given.get(0, parts[0])
    starts, stops = {parts[start].key: start for start, _ in singles}, {total.key: first[1]}
    for start, stop in others:
        total = add(total, given.get(start, parts[start]))
        stops[total.key] = stop

    def ended(key: Any, value: Any) -> None:
        nonlocal known
        if key in starts:
            advance()
            known = known | {starts[key]: (starts[key] + 1, value)}
        if key in stops:
            known = {start: sums for start, sums in known.items() if start >= stops[key]} | {0: (stops[key], value)}
        early = key in starts and starts[key] != known.get(0, (0,))[0]
        if key in stops or early:  # else it is added next, and then told
            told(known)

    return _run_local([total], ended)[0]


def _sum_distributed(
    client: Any, parts: Sequence[Delayed], known: Sums, told: Callable[[Sums], None], advance: Callable[[], None]
) -> Any:
    """Added here; of many workers the parts come in groups."""
    height = max(1, min(8, workers() // 4))
    bounds = _unknown(known, len(parts), height)
    groups = [parts[start:stop] for start, stop in bounds]
    sums = [group[0] if len(group) == 1 else dask.delayed(_added, pure=False)(*group) for group in groups]

    def take(place: int, value: Any) -> None:
        nonlocal known
        start, stop = bounds[place]
        known = _joined(known | {start: (stop, value)})
        told(known)
        for _ in groups[place]:
            advance()

    def submit(place: int) -> Any:
        return client.compute(sums[place], optimize_graph=False, priority=-place)

    each_done(client, submit, len(sums), take, lambda: max(2, AHEAD * workers() // height))
    return known[0][1]


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

"""Seconds and peak memory of a step."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psutil

from ask_dask.compute.allocator import give_back_freed_memory


@contextmanager
def measured(steps: list[dict[str, Any]], name: str, **facts: Any) -> Iterator[None]:
    """Append {"step", "seconds", "peak_bytes"} of the block to `steps`, and facts (JSON values) if there are any.

    The peak is the largest resident memory of this process and its children together, sampled every 50 ms.
    """
    give_back_freed_memory()
    me = psutil.Process()
    first = me.children(recursive=True)
    peak, stop = [_resident(me, first)], threading.Event()

    def sample() -> None:
        children, n = first, 0
        while not stop.wait(0.05):
            n += 1
            if n % 20 == 0:  # to look for them takes a look at every process of the machine
                children = me.children(recursive=True)
            peak[0] = max(peak[0], _resident(me, children))

    sampler, started = threading.Thread(target=sample, daemon=True), time.monotonic()
    sampler.start()
    try:
        yield
    finally:
        stop.set()
        sampler.join()
        steps.append(
            {
                "step": name,
                "seconds": round(time.monotonic() - started, 3),
                "peak_bytes": max(peak[0], _resident(me, me.children(recursive=True))),
                **facts,
            }
        )


def resident() -> int:
    """Bytes of resident memory of this process and its children."""
    me = psutil.Process()
    return _resident(me, me.children(recursive=True))


def _resident(me: psutil.Process, children: Sequence[psutil.Process]) -> int:
    total = me.memory_info().rss
    for child in children:
        try:
            total += child.memory_info().rss
        except psutil.Error:
            continue
    return total

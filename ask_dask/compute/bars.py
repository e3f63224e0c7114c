"""Progress on stderr, with an estimate of what is left."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ask_dask.compute.measure import resident
from ask_dask.compute.waiting import memory_elsewhere

log = logging.getLogger("ask_dask")


_shown, _logged = False, False


@contextmanager
def progress_shown(shown: bool = True, logged: bool = False) -> Iterator[None]:
    """Show progress on stderr inside: a bar in a terminal, plain lines elsewhere; or `logged`, as records of the log.

    A record has `facts`: step, done, total, unit, seconds, seconds_left, memory_bytes and, of rows, rows_per_second.
    """
    global _shown, _logged
    before, (_shown, _logged) = (_shown, _logged), (shown, logged)
    try:
        yield
    finally:
        _shown, _logged = before


@contextmanager
def progress(
    label: str | None, total: int, unit: str, done: int = 0, rows: int | None = None
) -> Iterator[Callable[[], None]]:
    """Progress of a loop: call what is yielded once for each of `total` units, of which some may be done.

    `rows` are those of all units, for the log.
    """
    started = time.monotonic()
    if not (_shown and label):
        yield lambda: None
    elif _logged:
        with _Records(label, total, unit, done, rows) as records:
            yield records.advance
    elif sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} " + unit),
                   TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())  # fmt: skip
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(label, total=total, completed=done)
            yield lambda: bar.advance(task)
    else:
        with _Lines(label, total, unit, done) as lines:
            yield lines.advance
    if label:
        log.debug("%s: %d %s in %.2f s", label, total, unit, time.monotonic() - started)


def tell(line: str) -> None:
    """A line on stderr; where it cannot be written (a pipe that was closed, a disk that is full) the work goes on."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


class _Lines:
    """A plain line every ten seconds or less often, and at the end."""

    def __init__(self, label: str, total: int, unit: str, done: int = 0, rows: int | None = None) -> None:
        self.label, self.total, self.unit, self.before, self.rows = label, total, unit, done, rows
        self.done, self.started, self.said = done, time.monotonic(), time.monotonic()
        self.lock = threading.Lock()

    def __enter__(self) -> "_Lines":
        return self

    def advance(self) -> None:
        with self.lock:
            self.done += 1
            now = time.monotonic()
            if now - self.said < 10 or self.done == self.total:
                return
            self.said, taken = now, now - self.started
        left = taken / (self.done - self.before) * (self.total - self.done)
        self.say(f"{self.label}: {self.done}/{self.total} {self.unit}, {taken:.0f} s, about {left:.0f} s left",
                 taken, left)  # fmt: skip

    def __exit__(self, kind: Any, *_: Any) -> None:
        end = f"stopped, {self.done}/{self.total}" if kind else f"done, {self.total}"
        taken = time.monotonic() - self.started
        self.say(f"{self.label}: {end} {self.unit}, {taken:.1f} s", taken, None if kind else 0.0)

    def say(self, line: str, taken: float, left: float | None) -> None:
        tell(line)


class _Records(_Lines):
    """The same as records of the log, with facts beside the line, and one at the start."""

    def __enter__(self) -> "_Records":
        self.say(f"{self.label}: started, {self.done}/{self.total} {self.unit}", 0.0, None)
        return self

    def say(self, line: str, taken: float, left: float | None) -> None:
        facts = {"step": self.label, "done": self.done, "total": self.total, "unit": self.unit,
                 "seconds": round(taken, 3), "seconds_left": None if left is None else round(left, 1)}  # fmt: skip
        if self.rows is not None and taken:
            facts["rows_per_second"] = round(self.rows * (self.done - self.before) / self.total / taken, 1)
        with suppress(Exception):  # a scheduler that is gone is told by what waits for it
            facts["memory_bytes"] = resident() + memory_elsewhere()
        log.info(line, extra={"facts": facts})

"""Progress on stderr, with an estimate of what is left."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

log = logging.getLogger("ask_dask")


_shown = False


@contextmanager
def progress_shown(shown: bool = True) -> Iterator[None]:
    """Show progress on stderr inside: a bar in a terminal, plain lines elsewhere."""
    global _shown  # noqa: PLW0603
    before, _shown = _shown, shown
    try:
        yield
    finally:
        _shown = before


@contextmanager
def progress(label: str | None, total: int, unit: str, done: int = 0) -> Iterator[Callable[[], None]]:
    """Progress of a loop: call what is yielded once for each of `total` units, of which some may be done."""
    started = time.monotonic()
    if not (_shown and label):
        yield lambda: None
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


class _Lines:
    """A plain line every ten seconds or less often, and at the end."""

    def __init__(self, label: str, total: int, unit: str, done: int = 0) -> None:
        self.label, self.total, self.unit, self.before = label, total, unit, done
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
        print(f"{self.label}: {self.done}/{self.total} {self.unit}, {taken:.0f} s, about {left:.0f} s left",
              file=sys.stderr, flush=True)  # fmt: skip

    def __exit__(self, kind: Any, *_: Any) -> None:
        end = f"stopped, {self.done}/{self.total}" if kind else f"done, {self.total}"
        print(f"{self.label}: {end} {self.unit}, {time.monotonic() - self.started:.1f} s",
              file=sys.stderr, flush=True)  # fmt: skip

"""Signals that wait until what must be whole is written."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ENDING: tuple[int, ...] = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Signals that end a job from outside: a time limit, a pre-emption, a terminal that is gone."""

HELD: tuple[int, ...] = (signal.SIGINT, *ENDING)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP until what runs inside has ended; the second one is not held."""
    if threading.current_thread() is not threading.main_thread():  # signals never come there
        yield
        return
    came: list[int] = []
    former: dict[int, Any] = {}

    def hold(number: int, frame: Any) -> None:
        if came and callable(former.get(number)):
            former[number](number, frame)
        came.append(number)

    try:
        for number in HELD:
            former[number] = signal.signal(number, hold)
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler or signal.SIG_DFL)
        for number in came[:1]:
            signal.raise_signal(number)

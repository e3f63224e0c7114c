"""What interrupted work goes on from: a store, written now and then, and used only for the same problem."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ask_dask.errors import CheckpointError, InputError, StoreError
from ask_dask.store.arrays import array, read, write_as_is
from ask_dask.store.attributes import about, describe
from ask_dask.store.opening import open_store
from ask_dask.store.places import located
from ask_dask.store.publish import create, erase, settle
from ask_dask.store.signals import undisturbed

log = logging.getLogger("ask_dask")

SHARE = 0.02
"""Of the time since the start that all writing may take."""

SECONDS = 0.02
"""What a write is taken to need at least."""

RATE = 500e6
"""Bytes a second that the first write is taken to need; each later one is taken to need what the last did."""


class Checkpoint:
    """Arrays in a store beside the result.

    Parameters
    ----------
    path : path
    problem : str
        Fingerprint of everything that decides the result.
    """

    def __init__(self, path: str | os.PathLike, problem: str) -> None:
        self.path, self.problem = located(path), problem
        self._started, self._before = time.monotonic(), 0.0
        self._cost: float | None = None
        self._latest: tuple[Callable[[], dict[str, np.ndarray]], dict[str, Any]] | None = None
        self.writes, self.spent = 0, 0.0

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays, or None when there is no checkpoint.

        Raises
        ------
        CheckpointError
            What is there is of another problem, damaged, or no checkpoint.
        """
        settle(self.path)
        if not self.path.exists():
            return None
        try:
            group = open_store(self.path, "checkpoint")
            found = {name: read(array(group, name)) for name, _ in group.arrays()}
        except StoreError as error:
            raise CheckpointError(f"{error} A checkpoint may be removed, or replaced with --overwrite.") from error
        if about(group)["problem"] != self.problem:
            raise CheckpointError(
                f"{self.path} is the checkpoint of another fit (other data or parameters): remove it, pass --overwrite "
                "to replace it, or name another place."
            )
        self._before = about(group).get("seconds", 0.0)
        return found

    def offer(self, arrays: Callable[[], dict[str, np.ndarray]], last: bool = False, **facts: Any) -> None:
        """Write the arrays if it is time, or if there will be no more; facts (JSON values) say how far they are."""
        self._latest = arrays, facts
        if self._cost is None:
            self._cost = sum(values.nbytes for values in arrays().values()) / RATE
        # Of all the time, not of that since the last write: workers that began together end together.
        if last or self.spent + max(self._cost, SECONDS) <= SHARE * (time.monotonic() - self._started):
            self.write()

    def write(self) -> None:
        """Write what was offered since the last time, if anything was."""
        if self._latest is None:
            return
        (arrays, facts), started = self._latest, time.monotonic()
        with undisturbed(), create(self.path, "checkpoint", overwrite=True) as group:
            describe(group, problem=self.problem, seconds=self._before + started - self._started, **facts)
            for name, values in arrays().items():
                write_as_is(group, name, values)
        self._latest, self._cost = None, time.monotonic() - started
        self.writes, self.spent = self.writes + 1, self.spent + self._cost

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What was offered last is written when what runs inside is cut off; where input is wrong nothing goes on."""
        try:
            yield
        except InputError:
            self.remove()
            raise
        except BaseException:
            with suppress(StoreError):  # what went wrong first is what is told
                self.write()
            raise

    def remove(self) -> None:
        """Once the result is kept."""
        log.debug("checkpoint: %d writes in %.2f s", self.writes, self.spent)
        erase(self.path)

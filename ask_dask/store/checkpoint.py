"""What interrupted work goes on from: a store, written now and then, and used only for the same problem."""

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
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
"""Of the time that all writing may take."""

OF_PARTS = 0.9
"""Of that, what parts take that are kept by whoever computed them."""

MOST = 0.3
"""Of a job's own time that its writing may take, however many its workers are."""

SECONDS = 0.02
"""What a write is taken to need at least."""

RATE = 500e6
"""Bytes a second that the first write is taken to need; each later one is taken to need what the last did."""


AHEAD = 0.5
"""Seconds that parts may take before their share of the time is theirs: else those of the first shards are left out."""


class Pace:
    """Whether it is time for a write: all writing takes no more than a share of the time, and so many seconds."""

    def __init__(self, share: float, ahead: float = 0.0) -> None:
        self.share, self.ahead, self.spent = share, ahead, 0.0
        self.cost: float | None = None

    def allows(self, arrays: Callable[[], dict[str, np.ndarray]], elapsed: float) -> bool:
        """Whether these may be written, so many seconds after the start."""
        # Of all the time, not of that since the last write: workers that began together end together.
        left = self.ahead + self.share * elapsed - self.spent
        if max(self.cost or 0, SECONDS) > left:
            return False
        if self.cost is None:
            self.cost = sum(values.nbytes for values in arrays().values()) / RATE
        return self.cost <= left

    def took(self, seconds: float) -> None:
        """What a write took is what the next one is taken to need."""
        self.cost, self.spent = seconds, self.spent + seconds


@dataclass(frozen=True)
class Parts:
    """Parts of a sum, each kept by whoever computed it, until a checkpoint has them: a store each, in one folder.

    A job that is killed then loses what is being computed, and nothing that was, on however many workers. A worker that
    does not see the folder keeps nothing.

    Attributes
    ----------
    folder : Path
    problem : str
    share : float
        Of a worker's time that all its writing may take.
    since : float
        Seconds of the clock at which the work began, less what earlier runs took.
    """

    folder: Path
    problem: str
    share: float
    since: float

    def keep(self, number: int, arrays: Callable[[], dict[str, np.ndarray]], seconds: float, **facts: Any) -> None:
        """Write a part that took so many seconds to compute, if it is time."""
        pace = _pace(self)
        pace.worked += seconds
        if not self.folder.is_dir() or not pace.allows(arrays, pace.worked):
            return
        started = time.monotonic()
        with suppress(OSError):  # it is computed again, if need be
            _write(self.folder / str(number), arrays(), problem=self.problem, seconds=time.time() - self.since, **facts)
        pace.took(time.monotonic() - started)

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove those that a checkpoint has, each at once or not at all."""
        for number in numbers:
            gone = self.folder / f".{number}"
            with suppress(OSError):
                (self.folder / str(number)).rename(gone)
            shutil.rmtree(gone, ignore_errors=True)


class _Worked(Pace):
    """Of one process, whose threads share it."""

    worked = 0.0


@lru_cache(maxsize=8)
def _pace(parts: Parts) -> _Worked:
    return _Worked(parts.share, AHEAD)


def parts_of(path: Path) -> list[Path]:
    """The parts beside a checkpoint."""
    folder = _folder(path)
    if folder is None or not folder.is_dir():
        return []
    return sorted((part for part in folder.iterdir() if part.name.isdecimal()), key=lambda part: int(part.name))


def _folder(path: Path) -> Path | None:
    """Where parts are; none on object storage, where a store is many requests."""
    return path.with_name(f".{path.name.lstrip('.')}.parts") if isinstance(path, Path) else None


def _write(path: Path, arrays: dict[str, np.ndarray], **facts: Any) -> None:
    with undisturbed(), create(path, "checkpoint", overwrite=True) as group:
        describe(group, **facts)
        for name, values in arrays.items():
            write_as_is(group, name, values)


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
        self._latest: tuple[Callable[[], dict[str, np.ndarray]], Iterable[int], dict[str, Any]] | None = None
        self.parts: Parts | None = None
        self.writes, self.pace = 0, Pace(SHARE)

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays, or None when there is no checkpoint.

        Raises
        ------
        CheckpointError
            What is there is of another problem, damaged, or no checkpoint.
        """
        settle(self.path)
        return self._read(self.path)[0] if self.path.exists() else None

    def with_parts(self, workers: int) -> list[tuple[dict[str, np.ndarray], dict[str, Any]]]:
        """Arrays and facts of the checkpoint, if there is one, and of each part; so many workers may keep parts now.

        Raises
        ------
        CheckpointError
            As `load`.
        """
        settle(self.path)
        found = [self._read(path) for path in [self.path, *parts_of(self.path)] if path.exists()]
        if folder := _folder(self.path):
            with suppress(OSError):  # a place that cannot be written says so when the checkpoint is
                folder.mkdir(parents=True, exist_ok=True)
            self.parts = Parts(folder.absolute(), self.problem, OF_PARTS * SHARE, time.time() - self._before)
            self.pace.share = min(MOST, (1 - OF_PARTS) * SHARE * workers)  # of the time of all, while one waits
        return found

    def _read(self, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        try:
            group = open_store(path, "checkpoint")
            found, facts = {name: read(array(group, name)) for name, _ in group.arrays()}, about(group)
        except StoreError as error:
            raise CheckpointError(f"{error} A checkpoint may be removed, or replaced with --overwrite.") from error
        if facts["problem"] != self.problem:
            raise CheckpointError(
                f"{path} is the checkpoint of another fit (other data or parameters): remove it, pass --overwrite "
                "to replace it, or name another place."
            )
        self._before = max(self._before, facts.get("seconds", 0.0))
        return found, facts

    def offer(
        self,
        arrays: Callable[[], dict[str, np.ndarray]],
        last: bool = False,
        parts: Iterable[int] = (),
        **facts: Any,
    ) -> None:
        """Write the arrays if it is time, or if there will be no more; they have these parts, and facts (JSON values)
        say how far they are."""
        self._latest = arrays, parts, facts
        if last or self.pace.allows(arrays, time.monotonic() - self._started):
            self.write()

    def write(self) -> None:
        """Write what was offered since the last time, if anything was."""
        if self._latest is None:
            return
        (arrays, parts, facts), started = self._latest, time.monotonic()
        _write(self.path, arrays(), problem=self.problem, seconds=self._before + started - self._started, **facts)
        if self.parts:
            self.parts.forget(parts)
        self._latest, self.writes = None, self.writes + 1
        self.pace.took(time.monotonic() - started)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What was offered last is written when what runs inside is cut off; where input is wrong nothing goes on.

        Where it ends and has written before it is written too, since what comes next may be interrupted, and let go.
        """
        try:
            yield
        except InputError:
            self.remove()
            raise
        except BaseException:
            with suppress(StoreError):  # what went wrong first is what is told
                self.write()
            self._no_empty_folder()
            raise
        if self.path.exists():
            self.write()
        self._latest = None
        self._no_empty_folder()

    def _no_empty_folder(self) -> None:
        if self.parts:
            with suppress(OSError):  # not where there are some
                self.parts.folder.rmdir()

    def remove(self) -> None:
        """Once the result is kept."""
        log.debug("checkpoint: %d writes in %.2f s", self.writes, self.pace.spent)
        erase(self.path)
        if folder := _folder(self.path):
            shutil.rmtree(folder, ignore_errors=True)

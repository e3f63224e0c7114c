"""What interrupted work goes on from: a store, written now and then, and used only for the same problem."""

import os
import time
from collections.abc import Callable

import numpy as np

from ask_dask.errors import StoreError
from ask_dask.store.arrays import array, create_array, read
from ask_dask.store.attributes import about, describe
from ask_dask.store.opening import open_store
from ask_dask.store.places import located, remove
from ask_dask.store.publish import create

SECONDS = 10.0
"""Least time between two writes."""

SHARE = 0.02
"""Of the time that writing may take."""


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
        self._due = time.monotonic() + SECONDS

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays, or None when there is no checkpoint.

        Raises
        ------
        StoreError
            What is there is of another problem, or no checkpoint.
        """
        if not self.path.exists():
            return None
        group = open_store(self.path, "checkpoint")
        if about(group)["problem"] != self.problem:
            raise StoreError(
                f"{self.path} is the checkpoint of another fit (other data or parameters): remove it, or name another "
                "place."
            )
        return {name: read(array(group, name)) for name, _ in group.arrays()}

    def offer(self, arrays: Callable[[], dict[str, np.ndarray]], last: bool = False) -> None:
        """Write the arrays if it is time, or if there will be no more."""
        started = time.monotonic()
        if started < self._due and not last:
            return
        with create(self.path, "checkpoint", overwrite=True) as group:
            describe(group, problem=self.problem)
            for name, values in arrays().items():
                create_array(group, name, values.shape, values.dtype)[...] = values
        ended = time.monotonic()
        self._due = ended + max(SECONDS, (ended - started) / SHARE)

    def remove(self) -> None:
        """Once the result is kept."""
        remove(self.path)

"""What an interrupted iteration goes on from: a store, written now and then, and used only for the same problem."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ask_dask import store
from ask_dask.errors import StoreError

SECONDS = 60.0
"""Least time between two writes, unless a checkpoint has its own."""


class Checkpoint:
    """Arrays in a store beside the result.

    Parameters
    ----------
    path : path
    problem : str
        Fingerprint of everything that decides the result.
    seconds : float, optional
        Least time between two writes; default: `SECONDS`.
    """

    def __init__(self, path: str | Path, problem: str, seconds: float | None = None) -> None:
        self.path, self.problem, self._written = store.local(path), problem, time.monotonic()
        self.seconds = SECONDS if seconds is None else seconds

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays, or None when there is no checkpoint.

        Raises
        ------
        StoreError
            What is there is of another problem, or no checkpoint.
        """
        if not self.path.exists():
            return None
        group = store.open_store(self.path, "checkpoint")
        if store.about(group)["problem"] != self.problem:
            raise StoreError(
                f"{self.path} is the checkpoint of another fit (other data or parameters): remove it, or name another "
                "place."
            )
        return {name: store.read(store.array(group, name)) for name, _ in group.arrays()}

    def offer(self, arrays: Callable[[], dict[str, np.ndarray]], last: bool = False) -> None:
        """Write the arrays if it is time, or if there will be no more."""
        if time.monotonic() - self._written < self.seconds and not last:
            return
        with store.create(self.path, "checkpoint", overwrite=True) as group:
            store.describe(group, problem=self.problem)
            for name, values in arrays().items():
                store.create_array(group, name, values.shape, values.dtype)[...] = values
        self._written = time.monotonic()

    def remove(self) -> None:
        """Once the result is kept."""
        shutil.rmtree(self.path, ignore_errors=True)

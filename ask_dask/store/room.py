"""The most memory that an array of a store may claim: what a stranger wrote is not believed."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ask_dask import budget
from ask_dask.errors import StoreError

LARGEST_CHUNK = 2 << 30
"""Bytes of a chunk that the compressor can hold."""

LARGEST_ITEM = 1 << 20
"""Bytes of one element: text of 262,144 characters."""

USUAL = 64 << 20
"""Bytes that an array may take whatever the budget: what is planned is refused by its plan, in better words."""

_allowed: ContextVar[int | None] = ContextVar("_allowed", default=None)


@contextmanager
def within(memory: int | None) -> Iterator[None]:
    """While inside, arrays that are read may take so many bytes; None is all memory of the machine."""
    before = _allowed.set(memory)
    try:
        yield
    finally:
        _allowed.reset(before)


def room() -> int:
    """Return the bytes that an array may take."""
    from distributed.system import MEMORY_LIMIT

    return max(USUAL, _allowed.get() or MEMORY_LIMIT)


def require_room(where: str, claimed: int) -> None:
    """Raise StoreError where an array takes more memory than there is.

    >>> with within(100 << 20):
    ...     require_room("m.zarr/points", 200 << 20)
    Traceback (most recent call last):
    ask_dask.errors.StoreError: m.zarr/points takes 200.0 MiB of memory, and there are 100.0 MiB: check the store, or \
give more memory.
    """
    if claimed > room():
        said = f"takes {budget.size(claimed)} of memory, and there are {budget.size(room())}"
        raise StoreError(f"{where} {said}: check the store, or give more memory.")

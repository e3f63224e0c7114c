"""The C library's memory, given back to the system as soon as arrays are freed."""

import ctypes
import sys
from contextlib import suppress
from functools import cache

LARGE = 1 << 20
"""Bytes from which an array has pages of its own, which go back when it is freed."""

MMAP_THRESHOLD = -3
"""The number of this setting in glibc's malloc.h."""


@cache
def give_back_freed_memory() -> None:
    """Have glibc keep no freed array of a MiB or more.

    By itself it keeps in a pool for each thread what is smaller than the largest array that was freed, up to 32 MiB: a
    pass that has 220 MiB of arrays at a time then takes 350 MiB. Distributed starts its workers with a setting that has
    the same effect. Other C libraries have no such pools, or no such setting.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").mallopt(MMAP_THRESHOLD, LARGE)

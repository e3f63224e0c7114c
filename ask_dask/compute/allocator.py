"""The C library's memory, given back to the system as soon as arrays are freed."""

import ctypes
import sys
from contextlib import suppress
from functools import cache

LARGE = 8 << 20
"""Bytes from which an array has pages of its own, which go back when it is freed: more than a kernel
block of float32 has. Where each block has new pages, a pass at 1,000 landmarks takes 14 % longer,
and a prediction 60 %."""

MMAP_THRESHOLD = -3
"""The number of this setting in glibc's malloc.h."""


@cache
def give_back_freed_memory() -> None:
    """Have glibc keep no freed array of `LARGE` bytes or more.

    By itself it keeps in a pool for each thread what is smaller than the largest array that was freed, up to 32 MiB: a
    pass that has 220 MiB of arrays at a time then takes 350 MiB. Other C libraries have no such pools, or no such
    setting.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").mallopt(MMAP_THRESHOLD, LARGE)

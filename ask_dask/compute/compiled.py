"""Functions compiled by numba, for what numpy does in several passes over memory."""

from collections.abc import Callable
from functools import partial
from typing import Any

from numba import njit

FAST = {"nnan", "ninf", "nsz", "contract"}
"""What the compiler may assume of floating point. Not reassoc: sums and reductions stay in the order written."""


def compiled(function: Callable, fastmath: Any = FAST) -> Any:
    """Compiled without the GIL, and kept on disk where a place for it is writable."""
    try:
        return njit(nogil=True, fastmath=fastmath, cache=True)(function)
    except RuntimeError:
        return njit(nogil=True, fastmath=fastmath)(function)


compiled_sums = partial(compiled, fastmath=FAST | {"reassoc"})
"""The same for plain sums, whose terms may be added in any order: several at a time."""

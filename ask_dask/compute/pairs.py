"""Sums of many parts in one fixed order, so that they have the same bits whoever adds them.

Up to sixteen parts are added in pairs, the pairs in pairs, and so on. Of more parts, every eight are added in this way
and such sums one after another, since sums that wait for others take memory. A part may itself be the sum of 2, 4, 8 or
16 neighbours where the order is then the same.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

PAIRED = 16
"""Most parts of a sum that are all added in pairs."""

OF_MANY = 8
"""Parts of a longer sum that are added in pairs."""

Sums: TypeAlias = dict[int, tuple[int, Any]]
"""{start: (stop, the sum of the parts start .. stop - 1)}"""


def halves(start: int, stop: int, total: int) -> int | None:
    """Return where the sum of parts start .. stop - 1 of so many is cut in two, None where it is one part.

    >>> halves(0, 5, 5), halves(4, 5, 5), halves(0, 16, 16), halves(0, 18, 18), halves(0, 16, 18), halves(4, 8, 18)
    (4, None, 8, 16, 8, 6)
    """
    n, paired = stop - start, PAIRED if total <= PAIRED else OF_MANY
    if n == 1:
        return None
    for many in (paired**4, paired**2, paired):  # the last would do, but for the depth of calls
        if n > many:
            return start + (n - 1) // many * many
    return start + (1 << (n - 1).bit_length() - 1)


def joined(known: Sums, total: int, add: Callable[[Any, Any], Any]) -> Sums:
    """Return the known sums of `total` parts with those added that are the halves of a larger one.

    >>> joined({0: (2, 1), 2: (4, 10), 5: (6, 100)}, 6, lambda a, b: a + b)
    {0: (4, 11), 5: (6, 100)}
    """
    known = dict(known)
    _join(known, 0, total, total, add)
    return known


def _join(known: Sums, start: int, stop: int, total: int, add: Callable[[Any, Any], Any]) -> bool:
    """Add the halves of parts start .. stop - 1 where both are known; return whether their sum is."""
    if start in known and known[start][0] == stop:
        return True
    middle = halves(start, stop, total)
    if middle is None or not all([_join(known, *half, total, add) for half in ((start, middle), (middle, stop))]):
        return False
    known[start] = stop, add(known[start][1], known.pop(middle)[1])
    return True


def add_in_pairs(parts: Sequence[Callable[[list[np.ndarray]], None]], into: list[np.ndarray]) -> None:
    """Write the sums over some parts into arrays; each part writes its own into arrays like them.

    At most a few parts are held at a time.

    >>> total = [np.zeros(2)]
    >>> add_in_pairs([lambda out, i=i: out[0].fill(i) for i in range(5)], total)
    >>> total
    [array([10., 10.])]
    """
    _fill(parts, 0, len(parts), into, [])


# A function inside another that calls itself is kept until the garbage collector runs, with all arrays that it knows.
def _fill(
    parts: Sequence[Callable[[list[np.ndarray]], None]],
    start: int,
    stop: int,
    out: list[np.ndarray],
    spare: list[list[np.ndarray]],
) -> None:
    """Write the sums over parts start .. stop - 1 into arrays, with spare arrays like them for the second halves."""
    middle = halves(start, stop, len(parts))
    if middle is None:
        parts[start](out)
        return
    _fill(parts, start, middle, out, spare)
    other = spare.pop() if spare else [np.empty_like(array) for array in out]
    _fill(parts, middle, stop, other, spare)
    for array, more in zip(out, other, strict=True):
        np.add(array, more, out=array)
    spare.append(other)

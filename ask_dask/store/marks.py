"""Marks of chunks: where each ends in its file, and its checksum there.

A chunk's own CRC-32C finds what changed in it, but not that another chunk, or one of an older store, took its place.
The list of a store's files therefore keeps the checksums, by file and place; the list is sealed. A mark is text of 16
hexadecimal digits a chunk, and for the index of a shard at its end: eight for where it ends, eight for its checksum.
"""

from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ShardingCodec

from ask_dask.store.places import Place, opened, reaching

WIDTH, LENGTH = 4, 8
"""Bytes of a checksum, and of each number in the index of a shard."""

NONE = (1 << 64) - 1
"""The offset of a chunk that a shard does not hold."""


def marks_of(group: zarr.Group, place: Place, sizes: dict[str, int], names: list[str]) -> dict[str, str]:
    """Return the marks of the chunks in every file of the named arrays whose codecs end with a checksum."""
    inside: dict[str, int] = {}
    for name in names:
        array = group[name]
        if not isinstance(array, zarr.Array):
            continue
        codec = array.metadata.codecs[-1]  # type: ignore[union-attr]
        chunks = 0
        if isinstance(codec, ShardingCodec):
            assert array.shards is not None
            chunks = int(np.prod([s // c for s, c in zip(array.shards, array.chunks, strict=True)]))
            codec = codec.codecs[-1]
        if isinstance(codec, Crc32cCodec):
            inside |= {file: chunks for file in sizes if file.startswith(f"{name}/c")}
    indices = [(file, sizes[file] - 2 * LENGTH * n - WIDTH, sizes[file]) for file, n in inside.items() if n]
    ends = {file: [sizes[file]] for file, n in inside.items() if not n}
    for (file, _, _), index in zip(indices, _read(place, indices), strict=True):
        offsets, lengths = np.frombuffer(index[:-WIDTH], "<u8").reshape(-1, 2).T
        ends[file] = [
            *sorted((offsets + lengths)[offsets != NONE].tolist()),
            sizes[file],
        ]  # the index itself ends there
    wanted = [(file, end - WIDTH, end) for file, places in ends.items() for end in places]
    found: dict[str, str] = dict.fromkeys(ends, "")
    for (file, _, end), checksum in zip(wanted, _read(place, wanted), strict=True):
        found[file] += f"{end:08x}{checksum.hex()}"
    return found


def differs(mark: str, content: memoryview, start: int) -> bool:
    """Return whether a part of a file, from byte `start` on, holds a chunk with another checksum than the mark tells.

    >>> differs("00000005" "01020304", memoryview(bytes([9, 1, 2, 3, 4])), 0)
    False
    >>> differs("00000005" "01020304", memoryview(bytes([1, 2, 3, 5])), 1)
    True
    """
    for at in range(0, len(mark), 16):
        end = int(mark[at : at + 8], 16) - start
        if WIDTH <= end <= len(content) and content[end - WIDTH : end].hex() != mark[at + 8 : at + 16]:
            return True
    return False


def _read(place: Place, parts: list[tuple[str, int, int]]) -> list[bytes]:
    """Return the bytes start .. stop - 1 of files below a place."""
    if isinstance(place, Path):
        found = []
        for name, start, stop in parts:
            with open(place / name, "rb") as file:
                file.seek(start)
                found.append(file.read(stop - start))
        return found
    if not parts:
        return []
    with reaching(place):
        fs, path = opened(place.url)
        names, starts, stops = zip(*parts, strict=True)
        return list(fs.cat_ranges([f"{path}/{name}" for name in names], list(starts), list(stops)))

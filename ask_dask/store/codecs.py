"""What zarr unpacks of a store: chunks of the codecs that this package writes, and none larger than its array says."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec
from zarr.registry import register_codec

from ask_dask import budget

WRITTEN = (BytesCodec, BloscCodec, Crc32cCodec, ShardingCodec)
"""The codecs of a store; others expand without a bound, or run code of their own."""

TAKEN = (*WRITTEN, GzipCodec, ZstdCodec, TransposeCodec)
"""The codecs of arrays that others wrote with zarr, such as kernel matrices."""

SLACK = 1 << 16
"""Bytes that a chunk may have beyond its shape, where other codecs packed it before."""


class Bounded(BloscCodec):
    """zarr's blosc, which would take the memory that a chunk claims before anything is compared with its shape."""

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        _require_bounded(chunk_bytes, chunk_spec)
        return await super()._decode_single(chunk_bytes, chunk_spec)

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        _require_bounded(chunk_bytes, chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class BoundedGzip(GzipCodec):
    """zarr's gzip, which would expand a chunk to any size."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        needed = _needed(chunk_spec)
        if needed is None:
            return super()._decode_sync(chunk_bytes, chunk_spec)
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
        found = unpacking.decompress(chunk_bytes.as_numpy_array(), needed + SLACK)
        if not unpacking.eof:
            raise ValueError(f"a chunk is cut short, or expands to more than the {budget.size(needed)} of its shape")
        return chunk_spec.prototype.buffer.from_bytes(found)


class BoundedZstd(ZstdCodec):
    """zarr's zstd, which would take the memory that a chunk claims."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        needed = _needed(chunk_spec)
        if needed is not None:
            claimed = zstd_size(chunk_bytes.as_numpy_array()[:18].tobytes())
            if claimed is None or claimed > needed + SLACK:
                said = "no size" if claimed is None else budget.size(claimed)
                raise ValueError(f"a chunk claims {said} and its shape needs {budget.size(needed)}")
        return super()._decode_sync(chunk_bytes, chunk_spec)


for _name, _codec in (("blosc", Bounded), ("gzip", BoundedGzip), ("zstd", BoundedZstd)):
    register_codec(_name, _codec)
    zarr.config.set({f"codecs.{_name}": f"{_codec.__module__}.{_codec.__qualname__}"})


def zstd_size(header: bytes) -> int | None:
    """Return the size that a zstd frame says it unpacks to, None where it says none (RFC 8878, section 3.1.1.1).

    >>> from numcodecs import Zstd
    >>> zstd_size(Zstd().encode(bytes(70_000))[:18])
    70000
    """
    if len(header) < 6 or header[:4] != b"\x28\xb5\x2f\xfd":
        return None
    flag, single, dictionary = header[4] >> 6, header[4] >> 5 & 1, (0, 1, 2, 4)[header[4] & 3]
    width = (single, 2, 4, 8)[flag]
    start = 5 + (not single) + dictionary
    if not width or len(header) < start + width:
        return None
    return int.from_bytes(header[start : start + width], "little") + (256 if width == 2 else 0)


def _needed(spec: Any) -> int | None:
    """Return the bytes of a chunk's shape; None of text of any length."""
    item = getattr(spec.dtype, "item_size", None)
    return None if item is None else int(np.prod(spec.shape, dtype=object)) * item


def _require_bounded(chunk: Any, spec: Any) -> None:
    """ValueError where the header of a blosc chunk, whose bytes 4 to 8 are its size, claims more than its shape."""
    needed = _needed(spec)
    if needed is None:
        return
    claimed = int.from_bytes(chunk.as_numpy_array()[4:8].tobytes(), "little")
    if claimed > needed + SLACK:
        raise ValueError(f"a chunk claims {budget.size(claimed)} and its shape needs {budget.size(needed)}")


def foreign(codecs: Iterable[Any], allowed: tuple[type, ...] = WRITTEN) -> Iterator[str]:
    """Yield the names of codecs that are not allowed, those inside shards too.

    >>> list(foreign([BytesCodec(), zarr.codecs.GzipCodec()]))
    ['gzip']
    """
    for codec in codecs:
        if not isinstance(codec, allowed):
            yield codec.to_dict()["name"]
        if isinstance(codec, ShardingCodec):
            yield from foreign([*codec.codecs, *codec.index_codecs], allowed)

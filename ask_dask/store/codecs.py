"""What zarr unpacks of a store: chunks of the codecs that this package writes, and none larger than its array says."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, ShardingCodec
from zarr.registry import register_codec

from ask_dask import budget

WRITTEN = (BytesCodec, BloscCodec, Crc32cCodec, ShardingCodec)
"""The codecs of a store; others expand without a bound, or run code of their own."""

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


register_codec("blosc", Bounded)
zarr.config.set({"codecs.blosc": f"{Bounded.__module__}.{Bounded.__qualname__}"})


def _require_bounded(chunk: Any, spec: Any) -> None:
    """ValueError where the header of a blosc chunk, whose bytes 4 to 8 are its size, claims more than its shape."""
    item = getattr(spec.dtype, "item_size", None)  # None of text of any length
    if item is None:
        return
    claimed = int.from_bytes(chunk.as_numpy_array()[4:8].tobytes(), "little")
    needed = int(np.prod(spec.shape, dtype=object)) * item
    if claimed > needed + SLACK:
        raise ValueError(f"a chunk claims {budget.size(claimed)} and its shape needs {budget.size(needed)}")


def foreign(codecs: Iterable[Any]) -> Iterator[str]:
    """Names of those that no store of this package has, shards looked into.

    >>> list(foreign([BytesCodec(), zarr.codecs.GzipCodec()]))
    ['GzipCodec']
    """
    for codec in codecs:
        if not isinstance(codec, WRITTEN):
            yield type(codec).__name__
        if isinstance(codec, ShardingCodec):
            yield from foreign([*codec.codecs, *codec.index_codecs])

"""Seeded hashes that are the same on every machine: cells -> buckets, row numbers -> folds."""

import numpy as np
import pyarrow as pa


def splitmix64(values: np.ndarray) -> np.ndarray:
    """Scramble uint64 (n,) to uint64 (n,): one-to-one, the same on every machine.

    >>> splitmix64(np.array([0], np.uint64))
    array([16294208416658607535], dtype=uint64)
    """
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def assign_folds(start: int, stop: int, n_folds: int, random_state: int) -> np.ndarray:
    """Folds of the rows start..stop of a dataset, uint8 (stop - start,): a seeded hash of the row's index.

    >>> assign_folds(2, 6, 5, 0).tolist() == assign_folds(0, 6, 5, 0)[2:].tolist()
    True
    """
    seed = splitmix64(np.array([random_state], np.uint64))
    return (splitmix64(np.arange(start, stop, dtype=np.uint64) ^ seed) % np.uint64(n_folds)).astype(np.uint8)


def hash_cells(cells: pa.BinaryArray, seed: int) -> np.ndarray:
    """Hash n byte strings to uint64 (n,).

    Eight bytes are mixed in at a time, over all cells together: as many steps as the longest cell has words.

    >>> hash_cells(pa.array([b"a", b"", b"a"], pa.binary()), 0) % 1000
    array([579,   0, 579], dtype=uint64)
    """
    _, offsets, data = cells.buffers()
    ends = np.frombuffer(offsets, np.int32)[cells.offset : cells.offset + len(cells) + 1].astype(np.int64)
    start, length = ends[:-1], np.diff(ends)
    padded = np.zeros((len(data) if data else 0) + 8, np.uint8)  # so that the last cell has whole words too
    padded[:-8] = np.frombuffer(data, np.uint8) if data else 0
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))  # the word that starts at each byte
    hashed = _before(length.astype(np.uint64), seed)
    longer, at = np.flatnonzero(length > 0), 0
    while len(longer):
        kept = np.minimum(length[longer] - at, 8).astype(np.uint64) * np.uint64(8)
        word = words[start[longer] + at] & (np.uint64(2**64 - 1) >> (np.uint64(64) - kept))
        hashed[longer] = splitmix64(hashed[longer] ^ word)
        at += 8
        longer = longer[length[longer] > at]
    return hashed


def hash_words(words: np.ndarray, seed: int) -> np.ndarray:
    """Hash n cells of eight bytes, each a little-endian uint64, to uint64 (n,): as `hash_cells` does.

    >>> word = np.frombuffer(b"68fd1e64", "<u8")
    >>> hash_words(word, 7) == hash_cells(pa.array([b"68fd1e64"], pa.binary()), 7)
    array([ True])
    """
    return splitmix64(_before(np.array([8], np.uint64), seed) ^ words)


def _before(length: np.ndarray, seed: int) -> np.ndarray:
    """The hash of cells of these lengths before their first word."""
    return splitmix64(length) ^ splitmix64(np.array([seed], np.uint64))


def bucket_codes(cells: pa.BinaryArray, n_buckets: int, seed: int) -> np.ndarray:
    """Buckets of n byte strings, uint32 (n,): the empty string has bucket 0 to itself, others get 1..n_buckets - 1.

    >>> bucket_codes(pa.array([b"", b"a"], pa.binary()), 2, 0)
    array([0, 1], dtype=uint32)
    """
    return to_buckets(hash_cells(cells, seed), _empty(cells), n_buckets)


def to_buckets(hashed: np.ndarray, empty: np.ndarray, n_buckets: int) -> np.ndarray:
    """Buckets, uint32 (n,), of n hashed cells, of which some are empty."""
    return np.where(empty, 0, hashed % np.uint64(n_buckets - 1) + np.uint64(1)).astype(np.uint32)


def _empty(cells: pa.BinaryArray) -> np.ndarray:
    offsets = np.frombuffer(cells.buffers()[1], np.int32)[cells.offset : cells.offset + len(cells) + 1]
    return np.diff(offsets) == 0

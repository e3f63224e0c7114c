"""Kullback-Leibler divergences between Gaussian mixtures, by Monte Carlo, into zarr.

exp(-a KL(P_i || P_j)) of mixtures fitted to items is an asymmetric kernel over items: Moreno, Ho and Vasconcelos (NIPS
2003); He et al., Learning with Asymmetric Kernels. KL has no closed form between mixtures: the mean of
log p_i(x) - log p_j(x) over draws x of P_i estimates it without bias, with a standard error. An estimate can be below 0
by chance; it is kept as it is, since cutting it off would bias the small ones.
"""

from collections.abc import Iterator

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from ask_dask import compute, store
from ask_dask.kernels.mixtures import Mixtures, require_whole

CHUNK_BYTES = 8 << 20
"""At most so much of the divergence matrix is one chunk, the unit of work and of resuming."""

TASKS = 64
"""Chunks that a small matrix is cut into."""

BLOCK_BYTES = 2 << 20
"""Log densities that are alive at a time. A constant: their last bits depend on how the columns are cut."""


def divergences(mixtures: Mixtures, group: zarr.Group, n_draws: int, random_state: int) -> None:
    """Estimate KL(P_i || P_j) for all pairs into a zarr group, in parallel, a block of rows a task.

    Writes `divergence` and its `standard_error`, both (N, N) float64 with a diagonal of exact zeros (NaN where not
    finished), and `divergence_done`. Blocks that an earlier run for the same mixtures, draws and seed finished are not
    computed again; what is there for others is replaced. Row i depends on the mixtures and the seed alone, not on
    blocks or workers.

    Parameters
    ----------
    mixtures : Mixtures
    group : zarr.Group
        Open for writing.
    n_draws : int
        Points drawn from each mixture, 2 or more; the standard error falls with the square root.
    random_state : int

    Raises
    ------
    InputError
        n_draws below 2, or a seed below 0.
    """
    require_whole("n_draws", n_draws, 2)
    require_whole("random_state", random_state, 0)
    arrays = _arrays(group, len(mixtures), divergence_fingerprint(mixtures, n_draws, random_state))
    height = arrays[0].chunks[0]
    missing = np.flatnonzero(store.read(arrays[2]) == 0)
    shared = compute.shared(mixtures)
    task = compute.task(_write_block)
    tasks = [task(shared, arrays, int(block), height, n_draws, random_state) for block in missing]
    compute.run(tasks, "Divergences", "blocks")


def divergence_row(mixtures: Mixtures, i: int, n_draws: int, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Estimates of KL(P_i || P_j) for all j and their standard errors, (N,) each; both exactly 0 at j = i.

    >>> one = np.ones((2, 1, 1))
    >>> estimate, error = divergence_row(Mixtures(one[:, 0], np.array([[[0.0]], [[1.0]]]), one), 0, 1000, 0)
    >>> bool(abs(estimate[1] - 0.5) < 4 * error[1])
    True
    """
    X = mixtures.draw(i, n_draws, random_state)
    own = mixtures.log_densities(X, slice(i, i + 1))
    estimate, error = np.empty(len(mixtures)), np.empty(len(mixtures))
    for block in _column_blocks(mixtures, n_draws):
        ratio = own - mixtures.log_densities(X, block)
        estimate[block], error[block] = ratio.mean(0), ratio.std(0, ddof=1) / np.sqrt(n_draws)
    estimate[i] = error[i] = 0
    return estimate, error


def divergence_fingerprint(mixtures: Mixtures, n_draws: int, random_state: int) -> str:
    """A short hash of everything the divergences depend on."""
    return store.fingerprint(mixtures.weights, mixtures.means, mixtures.variances, n_draws, random_state)


def _column_blocks(mixtures: Mixtures, n_draws: int) -> Iterator[slice]:
    n, width = len(mixtures), max(1, BLOCK_BYTES // (8 * n_draws * mixtures.weights.shape[1]))
    yield from (slice(start, min(start + width, n)) for start in range(0, n, width))


def _write_block(
    mixtures: Mixtures, arrays: tuple[zarr.Array, ...], block: int, height: int, n_draws: int, random_state: int
) -> None:
    start, stop = block * height, min((block + 1) * height, len(mixtures))
    rows = [divergence_row(mixtures, i, n_draws, random_state) for i in range(start, stop)]
    for array, values in zip(arrays[:2], zip(*rows, strict=True), strict=True):
        array[start:stop] = np.stack(values)
    arrays[2][block] = 1  # the last to be written: what it marks is whole


def _arrays(group: zarr.Group, n: int, fingerprint: str) -> tuple[zarr.Array, zarr.Array, zarr.Array]:
    """The arrays that results go into: those there are for this fingerprint, or new ones."""
    names = ("divergence", "standard_error", "divergence_done")
    found = [group.get(name) for name in names]
    known = store.about(group).get("divergence_fingerprint") == fingerprint
    if known and all(isinstance(array, zarr.Array) for array in found):
        return tuple(found)  # type: ignore[return-value]
    for name in names:
        if name in group:
            del group[name]
    height = max(1, min(CHUNK_BYTES // (8 * n), -(-n // TASKS)))
    matrix, marks = ((n, n), (height, n), np.float64, np.nan), ((-(-n // height),), (1,), np.uint8, 0)
    codecs = [BloscCodec(cname="zstd", clevel=1, shuffle="shuffle"), Crc32cCodec()]
    made = [
        group.create_array(name, shape=shape, chunks=chunks, dtype=dtype, fill_value=fill, compressors=codecs)
        for name, (shape, chunks, dtype, fill) in zip(names, (matrix, matrix, marks), strict=True)
    ]
    store.describe(group, divergence_fingerprint=fingerprint)
    return tuple(made)  # type: ignore[return-value]

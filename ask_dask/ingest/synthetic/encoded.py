"""Made-up rows straight into a dataset store: the one that their text would be ingested to, and no text on disk."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from ask_dask import compute, store
from ask_dask.encode import Encoder
from ask_dask.ingest import staging
from ask_dask.ingest.account import account
from ask_dask.ingest.files import RawFile
from ask_dask.ingest.formats import CRITEO, Layout
from ask_dask.ingest.hashing import hash_words, to_buckets
from ask_dask.ingest.parse import Hashing
from ask_dask.ingest.pipeline import check_memory, encode_staged
from ask_dask.ingest.settings import Settings, settings_of
from ask_dask.ingest.synthetic.best import Tally
from ask_dask.ingest.synthetic.rows import BLOCK_ROWS, VERSION, Rows, check_rows, make_rows
from ask_dask.ingest.synthetic.text import words

PIECE_ROWS = 8 * BLOCK_ROWS
"""Rows of one piece in the staging area: about as many as a piece of text has."""


def make_store(
    to: str | Path,
    n_rows: int,
    *,
    first: int = 0,
    random_state: int = 0,
    encoder: Encoder | None = None,
    n_folds: int = 5,
    smoothing: float = 20.0,
    n_buckets: int = 2**18,
    counts: bool = False,
    encoding_random_state: int = 0,
    memory: int | None = None,
    overwrite: bool = False,
    facts: dict[str, Any] | None = None,
) -> None:
    """Make the dataset store that `ingest` makes of the file that `make_criteo` writes, without the file.

    Parameters
    ----------
    to : path
        The store to be made; nothing is there until it is whole.
    n_rows, first, random_state
        As for `make_criteo`.
    encoder, n_folds, smoothing, n_buckets, counts, memory, overwrite, facts
        As for `ingest`.
    encoding_random_state : int
        Seed of the folds and the hash: the random_state of `ingest`.

    Raises
    ------
    InputError
        A parameter is not what it must be.
    StoreError
        `to` exists, or cannot be written.
    BudgetError
        `memory` is too little; the message names the largest `n_buckets` that fits.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/made.zarr"
    >>> make_store(path, 3000, n_buckets=512)
    >>> group = store.open_store(path, "dataset")
    >>> group["X"].shape, store.about(group)["made"]["first"]
    ((3000, 52), 0)
    """
    check_rows(n_rows, first, random_state)
    settings = Settings(n_folds, smoothing, n_buckets, encoding_random_state, 0.0, counts)
    settings = settings_of(encoder, CRITEO, settings) if encoder else settings
    settings.check()
    check_memory(CRITEO, settings, memory)
    found = [RawFile("", f"made-up log from row {first}, seed {random_state}", None, None, None)]
    with store.create(to, "dataset", overwrite) as group:
        steps: list[dict[str, Any]] = []
        staged = group.create_group("staged")
        with compute.measured(steps, "make"):
            hashing = Hashing(settings.n_buckets, settings.random_state)
            pieces = _stage(staged, first, n_rows, random_state, hashing)
        about = account(group, found, [pieces.reports], settings.max_rejects)
        layout = Layout(CRITEO, CRITEO.columns(labelled=True), labelled=True)
        encoded = encode_staged(group, staged, found, [pieces.reports], layout, settings, encoder, steps)
        made = asdict(pieces.tally.made()) | {"first": first, "random_state": random_state}
        store.describe(group, **(facts or {}) | about | encoded | {"made": made})


@dataclass(frozen=True)
class _Pieces:
    """Pieces that follow each other, and the tally of their rows."""

    reports: list[staging.PieceReport]
    tally: Tally

    def __add__(self, other: "_Pieces") -> "_Pieces":
        return _Pieces(self.reports + other.reports, self.tally + other.tally)


def _stage(staged: zarr.Group, first: int, n_rows: int, random_state: int, hashing: Hashing) -> _Pieces:
    task = compute.task(_stage_piece)
    cuts = [*range(0, n_rows, PIECE_ROWS), n_rows]
    tasks = [
        task(staged, number, first + start, first + stop, random_state, hashing)
        for number, (start, stop) in enumerate(pairwise(cuts))
    ]
    return compute.run_sum(tasks, "Make", "pieces", rows=n_rows)


def _stage_piece(
    staged: zarr.Group, number: int, start: int, stop: int, random_state: int, hashing: Hashing
) -> _Pieces:
    """Make rows start..stop of the log and keep them."""
    parts, tally = [], Tally.none()
    for rows in make_rows(start, stop, random_state):
        parts.append(_parsed(rows, hashing))
        tally += Tally.of(rows)
    arrays = {name: np.concatenate([part[name] for part in parts], axis=int(name == "codes")) for name in parts[0]}
    arrays["line"] = np.arange(stop - start, dtype=np.int32)
    what = f"{VERSION} {random_state} {start} {stop}".encode()  # decides every row: in place of a hash of the text
    report = staging.keep(staged, f"0-{number}", arrays, lines=stop - start, digest=what)
    return _Pieces([report], tally)


def _parsed(rows: Rows, hashing: Hashing) -> dict[str, np.ndarray]:
    """What `parse` makes of the rows' text, but for the lines."""
    numeric = np.where(rows.no_integer, np.float32(np.nan), rows.integers.astype(np.float32))
    cells = zip(words(rows.tokens), rows.no_token, strict=True)
    codes = [to_buckets(hash_words(w, hashing.seed(j)), no, hashing.n_buckets) for j, (w, no) in enumerate(cells)]
    return {"numeric": np.ascontiguousarray(numeric.T), "codes": np.stack(codes), "y": rows.label}

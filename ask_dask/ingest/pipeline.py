"""From raw files to a dataset store: parse and stage, count, transform and write."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from ask_dask import budget, compute, store
from ask_dask.encode import Encoder, assemble
from ask_dask.errors import InputError
from ask_dask.ingest import files as raw
from ask_dask.ingest import staging
from ask_dask.ingest.account import account
from ask_dask.ingest.formats import Format, Layout, find_format, find_layout
from ask_dask.ingest.hashing import assign_folds
from ask_dask.ingest.parse import Hashing
from ask_dask.ingest.settings import Settings, settings_of

COLUMNS_AT_ONCE = 4
"""Categorical columns that one task counts: few, so that their tables by fold stay small."""


def ingest(
    files: Sequence[str | Path],
    to: str | Path | zarr.Group,
    *,
    format: str,
    encoder: Encoder | None = None,
    n_folds: int = 5,
    smoothing: float = 20.0,
    n_buckets: int = 2**18,
    random_state: int = 0,
    counts: bool = False,
    max_rejects: float = 0.001,
    memory: int | None = None,
    overwrite: bool = False,
    facts: dict[str, Any] | None = None,
) -> None:
    """Turn raw click logs into a dataset store: validated rows, encoded, with where each one came from.

    Parameters
    ----------
    files : sequence of path or URL
        Read in this order, plain or compressed, from any file system that fsspec opens.
    to : path or zarr.Group
        The store to be made; nothing is there until it is whole. Or an empty group of a store that is being made.
    format : {"criteo", "avazu"}
    encoder : Encoder, optional
        One fitted before: the rows are transformed by it, and need no labels. Otherwise one is fitted here, and these
        rows are encoded one way, each fold from other folds; `n_folds`, `smoothing`, `n_buckets`, `random_state`,
        `counts` are for that.
    n_folds, smoothing : int, float
        Folds of the target encoding, 3 or more; rows that the mean label counts for in each bucket.
    n_buckets : int
        Buckets that each categorical column is hashed into.
    random_state : int
        Seed of the folds and the hash.
    counts : bool
        Add log(1 + other rows with this value) for each categorical column.
    max_rejects : float
        Largest share of faulty rows that is set aside; more is an error.
    memory : int, optional
        Bytes that this may take; refused at once when the plan needs more.
    overwrite : bool
        Replace a store that is there.
    facts : dict, optional
        JSON values to keep in the store.

    Raises
    ------
    InputError
        A parameter, a file or too many of its rows are not what they must be.
    StoreError
        `to` exists, or cannot be written.
    BudgetError
        `memory` is too little; the message names the largest `n_buckets` that fits.
    """
    form = find_format(format)
    settings = Settings(n_folds, smoothing, n_buckets, random_state, max_rejects, counts)
    settings = settings_of(encoder, form, settings) if encoder else settings
    settings.check()
    found, layouts = _look([files] if isinstance(files, str | Path) else files, form, encoder is not None)
    check_memory(form, settings, memory)
    with nullcontext(to) if isinstance(to, zarr.Group) else store.create(to, "dataset", overwrite) as group:
        steps: list[dict[str, Any]] = []
        staged = group.create_group("staged")
        with compute.measured(steps, "parse"):
            reports = _stage(staged, found, layouts, Hashing(settings.n_buckets, settings.random_state))
        about = account(group, found, reports, settings.max_rejects)
        encoded = encode_staged(group, staged, found, reports, layouts[0], settings, encoder, steps)
        store.describe(group, **(facts or {}) | about | encoded)


def encode_staged(
    group: zarr.Group,
    staged: zarr.Group,
    found: list[raw.RawFile],
    reports: list[list[staging.PieceReport]],
    layout: Layout,
    settings: Settings,
    encoder: Encoder | None,
    steps: list[dict[str, Any]],
) -> dict[str, Any]:
    """Count, transform and write the staged rows of some files, with an encoder or one fitted here; what to say of it.

    The staging area is removed.
    """
    pieces = _place(reports)
    with compute.measured(steps, "count"):
        fitted = encoder or _fit(staged, layout.form, found, reports, pieces, settings)
        fitted.save(group.create_group("encoder"))
    with compute.measured(steps, "write"):
        fingerprint = _write(group, staged, pieces, fitted, encoder is None, layout)
    del group["staged"]
    return {
        "format": layout.form.name,
        "n_rows": pieces[-1].stop,
        "n_features": len(fitted.feature_names),
        "feature_names": fitted.feature_names,
        "encoding": "whole training" if encoder else "one way",
        "encoder_fingerprint": fitted.fingerprint,
        "fingerprint": fingerprint,
        "parameters": vars(settings),
        "steps": steps,
    }


def check_memory(form: Format, settings: Settings, memory: int | None) -> None:
    """Raise BudgetError where so many buckets do not fit."""
    if memory is None:
        return
    c, workers = len(form.categorical), compute.workers()
    budget.check(lambda size: ingest_plan(c, settings.n_folds, size, workers), settings.n_buckets, memory, "n_buckets")


def ingest_plan(n_categorical: int, n_folds: int, n_buckets: int, workers: int) -> budget.Plan:
    """Memory that `ingest` takes, all workers together.

    The encoder is there throughout; beside it each worker parses a piece, or counts columns, or writes a shard.

    >>> print(ingest_plan(26, 5, 2**18, 2))
    encoder tables 104.0 MiB, pieces and shards 660.0 MiB
    """
    fold_tables = 8 * n_folds * n_buckets
    piece = 8 * raw.PIECE_BYTES  # the text, pyarrow's copy and its cells, the arrays
    counting = (COLUMNS_AT_ONCE + 6) * fold_tables  # the counts; for one column the values, and their moments
    writing = 5 * budget.SHARD_BYTES + fold_tables
    return budget.Plan(
        {
            "encoder tables": 2 * 8 * n_categorical * n_buckets,
            "pieces and shards": workers * max(piece, counting, writing),
        }
    )


def _run(
    work: Callable[..., Any],
    staged: zarr.Group,
    argument_lists: Sequence[tuple],
    label: str,
    unit: str,
    rows: int | None = None,
) -> list:
    task = compute.task(work)
    return compute.run([task(staged, *arguments) for arguments in argument_lists], label, unit, rows=rows)


def _look(files: Sequence[str | Path], form: Format, unlabelled_ok: bool) -> tuple[list[raw.RawFile], list[Layout]]:
    """The files and their columns; refuses what cannot become one dataset before any long work."""
    if not 0 < len(files) < 2**16:
        raise InputError(f"{len(files)} files were given to ingest: name 1 to 65535.")
    found = [raw.find(str(file)) for file in files]
    layouts = [find_layout(form, raw.read_head(file), file.name) for file in found]
    bare = [file.name for file, layout in zip(found, layouts, strict=True) if not layout.labelled]
    if bare and not unlabelled_ok:
        raise InputError(f"{bare[0]} has no column {form.label}: give the encoder of a labelled dataset with it.")
    if 0 < len(bare) < len(found):
        raise InputError(f"{bare[0]} has no column {form.label} and other files have it: ingest them separately.")
    return found, layouts


def _stage(
    staged: zarr.Group, found: list[raw.RawFile], layouts: list[Layout], hashing: Hashing
) -> list[list[staging.PieceReport]]:
    """Parse all files; reports per file, in order."""
    work = [
        (file, index, piece, raw.PIECE_BYTES, layout, hashing)
        for index, (file, layout) in enumerate(zip(found, layouts, strict=True))
        for piece in (range(file.pieces(raw.PIECE_BYTES)) if file.splits else [None])
    ]
    reports: list[list[staging.PieceReport]] = [[] for _ in found]
    for (_, index, *_), part in zip(work, _run(staging.stage, staged, work, "Parse", "pieces"), strict=True):
        reports[index] += part
    return reports


def _place(reports: list[list[staging.PieceReport]]) -> list[staging.Placed]:
    pieces: list[staging.Placed] = []
    for file, of_file in enumerate(reports):
        pieces += staging.place(of_file, file, pieces[-1].stop if pieces else 0)
    return pieces


def _fit(
    staged: zarr.Group,
    form: Format,
    found: list[raw.RawFile],
    reports: list[list[staging.PieceReport]],
    pieces: list[staging.Placed],
    settings: Settings,
) -> Encoder:
    flat = [report for of_file in reports for report in of_file]
    labels = np.sum([report.labels for report in flat], axis=0)
    if not labels.all():
        raise InputError(
            f"{found[0].name}{' and the other files have' if len(found) > 1 else ' has'} only the label "
            f"{int(labels[1] > 0)}: target encoding needs rows with 0 and rows with 1."
        )
    c = len(form.categorical)
    values = staging.create_tables(staged, (c, settings.n_folds, settings.n_buckets))
    work = [
        (values, pieces, range(first, min(first + COLUMNS_AT_ONCE, c)), settings.random_state, settings.smoothing)
        for first in range(0, c, COLUMNS_AT_ONCE)
    ]
    counted = _run(staging.count_columns, staged, work, "Count", "columns")
    tables = [table for part in counted for table in part]
    fold_rows, fold_positives = tables[0]["folds"]
    return assemble(
        sum((report.sums for report in flat[1:]), start=flat[0].sums),
        tables,
        fold_rows=fold_rows,
        fold_positives=fold_positives,
        numeric=form.numeric,
        categorical=form.categorical,
        smoothing=settings.smoothing,
        random_state=settings.random_state,
        with_counts=settings.counts,
        fold_values=values,
    )


def _write(
    group: zarr.Group,
    staged: zarr.Group,
    pieces: list[staging.Placed],
    encoder: Encoder,
    training: bool,
    layout: Layout,
) -> str:
    """Transform and write all shards; the fingerprint of what was written."""
    n = pieces[-1].stop
    kinds: dict[str, tuple[tuple[int, ...], Any]] = {
        "X": ((n, len(encoder.feature_names)), np.float32), "file": ((n,), np.uint16), "line": ((n,), np.int64)
    }  # fmt: skip
    kinds |= {"y": ((n,), np.int8)} if layout.labelled else {}
    kinds |= {"id": ((n,), np.uint64)} if layout.form.id else {}
    arrays = store.create_aligned(group, kinds)
    shards = arrays["X"].shards
    height = shards[0] if shards else n
    # One key in the graph, so that the tables go to each process once and threads share them.
    shared = compute.shared(encoder)
    work = []
    for start in range(0, n, height):
        stop = min(start + height, n)
        near = [piece for piece in pieces if piece.start < stop and piece.stop > start]
        work.append((arrays, near, shared, training, start, stop))
    return store.fingerprint(*_run(write_shard, staged, work, "Write", "shards", n))


def write_shard(
    staged: zarr.Group,
    arrays: dict[str, zarr.Array],
    pieces: list[staging.Placed],
    encoder: Encoder,
    training: bool,
    start: int,
    stop: int,
) -> str:
    """Transform rows start..stop and write them to all arrays; their fingerprint."""
    rows = staging.read_rows(staged, pieces, start, stop)
    if training:
        folds = assign_folds(start, stop, encoder.n_folds, encoder.random_state)
        rows["X"] = encoder.transform_training(rows["numeric"], rows["codes"], folds)
    else:
        rows["X"] = encoder.transform(rows["numeric"], rows["codes"])
    for name, array in arrays.items():
        array[start:stop] = rows[name]
    return store.fingerprint(*(rows[name] for name in ("X", "y", "id") if name in arrays))

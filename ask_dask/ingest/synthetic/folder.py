"""Made-up rows as a folder of files; each appears whole, and a making that was interrupted goes on with the next."""

import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from ask_dask import budget, compute, store
from ask_dask.errors import InputError, StoreError
from ask_dask.ingest.synthetic.best import Tally
from ask_dask.ingest.synthetic.rows import BLOCK_ROWS, VERSION, check_rows, make_rows
from ask_dask.ingest.synthetic.text import write_rows, writing

MANIFEST = "made.json"
"""What a folder says of itself: what was asked for, whether it is complete, and what is known of the rows."""

FILE_ROWS = 500_000
"""Rows of a file, if nobody says how many files there are."""


def make_folder(
    to: str | Path,
    n_rows: int,
    *,
    n_files: int | None = None,
    compress: str = "gz",
    first: int = 0,
    random_state: int = 0,
    memory: int | None = None,
    overwrite: bool = False,
    facts: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write made-up clicks as files of Criteo text, part-0.txt.gz and so on, and made.json, which tells of them.

    Parameters
    ----------
    to : path
        The folder; one that holds part of the same files is completed.
    n_rows, first, random_state
        As for `make_criteo`.
    n_files : int, optional
        Among which the rows are divided, in order; by default one for each half million rows.
    compress : {"gz", "none"}
    memory : int, optional
        Bytes that this may take; refused at once when the plan needs more.
    overwrite : bool
        Replace files that were made here before.
    facts : dict, optional
        JSON values to keep in made.json.

    Returns
    -------
    dict
        What made.json holds.

    Raises
    ------
    InputError
        A parameter is not what it must be.
    StoreError
        The folder holds something else, or cannot be written.
    BudgetError
        `memory` is too little.

    Examples
    --------
    >>> import tempfile
    >>> made = make_folder(tempfile.mkdtemp() + "/log", 1000, n_files=2, compress="none")
    >>> made["files"], made["n_rows"]
    (['part-0.txt', 'part-1.txt'], 1000)
    """
    check_rows(n_rows, first, random_state)
    asked: dict[str, Any] = {
        "format": "criteo", "version": VERSION, "n_rows": n_rows, "first": first, "random_state": random_state,
        "n_files": _n_files(n_rows, n_files), "compress": compress,
    }  # fmt: skip
    files = _names(asked["n_files"], compress)
    if memory is not None:
        budget.check(make_plan, compute.workers(), memory, "workers")
    folder = store.local(to)
    try:
        _open(folder, asked, overwrite)
        manifest = (facts or {}) | {"asked": asked, "complete": False, "files": files}
        _write(folder, manifest)
        steps: list[dict[str, Any]] = []
        with compute.measured(steps, "make"):
            made = _make(folder, files, n_rows, first, random_state).made()
        manifest |= {"complete": True, **asdict(made), "steps": steps}
        _write(folder, manifest)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"Cannot write {folder}: {error.strerror or error}; choose another place.") from error
    return manifest


def make_plan(workers: int) -> budget.Plan:
    """Memory that `make_folder` takes: each worker makes a block of rows and its text.

    >>> print(make_plan(2))
    blocks of rows 50.0 MiB
    """
    return budget.Plan({"blocks of rows": workers * BLOCK_ROWS * 1600})


def read_manifest(folder: str | Path) -> dict[str, Any] | None:
    """What made.json of a folder holds, None when there is none."""
    try:
        found = json.loads((Path(folder) / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "asked" in found else None


def _n_files(n_rows: int, n_files: int | None) -> int:
    if n_files is None:
        return -(-n_rows // FILE_ROWS)
    if not 1 <= n_files <= min(n_rows, 2**16 - 1):
        raise InputError(f"n_files is {n_files}: give 1 to 65535, and no more than there are rows.")
    return n_files


def _names(n_files: int, compress: str) -> list[str]:
    ends = {"gz": ".txt.gz", "none": ".txt"}
    if compress not in ends:
        raise InputError(f"compress is {compress!r}: give 'gz' or 'none'.")
    return [f"part-{i:0{len(str(n_files - 1))}}{ends[compress]}" for i in range(n_files)]


def _open(folder: Path, asked: dict[str, Any], overwrite: bool) -> None:
    """Make the folder ready: empty, or with whole files of what is asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    found = read_manifest(folder)
    if found is None and any(folder.iterdir()):
        raise StoreError(f"{folder} is no folder of made-up rows, so nothing there is replaced: choose another place.")
    if overwrite and found:
        for name in (*found.get("files", ()), MANIFEST):
            (folder / Path(name).name).unlink(missing_ok=True)
    elif found and (found["complete"] or found["asked"] != asked):
        what = "is complete already" if found["complete"] else "holds part of other made-up rows"
        raise StoreError(f"{folder} {what}: choose another place, or pass --overwrite (overwrite=True).")


def _write(folder: Path, manifest: dict[str, Any]) -> None:
    partial = _partial(folder / MANIFEST)
    partial.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    partial.replace(folder / MANIFEST)


def _make(folder: Path, files: list[str], n_rows: int, first: int, random_state: int) -> Tally:
    """Make what is not there; the tally of all rows."""
    task = compute.task(_make_file)
    cuts = [first + n_rows * i // len(files) for i in range(len(files) + 1)]
    work = zip(files, pairwise(cuts), strict=True)
    tasks = [task(folder / name, start, stop, random_state) for name, (start, stop) in work]
    return compute.run_sum(tasks, "Make", "files", rows=n_rows)


def _make_file(path: Path, first: int, stop: int, random_state: int) -> Tally:
    """The file appears when all of it is written; one that is there is whole, and its rows are only counted."""
    if path.exists():
        return sum((Tally.of(rows) for rows in make_rows(first, stop, random_state)), Tally.none())
    partial = _partial(path)
    try:
        with writing(partial) as stream:
            tally = write_rows(stream, first, stop, random_state)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return tally


def _partial(path: Path) -> Path:
    """Where a file is until it is whole: the same place each time, so that the next making clears what one left."""
    return path.with_name(f".partial-{path.name}")

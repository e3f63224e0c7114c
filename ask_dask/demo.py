"""The whole job on data made on the spot."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ask_dask import store
from ask_dask.errors import InputError, StoreError
from ask_dask.ingest.synthetic import make_criteo

JOB = """\
# The whole job, made by: ask-dask demo --rows {rows}
# Run it with: ask-dask run job.toml
# A step whose output is complete, with the same options and inputs, is skipped.

[[step]]
do = "ingest"
format = "criteo"
files = ["train.txt"]
to = "data.zarr"

[[step]]
do = "ingest"
format = "criteo"
files = ["new.txt"]
encoder = "data.zarr"       # new rows are encoded with what was learned from the training rows
to = "new.zarr"

[[step]]
do = "fit"
data = "data.zarr"
to = "model.zarr"
kernel = "sne"
bandwidth = 20
gamma = [1000, 10000, 100000, 1000000]
n_landmarks = [250, 500, 1000]
cv = 5

[[step]]
do = "predict"
model = "model.zarr"
data = "new.zarr"
to = "predictions.zarr"

[[step]]
do = "score"
predictions = "predictions.zarr"
data = "new.zarr"

[[step]]
do = "report"
model = "model.zarr"
predictions = "predictions.zarr"
to = "report.html"
"""


def make(folder: Path, n_rows: int) -> Path:
    """Write train.txt (four fifths of n_rows), new.txt and job.toml into a folder, unless they are there.

    Returns
    -------
    path
        Of job.toml.

    Raises
    ------
    InputError
        Too few rows, or the folder holds a demo of another number of rows.
    StoreError
        The folder cannot be written.
    """
    if n_rows < 1000:
        raise InputError(f"rows={n_rows} is too few to show anything: make 1000 or more.")
    landmarks = [n for n in (250, 500, 1000) if n <= n_rows // 5] or [n_rows // 5]
    text = JOB.replace("{rows}", str(n_rows)).replace("[250, 500, 1000]", str(landmarks))
    folder = store.local(folder)
    job = folder / "job.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not job.exists():
            _write_whole(job, lambda begun: begun.write_text(text, encoding="utf-8"))
        elif job.read_text(encoding="utf-8").splitlines()[:1] != text.splitlines()[:1]:
            raise InputError(f"{job} is not of a demo with rows={n_rows}: choose another place with --to.")
        n_new = n_rows // 5
        for name, rows, first in (("train.txt", n_rows - n_new, 0), ("new.txt", n_new, n_rows - n_new)):
            if not (folder / name).exists():
                _write_whole(folder / name, partial(make_criteo, n_rows=rows, first=first))
    except OSError as error:
        raise StoreError(
            f"Cannot write {folder}: {error.strerror or error}; choose another place with --to."
        ) from error
    return job


def _write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """The file appears when all of it is written."""
    begun = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        write(begun)
        begun.replace(path)
    finally:
        begun.unlink(missing_ok=True)

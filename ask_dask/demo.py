"""The whole job on data made on the spot."""

from pathlib import Path

from ask_dask.errors import InputError, StoreError
from ask_dask.ingest.synthetic import make_criteo

JOB = """\
# The whole job. Run it with: ask-dask run job.toml
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
gamma = [10, 100, 1000, 10000]
landmarks = [250, 500, 1000]
folds = 5

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
    """
    if n_rows < 1000:
        raise InputError(f"rows={n_rows} is too few to show anything: make 1000 or more.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows, seed in (("train.txt", n_rows - n_rows // 5, 0), ("new.txt", n_rows // 5, 1)):
            if not (folder / name).exists():
                make_criteo(folder / name, rows, random_state=seed)
        job = folder / "job.toml"
        if not job.exists():
            landmarks = [n for n in (250, 500, 1000) if n <= n_rows // 5]
            job.write_text(JOB.replace("[250, 500, 1000]", str(landmarks)), encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"Cannot write {folder}: {error.strerror or error}; choose another place with --to."
        ) from error
    return job

"""The steps of a job: parameters, checked, in; a store, a page or scores out. The command line and TOML both use these.

Each output keeps a recipe: its step's parameters and the fingerprints of its inputs. A job skips a step whose output
is complete and has the same recipe.
"""

from ask_dask.steps.each import Predict, Report, Score, info
from ask_dask.steps.embed import Embed
from ask_dask.steps.fit import Fit
from ask_dask.steps.ingest import (
    Ingest,
    IngestGraph,
    IngestSamples,
    IngestSvmlight,
    IngestTable,
)
from ask_dask.steps.job import complaint, placed, read_job, run_job
from ask_dask.steps.make import Make, MakeOptions
from ask_dask.steps.options import Overwrite, Step
from ask_dask.steps.verify import status, verify

__all__ = [
    "Embed",
    "Fit",
    "Ingest",
    "IngestGraph",
    "IngestSamples",
    "IngestSvmlight",
    "IngestTable",
    "Make",
    "MakeOptions",
    "Overwrite",
    "Predict",
    "Report",
    "Score",
    "Step",
    "complaint",
    "info",
    "placed",
    "read_job",
    "run_job",
    "status",
    "verify",
]

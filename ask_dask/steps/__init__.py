"""The steps of a job: parameters, checked, in; a store, a page or scores out. The command line and TOML both use these.

Each output keeps a recipe: its step's parameters and the fingerprints of its inputs. A job skips a step whose output
is complete and has the same recipe.
"""

from ask_dask.steps.each import Fit, Ingest, Predict, Report, Score, info
from ask_dask.steps.job import TITLES, AnyStep, placed, run_job
from ask_dask.steps.options import Encoding, Memory, Overwrite, Step

__all__ = [
    "TITLES",
    "AnyStep",
    "Encoding",
    "Fit",
    "Ingest",
    "Memory",
    "Overwrite",
    "Predict",
    "Report",
    "Score",
    "Step",
    "info",
    "placed",
    "run_job",
]

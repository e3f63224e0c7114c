"""Run lists of dask tasks on whichever scheduler is current, with progress, an estimate and memory measured.

Local threads (the default), `dask.config.set(scheduler="processes")` and a distributed Client all do.
"""

from ask_dask.compute.bars import progress, progress_shown, tell
from ask_dask.compute.blas import one_blas_thread
from ask_dask.compute.measure import measured
from ask_dask.compute.pairs import PAIRED, Sums, add_in_pairs
from ask_dask.compute.products import product
from ask_dask.compute.tasks import Shared, here, is_dask, machine_memory, run, run_sum, shared, task, workers
from ask_dask.compute.waiting import connected

__all__ = [
    "PAIRED",
    "Shared",
    "Sums",
    "add_in_pairs",
    "connected",
    "here",
    "is_dask",
    "machine_memory",
    "measured",
    "one_blas_thread",
    "product",
    "progress",
    "progress_shown",
    "run",
    "run_sum",
    "shared",
    "task",
    "tell",
    "workers",
]

"""Raw files -> validated rows in a dataset store.

`ingest` reads click logs once, in pieces of a fixed size, and keeps the parsed pieces on disk; then it counts labels by
fold for the target encoding, transforms the rows and writes them. `ingest_graph`, `ingest_table`, `ingest_svmlight` and
`ingest_samples` take edge lists, tables of numbers, sparse rows and samples of points. Nothing in the result depends on
the number of workers.
"""

from ask_dask.ingest.account import read_rejects
from ask_dask.ingest.formats import FORMATS, Format
from ask_dask.ingest.graph import ingest_graph, read_graph
from ask_dask.ingest.pipeline import ingest, ingest_plan
from ask_dask.ingest.samples import ingest_samples, read_divergence
from ask_dask.ingest.svmlight import ingest_svmlight
from ask_dask.ingest.table import ingest_table

__all__ = [
    "FORMATS",
    "Format",
    "ingest",
    "ingest_graph",
    "ingest_plan",
    "ingest_samples",
    "ingest_svmlight",
    "ingest_table",
    "read_divergence",
    "read_graph",
    "read_rejects",
]

"""Raw files -> validated, encoded rows in a dataset store.

`ingest` reads text once, in pieces of a fixed size, and keeps the parsed pieces on disk; then it counts labels by fold
for the target encoding, transforms the rows and writes them. Nothing in the result depends on the number of workers.
"""

from ask_dask.ingest.account import read_rejects
from ask_dask.ingest.formats import FORMATS, Format
from ask_dask.ingest.pipeline import ingest, ingest_plan

__all__ = ["FORMATS", "Format", "ingest", "ingest_plan", "read_rejects"]

"""Click logs made up by a seed, in the text of Criteo's, with a signal whose best possible AUROC is known.

`make_criteo` writes one file, `make_folder` many, and `make_store` the dataset store that they would be ingested to.
"""

from ask_dask.ingest.synthetic.best import Made
from ask_dask.ingest.synthetic.encoded import make_store
from ask_dask.ingest.synthetic.folder import make_folder, read_manifest
from ask_dask.ingest.synthetic.rows import make_rows
from ask_dask.ingest.synthetic.text import make_criteo

__all__ = ["Made", "make_criteo", "make_folder", "make_rows", "make_store", "read_manifest"]

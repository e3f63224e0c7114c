"""An input format in one file."""

from typing import Literal

import numpy as np

from ask_dask import store
from ask_dask.steps.each import info
from ask_dask.steps.ingest import Ingesting


class IngestSpaces(Ingesting):
    """Lines of numbers with spaces between them, the last one the label."""

    format: Literal["spaces"] = "spaces"

    def run(self):
        rows = np.concatenate([np.loadtxt(file) for file in self.files])
        with store.create(self.to, "dataset", self.overwrite) as group:
            store.write_array(group, "X", rows[:, :-1])
            store.write_array(group, "y", rows[:, -1])
            store.describe(
                group, format=self.format, n_rows=len(rows), n_features=rows.shape[1] - 1, recipe=self.recipe(),
                fingerprint=store.fingerprint(rows), encoder_fingerprint=store.fingerprint(rows.shape[1]),
            )  # fmt: skip
        return info(self.to)

"""The parameters of ingestion, checked."""

from dataclasses import dataclass, replace

import numpy as np

from ask_dask.encode import Encoder
from ask_dask.errors import InputError
from ask_dask.ingest.formats import Format


@dataclass(frozen=True)
class Settings:
    """The parameters of `ingest` that its result depends on."""

    n_folds: int
    smoothing: float
    n_buckets: int
    random_state: int
    max_rejects: float
    counts: bool

    def check(self) -> None:
        """Raise InputError for the first parameter that cannot be."""
        rules = [
            (3 <= self.n_folds <= 255, f"n_folds is {self.n_folds}: give 3 to 255."),
            (0 < self.smoothing < np.inf, f"smoothing is {self.smoothing}: give a number above 0."),
            (2 <= self.n_buckets <= 2**31, f"n_buckets is {self.n_buckets}: give 2 to 2**31."),
            (0 <= self.random_state < 2**32, f"random_state is {self.random_state}: give 0 to 2**32 - 1."),
            (0 <= self.max_rejects <= 1, f"max_rejects is {self.max_rejects}: give a share, from 0 to 1."),
        ]
        for holds, otherwise in rules:
            if not holds:
                raise InputError(otherwise)


def settings_of(encoder: Encoder, form: Format, settings: Settings) -> Settings:
    """The settings with those of an encoder that was fitted before.

    Raises
    ------
    InputError
        The encoder is for the columns of another format.
    """
    if (encoder.numeric, encoder.categorical) != (form.numeric, form.categorical):
        raise InputError(f"The encoder was not fitted on {form.name} columns: give one from a {form.name} store.")
    return replace(
        settings,
        n_folds=encoder.n_folds,
        smoothing=encoder.smoothing,
        n_buckets=encoder.n_buckets,
        random_state=encoder.random_state,
        counts=encoder.with_counts,
    )

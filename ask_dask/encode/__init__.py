"""Columns -> numbers: log and standardise, and target encoding out of fold, fitted from exact integer sums."""

from ask_dask.encode.encoder import Encoder, assemble, fit
from ask_dask.encode.tables import NumericSums, Smoothing, count_labels, out_of_fold, squash

__all__ = ["Encoder", "NumericSums", "Smoothing", "assemble", "count_labels", "fit", "out_of_fold", "squash"]

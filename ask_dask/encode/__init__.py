"""Columns -> numbers: log and standardise, and one-way target encoding, fitted from exact integer sums."""

from ask_dask.encode.encoder import Encoder, assemble, fit
from ask_dask.encode.tables import NumericSums, Smoothing, count_labels, encode_one_way, squash

__all__ = ["Encoder", "NumericSums", "Smoothing", "assemble", "count_labels", "encode_one_way", "fit", "squash"]

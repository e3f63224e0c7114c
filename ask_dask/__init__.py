"""Learning with asymmetric kernels, out of core and distributed, on dask and zarr."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _loading() -> Iterator[None]:
    """Without looking for garbage among what is loaded and stays, which takes a quarter of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


with _loading():
    from ask_dask.blocks import asymmetry
    from ask_dask.estimators import KSVD, AsKLSClassifier, AsKLSRegressor, AsymmetricNystroem, load

__all__ = ["KSVD", "AsKLSClassifier", "AsKLSRegressor", "AsymmetricNystroem", "asymmetry", "load"]

"""Learning with asymmetric kernels, out of core and distributed, on dask and zarr."""

from ask_dask.estimators import AsKLSClassifier, load

__all__ = ["AsKLSClassifier", "load"]

"""Learning with asymmetric kernels, out of core and distributed, on dask and zarr."""

from ask_dask.blocks import asymmetry
from ask_dask.estimators import AsKLSClassifier, AsKLSRegressor, load

__all__ = ["AsKLSClassifier", "AsKLSRegressor", "asymmetry", "load"]

"""Learning with asymmetric kernels, out of core and distributed, on dask and zarr."""

from ask_dask.blocks import asymmetry
from ask_dask.estimators import KSVD, AsKLSClassifier, AsKLSRegressor, AsymmetricNystroem, load

__all__ = ["KSVD", "AsKLSClassifier", "AsKLSRegressor", "AsymmetricNystroem", "asymmetry", "load"]

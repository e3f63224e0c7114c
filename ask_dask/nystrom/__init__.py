"""The asymmetric Nystrom approximation K = C W^+ R: its feature maps."""

from ask_dask.nystrom.maps import FeatureMap, Judge, feature_map, fitted_map, resolution, svd

__all__ = ["FeatureMap", "Judge", "feature_map", "fitted_map", "resolution", "svd"]

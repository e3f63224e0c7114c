"""The asymmetric Nystrom approximation K = C W^+ R: feature maps, and singular vectors from one pass."""

from ask_dask.nystrom.maps import FeatureMap, Judge, feature_map, fitted_map, resolution, svd
from ask_dask.nystrom.vectors import (
    Error,
    Gram,
    SingularVectors,
    estimated_error,
    orthonormal,
    scaled,
    signed,
)

__all__ = [
    "Error",
    "FeatureMap",
    "Gram",
    "Judge",
    "SingularVectors",
    "estimated_error",
    "feature_map",
    "fitted_map",
    "orthonormal",
    "resolution",
    "scaled",
    "signed",
    "svd",
]

"""Thin scikit-learn classes over the rooms above."""

from ask_dask.estimators.askls import AsKLSClassifier, AsKLSRegressor
from ask_dask.estimators.ksvd import KSVD
from ask_dask.estimators.nystroem import AsymmetricNystroem
from ask_dask.estimators.saved import load

__all__ = ["KSVD", "AsKLSClassifier", "AsKLSRegressor", "AsymmetricNystroem", "load"]

"""Thin scikit-learn classes over the rooms above."""

from ask_dask.estimators.askls import AsKLSClassifier, AsKLSRegressor
from ask_dask.estimators.ksvd import KSVD, AsymmetricNystroem
from ask_dask.estimators.model_store import load

__all__ = ["KSVD", "AsKLSClassifier", "AsKLSRegressor", "AsymmetricNystroem", "load"]

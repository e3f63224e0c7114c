"""Thin scikit-learn classes over the rooms above."""

from ask_dask.estimators import embedding_store, model_store  # noqa: F401 (each adds itself to saved.KINDS)
from ask_dask.estimators.askls import AsKLSClassifier, AsKLSRegressor
from ask_dask.estimators.components import KernelPCA
from ask_dask.estimators.fisher import KernelFisherDiscriminant
from ask_dask.estimators.ksvd import KSVD
from ask_dask.estimators.nystroem import AsymmetricNystroem
from ask_dask.estimators.ridge import KernelRidge
from ask_dask.estimators.saved import load

__all__ = [
    "KSVD",
    "AsKLSClassifier",
    "AsKLSRegressor",
    "AsymmetricNystroem",
    "KernelFisherDiscriminant",
    "KernelPCA",
    "KernelRidge",
    "load",
]

"""Learning with asymmetric kernels, out of core and distributed, on dask and zarr."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ask_dask.blocks import LandmarkBlocks, asymmetry
    from ask_dask.estimators import (
        KSVD,
        AsKLSClassifier,
        AsKLSRegressor,
        AsymmetricNystroem,
        KernelFisherDiscriminant,
        KernelPCA,
        KernelRidge,
        load,
    )

__all__ = [
    "KSVD",
    "AsKLSClassifier",
    "AsKLSRegressor",
    "AsymmetricNystroem",
    "KernelFisherDiscriminant",
    "KernelPCA",
    "KernelRidge",
    "LandmarkBlocks",
    "asymmetry",
    "load",
]
OF_BLOCKS = {"LandmarkBlocks", "asymmetry"}


def __getattr__(name: str) -> Any:
    """What is public is loaded when it is asked for: `ask-dask` has seconds less in which it cannot be stopped."""
    if name in __all__:
        return getattr(import_module("ask_dask.blocks" if name in OF_BLOCKS else "ask_dask.estimators"), name)
    if not name.startswith("_") and find_spec(f"ask_dask.{name}"):
        return import_module(f"ask_dask.{name}")
    raise AttributeError(f"module 'ask_dask' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Fitted KSVD in zarr: singular vectors of the training points, and all that new points need."""

from dataclasses import asdict
from typing import Any

import numpy as np
import zarr

from ask_dask import blocks, store
from ask_dask.errors import StoreError
from ask_dask.estimators.compat import Compatibility, Linear
from ask_dask.estimators.ksvd import KSVD
from ask_dask.estimators.parameters import names_of
from ask_dask.estimators.saved import KINDS, Kind
from ask_dask.estimators.sketch import Sketch
from ask_dask.estimators.stored import (
    json_parameter,
    landmarks_parameter,
    read_array,
    read_basis,
    with_arrays,
    without_arrays,
    write_basis,
)
from ask_dask.kernels import kernel_from_dict
from ask_dask.solve.vectors import Error, SingularVectors

ARRAYS = ("singular_values", "row_landmarks", "column_landmarks")
VECTORS = ("source", "target", "offsets")
FACTS = ("landmark_error", "exact_error", "residuals", "compat_losses")


def write(model: KSVD, group: zarr.Group) -> None:
    """Write a fitted estimator into a group that is open for writing; U and V a shard at a time, `left` and `right`."""
    parts = [
        blocks.write_rows(group, name, *side, model.n_components_)
        for name, side in (("left", model.left_), ("right", model.right_))
    ]
    for name in ARRAYS:
        store.write_array(group, name, getattr(model, f"{name}_"))
    write_basis(group, model.basis_)
    for name in VECTORS:
        store.write_array(group, f"coefficients_{name}", getattr(model.vectors_, name))
    kernel = without_arrays(model.kernel_.to_dict(), group)
    store.describe(
        group,
        fingerprint=store.fingerprint(*parts, kernel, model.seed_),
        estimator=type(model).__name__,
        parameters=_parameters(model),
        kernel=kernel,
        shape=model.shape_,
        n_features=model.n_features_in_,
        feature_names=names_of(model),
        n_components=model.n_components_,
        n_landmarks=model.n_landmarks_,
        n_targets=model.basis_.n_rows,
        exact_normaliser=model.basis_.targets is not None,
        seed=model.seed_,
        error=None if model.error_ is None else asdict(model.error_),
        **{name: getattr(model, f"{name}_") for name in FACTS},
        compat=_write_compatibility(model._compat, group),
    )


def read(group: zarr.Group) -> KSVD:
    """The fitted estimator of an embedding store; its singular vectors are read from there when they are used."""
    about = store.about(group)
    if about.get("estimator") != KSVD.__name__:
        raise StoreError(
            f"{store.place(group)} is an embedding of a release that did not keep the model: make it again."
        )
    kernel = kernel_from_dict(with_arrays(about["kernel"], group))
    parameters = about["parameters"]
    given = {
        "kernel": kernel if parameters["kernel"] else None,
        "landmarks": landmarks_parameter(parameters["landmarks"]),
    }
    model = KSVD(**(parameters | given))
    if about["feature_names"] is not None:
        model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    model.seed_, model.n_features_in_, model.kernel_ = about["seed"], about["n_features"], kernel
    model.shape_, model.n_components_ = tuple(about["shape"]), about["n_components"]
    model.error_ = None if about["error"] is None else Error(**about["error"])
    for name in FACTS:
        setattr(model, f"{name}_", about[name])
    for name in ARRAYS:
        setattr(model, f"{name}_", read_array(group, name))
    coefficients = {name: read_array(group, f"coefficients_{name}") for name in VECTORS}
    vectors = SingularVectors(values=model.singular_values_, left_out=0, **coefficients)
    basis = read_basis(group, kernel, about["n_targets"], about["exact_normaliser"])
    model._bind(basis, vectors, *about["n_landmarks"])
    model._compat = _read_compatibility(about["compat"], group)
    model._training = ((store.array(group, "left"), np.asarray), (store.array(group, "right"), np.asarray))
    return model


def _parameters(model: KSVD) -> dict[str, Any]:
    """The constructor's arguments as JSON values; the kernel is kept beside them."""
    given = model.get_params(deep=False)
    given |= {"kernel": None if model.kernel is None else type(model.kernel).__name__, "random_state": model.seed_}
    return {key: json_parameter(value) for key, value in given.items()}


def _write_compatibility(compat: Compatibility | None, group: zarr.Group) -> dict[str, Any] | None:
    """How rows and columns of a data matrix become points, as JSON that names its arrays."""
    return None if compat is None else without_arrays(vars(compat) | {"name": type(compat).__name__}, group)


def _read_compatibility(spec: dict[str, Any] | None, group: zarr.Group) -> Compatibility | None:
    if spec is None:
        return None
    values = with_arrays(spec, group)
    return {"Linear": Linear, "Sketch": Sketch}[values.pop("name")](**values)


KINDS["embedding"] = Kind((KSVD,), write, read)

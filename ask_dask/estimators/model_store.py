"""Fitted estimators on landmarks in zarr: one writer and one reader for all methods."""

from typing import Any

import numpy as np
import zarr

from ask_dask import store
from ask_dask.errors import StoreError, mask
from ask_dask.estimators.askls import AsKLSClassifier, AsKLSRegressor
from ask_dask.estimators.fitted import LandmarkEstimator
from ask_dask.estimators.methods import CATALOGUE
from ask_dask.estimators.parameters import names_of
from ask_dask.estimators.saved import KINDS, Kind
from ask_dask.estimators.stored import (
    dtype_of,
    json_parameter,
    json_values,
    landmarks_parameter,
    read_array,
    read_basis,
    with_arrays,
    without_arrays,
    write_basis,
)
from ask_dask.kernels import kernel_from_dict
from ask_dask.solve import Solution

KEPT = ("n_landmarks_", "n_outputs_", "task_", "scoring_", "seed_", "solver_", "solution_")
"""Attributes of every estimator; each adds its own."""

ARRAYS = {"solution": "coefficients"}
"""First parts of the names of an object's arrays, where these are not its own name."""

OPTIONAL = ("held_out_", "merger_", "landmark_error_", "_flat", "_y_sparse")
"""Attributes that are kept where an estimator has them."""


def write(model: LandmarkEstimator, group: zarr.Group) -> None:
    """Write a fitted estimator into a group that is open for writing."""
    basis = model.basis_
    write_basis(group, basis)
    for name in ("row_landmarks", "column_landmarks"):
        store.write_array(group, name, getattr(model, f"{name}_"))
    names = (*KEPT, *model.kept, *(name for name in OPTIONAL if name in vars(model)))
    arrays = [name for name in names if isinstance(getattr(model, name), np.ndarray)]
    for name in arrays:
        store.write_array(group, _key(name), getattr(model, name))
    state = {_key(name): getattr(model, name) for name in names if name not in arrays}
    optional: dict[str, Any] = {}
    if hasattr(model, "cv_results_"):
        optional["cv_results"] = {key: json_values(values) for key, values in model.cv_results_.items()}
    if hasattr(model, "classes_"):
        optional |= {"classes": model.classes_.tolist(), "classes_dtype": model.classes_.dtype.str}
    if hasattr(model, "_y_dtype"):
        optional["y_dtype"] = model._y_dtype.str
    kernel = without_arrays(model.kernel_.to_dict(), group)
    s = model.solution_
    parts = (model.row_landmarks_, s.source, s.target, s.intercepts, *(getattr(model, name) for name in arrays))
    store.describe(
        group,
        fingerprint=store.fingerprint(*parts, kernel, model.seed_),
        estimator=type(model).__name__,
        parameters=_parameters(model),
        parameter=model.parameter,
        kernel=kernel,
        kept_arrays=[_key(name) for name in arrays],
        n_rows=basis.n_rows,
        n_features=model.n_features_in_,
        feature_names=names_of(model),
        dtype=str(basis.row_points.dtype),
        exact_normaliser=basis.targets is not None,
        **{key: without_arrays(value, group, ARRAYS.get(key, key)) for key, value in state.items()},
        **optional,
    )


def _key(name: str) -> str:
    """Return what an attribute of an estimator is called in a store."""
    return name.strip("_")


def estimators() -> dict[str, Any]:
    """Return the classes of estimators by name."""
    known = (AsKLSClassifier, AsKLSRegressor, *(method.estimator for method in CATALOGUE.values()))
    return {cls.__name__: cls for cls in known}


def read(group: zarr.Group) -> LandmarkEstimator:
    """Return the fitted estimator of a model store."""
    about, known = store.about(group), estimators()
    if about["estimator"] not in known:
        raise StoreError(
            f"{store.place(group)} holds a model of kind {about['estimator']}, which is not known here: import the "
            "module that has it, with the command by --use."
        )
    kernel = kernel_from_dict(with_arrays(about["kernel"], group))
    parameters = about["parameters"]
    inner = kernel.kernel if parameters.get("symmetrise") else kernel  # type: ignore[attr-defined]
    given = {
        "kernel": inner if parameters["kernel"] else None,
        "landmarks": landmarks_parameter(parameters["landmarks"]),
    }
    if isinstance(parameters.get("class_weight"), list):
        given["class_weight"] = _class_weight(parameters["class_weight"])
    model = known[about["estimator"]](**(parameters | given))
    if about["feature_names"] is not None:
        model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    model.n_features_in_ = about["n_features"]
    for name in (*KEPT, *model.kept, *OPTIONAL):
        if _key(name) in about["kept_arrays"]:
            setattr(model, name, read_array(group, _key(name)))
        elif _key(name) in about:
            setattr(model, name, with_arrays(about[_key(name)], group))
    if not isinstance(getattr(model, "solution_", None), Solution):
        raise StoreError(f"{store.place(group)} is damaged: it has no solution.")
    if "classes" in about:
        model.classes_ = np.array(about["classes"], dtype_of(group, "classes_dtype", "biufUO"))
    if "y_dtype" in about:
        model._y_dtype = dtype_of(group, "y_dtype", "biuf")
    for name in ("row_landmarks", "column_landmarks"):
        setattr(model, f"{name}_", read_array(group, name))
    if "cv_results" in about:
        model.cv_results_ = {
            k: np.array([np.nan if x is None else x for x in v]) for k, v in about["cv_results"].items()
        }
    model._bind(read_basis(group, kernel, about["n_rows"], about["exact_normaliser"]))
    return model


def _parameters(model: LandmarkEstimator) -> dict[str, Any]:
    """Return the constructor's arguments as JSON values; what JSON cannot say (a splitter, row numbers) is in words."""
    given = model.get_params(deep=False)
    given["kernel"] = None if model.kernel is None else type(model.kernel).__name__  # the whole is in "kernel"
    given["random_state"] = model.seed_
    if not (model.cv is None or isinstance(model.cv, int | str)):
        ending = f"_test_{model.scoring_}"
        given["cv"] = len([key for key in model.cv_results_ if key.startswith("split") and key.endswith(ending)])
    if isinstance(given.get("class_weight"), dict):
        given["class_weight"] = list(given["class_weight"].items())
    elif isinstance(given.get("class_weight"), list):  # a dict for each of several labels
        given["class_weight"] = [{"of_label": list(weights.items())} for weights in given["class_weight"]]
    given["checkpoint"] = None if model.checkpoint is None else mask(str(model.checkpoint))
    return {key: json_parameter(value) for key, value in given.items()}


def _class_weight(value: list[Any]) -> Any:
    """Return the `class_weight` parameter from JSON, whose keys are text: a dict, or one for each of several labels."""
    if value and isinstance(value[0], dict):
        return [dict(weights["of_label"]) for weights in value]
    return dict(value)


KINDS["model"] = Kind((LandmarkEstimator,), write, read)

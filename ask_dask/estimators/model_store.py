"""Fitted AsK-LS models in zarr."""

from typing import Any

import numpy as np
import zarr

from ask_dask import store
from ask_dask.errors import StoreError, mask
from ask_dask.estimators.askls import AsKLSClassifier, AsKLSRegressor
from ask_dask.estimators.base import AsKLS
from ask_dask.estimators.merge import Bend, Merger
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
from ask_dask.solve import Resonance, Solution

COEFFICIENTS = ("source", "target", "intercepts")
ESTIMATORS = {cls.__name__: cls for cls in (AsKLSClassifier, AsKLSRegressor)}


def write(model: AsKLS, group: zarr.Group) -> None:
    """Write a fitted estimator into a group that is open for writing."""
    basis = model.basis_
    write_basis(group, basis)
    for name in ("row_landmarks_", "column_landmarks_", "singular_values_"):
        store.write_array(group, name.rstrip("_"), getattr(model, name))
    for name in COEFFICIENTS:
        store.write_array(group, f"coefficients_{name}", getattr(model.solution_, name))
    optional: dict[str, Any] = {}
    if model.cv is not None:
        merger = model.merger_
        store.write_array(group, "merger", np.vstack([merger.weights, merger.intercepts, *merger.bend.rows()]))
        optional = {
            "merger_shared": merger.shared,
            "held_out": model.held_out_,
            "cv_results": {key: json_values(values) for key, values in model.cv_results_.items()},
        }
    if model.compare_exact:
        optional["landmark_error"] = model.landmark_error_
    if isinstance(model, AsKLSClassifier):
        optional |= {"classes": model.classes_.tolist(), "classes_dtype": model.classes_.dtype.str}
        if model.task_ == "multilabel":
            optional |= {"y_dtype": model._y_dtype.str, "y_sparse": model._y_sparse}
    elif isinstance(model, AsKLSRegressor):
        optional["flat"] = model._flat
    parts = (model.row_landmarks_, *vars(model.solution_).values(), model.singular_values_)
    kernel = without_arrays(model.kernel_.to_dict(), group)
    store.describe(
        group,
        fingerprint=store.fingerprint(*parts, kernel, model.seed_),
        estimator=type(model).__name__,
        task=model.task_,
        parameters=_parameters(model),
        kernel=kernel,
        gamma=model.gamma_,
        n_landmarks=model.n_landmarks_,
        n_outputs=model.n_outputs_,
        n_rows=basis.n_rows,
        n_features=model.n_features_in_,
        feature_names=names_of(model),
        seed=model.seed_,
        scoring=model.scoring_,
        dtype=str(basis.row_points.dtype),
        resonance=model.resonance_.to_dict(),
        solver=model.solver_,
        asymmetry=model.asymmetry_,
        exact_normaliser=basis.targets is not None,
        **optional,
    )


def read(group: zarr.Group) -> AsKLS:
    """The fitted estimator of a model store."""
    about = store.about(group)
    if about["estimator"] not in ESTIMATORS:
        raise StoreError(
            f"{store.place(group)} holds a model of kind {about['estimator']}, which this release does not know."
        )
    kernel = kernel_from_dict(with_arrays(about["kernel"], group))
    parameters = about["parameters"]
    inner = kernel.kernel if parameters["symmetrise"] else kernel  # type: ignore[attr-defined]
    given = {
        "kernel": inner if parameters["kernel"] else None,
        "landmarks": landmarks_parameter(parameters["landmarks"]),
    }
    if isinstance(parameters.get("class_weight"), list):
        given["class_weight"] = _class_weight(parameters["class_weight"])
    model = ESTIMATORS[about["estimator"]](**(parameters | given))
    if about["feature_names"] is not None:
        model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    model.seed_, model.n_features_in_, model.scoring_ = about["seed"], about["n_features"], about["scoring"]
    model.gamma_, model.n_landmarks_ = about["gamma"], about["n_landmarks"]
    model.task_, model.n_outputs_ = about["task"], about["n_outputs"]
    model.solver_, model.asymmetry_ = about["solver"], about["asymmetry"]
    if "classes" in about:
        model.classes_ = np.array(about["classes"], dtype_of(group, "classes_dtype", "biufUO"))
    if "y_dtype" in about:
        model._y_dtype, model._y_sparse = dtype_of(group, "y_dtype", "biuf"), about["y_sparse"]
    if "flat" in about:
        model._flat = about["flat"]
    if "landmark_error" in about:
        model.landmark_error_ = about["landmark_error"]
    for name in ("row_landmarks_", "column_landmarks_", "singular_values_"):
        setattr(model, name, read_array(group, name.rstrip("_")))
    model.resonance_ = Resonance.from_dict(about["resonance"])
    source, target, intercepts = (read_array(group, f"coefficients_{name}") for name in COEFFICIENTS)
    model.solution_ = Solution(
        source,
        target,
        intercepts,
        condition_number=model.resonance_.condition_number,
        amplification=model.resonance_.amplification,
        rounding=model.solver_.get("rounding", 0.0),
        unresolved=model.solver_.get("unresolved", 0.0),
    )
    if "merger" in group:
        weights, intercepts, *bend = np.split(read_array(group, "merger"), [2, 3, 5, 7, 9])
        model.merger_ = Merger(model.merge, weights, intercepts[0], Bend(*bend), about["merger_shared"], model.task_)
        model.held_out_ = about["held_out"]
        model.cv_results_ = {
            k: np.array([np.nan if x is None else x for x in v]) for k, v in about["cv_results"].items()
        }
    model._bind(read_basis(group, kernel, about["n_rows"], about["exact_normaliser"]))
    return model


def _parameters(model: AsKLS) -> dict[str, Any]:
    """The constructor's arguments as JSON values; what JSON cannot say (a splitter, row numbers) is said in words."""
    given = model.get_params(deep=False)
    given["kernel"] = None if model.kernel is None else type(model.kernel).__name__  # the whole is in "kernel"
    given["random_state"] = model.seed_
    if not (model.cv is None or isinstance(model.cv, int)):
        ending = f"_test_{model.scoring_}"
        given["cv"] = len([key for key in model.cv_results_ if key.startswith("split") and key.endswith(ending)])
    if isinstance(given.get("class_weight"), dict):
        given["class_weight"] = list(given["class_weight"].items())
    elif isinstance(given.get("class_weight"), list):  # a dict for each of several labels
        given["class_weight"] = [{"of_label": list(weights.items())} for weights in given["class_weight"]]
    given["checkpoint"] = None if model.checkpoint is None else mask(str(model.checkpoint))
    return {key: json_parameter(value) for key, value in given.items()}


def _class_weight(value: list[Any]) -> Any:
    """The `class_weight` parameter from JSON, whose own keys are text: a dict, or one for each of several labels."""
    if value and isinstance(value[0], dict):
        return [dict(weights["of_label"]) for weights in value]
    return dict(value)


KINDS["model"] = Kind((AsKLS,), write, read)

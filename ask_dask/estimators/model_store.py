"""Models in zarr: arrays of numbers and JSON, nothing pickled.

A kernel's arrays (a graph, a matrix, bandwidths) are kept beside its JSON, which names them. A matrix that is itself a
zarr array, and may be far larger than the model, stays where it is: its path and shape are kept.
"""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
import zarr
from zarr.storage import LocalStore, MemoryStore

from ask_dask import store
from ask_dask.errors import StoreError
from ask_dask.estimators.askls import AsKLSClassifier, AsKLSRegressor
from ask_dask.estimators.base import AsKLS
from ask_dask.estimators.merge import Merger
from ask_dask.estimators.problem import Placed
from ask_dask.kernels import kernel_from_dict
from ask_dask.kernels.base import Block
from ask_dask.solve import Resonance, Solution

ESTIMATORS = {cls.__name__: cls for cls in (AsKLSClassifier, AsKLSRegressor)}


def save(model: AsKLS, path: str | Path, overwrite: bool, facts: dict[str, Any]) -> None:
    """Write a fitted estimator to a model store."""
    with store.create(path, "model", overwrite) as group:
        write(model, group)
        store.describe(group, **facts)


def write(model: AsKLS, group: zarr.Group) -> None:
    """Write a fitted estimator into a group that is open for writing."""
    placed = model.placed_
    _write_points(group, "row_points", placed.row_points)
    if placed.column_points is not placed.row_points:
        _write_points(group, "column_points", placed.column_points)
    if placed.targets is not None and placed.targets is not placed.row_points:
        _write_points(group, "targets", placed.targets)
    for name in ("row_landmarks_", "column_landmarks_", "singular_values_"):
        store.write_array(group, name.rstrip("_"), getattr(model, name))
    for name in ("source", "target", "intercepts"):
        store.write_array(group, f"coefficients_{name}", getattr(model.solution_, name))
    optional: dict[str, Any] = {}
    if model.cv is not None:
        store.write_array(group, "merger", np.vstack([model.merger_.weights, model.merger_.intercepts]))
        optional = {
            "held_out": model.held_out_,
            "cv_results": {key: _json(values) for key, values in model.cv_results_.items()},
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
    kernel = _without_arrays(model.kernel_.to_dict(), group)
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
        n_rows=placed.n_rows,
        n_features=model.n_features_in_,
        seed=model.seed_,
        scoring=model.scoring_,
        dtype=str(placed.row_points.dtype),
        resonance=model.resonance_.to_dict(),
        solver=model.solver_,
        asymmetry=model.asymmetry_,
        exact_normaliser=placed.targets is not None,
        **optional,
    )


def load(path: str | Path) -> Any:
    """The fitted estimator of a model store.

    Raises
    ------
    StoreError
        Not a model store of a known version and estimator; its kernel matrix is no longer where it was.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> m = AsKLSClassifier(gamma=1.0, cv=2, random_state=0).fit(X, X[:, 0] > 0)
    >>> path = tempfile.mkdtemp() + "/model.zarr"
    >>> m.save(path)
    >>> np.array_equal(load(path).decision_function(X), m.decision_function(X))
    True
    """
    group = store.open_store(path, "model")
    about = store.about(group)
    if about["estimator"] not in ESTIMATORS:
        raise StoreError(f"{path} holds a model of kind {about['estimator']}, which this release does not know.")
    kernel = kernel_from_dict(_with_arrays(about["kernel"], group))
    parameters = about["parameters"]
    inner = kernel.kernel if parameters["symmetrise"] else kernel  # type: ignore[attr-defined]
    given = {"kernel": inner if parameters["kernel"] else None, "landmarks": _landmarks(parameters["landmarks"])}
    if isinstance(parameters.get("class_weight"), list):
        given["class_weight"] = _class_weight(parameters["class_weight"])
    model = ESTIMATORS[about["estimator"]](**(parameters | given))
    model.seed_, model.n_features_in_, model.scoring_ = about["seed"], about["n_features"], about["scoring"]
    model.gamma_, model.n_landmarks_ = about["gamma"], about["n_landmarks"]
    model.task_, model.n_outputs_ = about["task"], about["n_outputs"]
    model.solver_, model.asymmetry_ = about["solver"], about["asymmetry"]
    if "classes" in about:
        model.classes_ = np.array(about["classes"], about["classes_dtype"])
    if "y_dtype" in about:
        model._y_dtype, model._y_sparse = np.dtype(about["y_dtype"]), about["y_sparse"]
    if "flat" in about:
        model._flat = about["flat"]
    if "landmark_error" in about:
        model.landmark_error_ = about["landmark_error"]
    for name in ("row_landmarks_", "column_landmarks_", "singular_values_"):
        setattr(model, name, _read(group, name.rstrip("_")))
    model.resonance_ = Resonance.from_dict(about["resonance"])
    coefficients = {name: _read(group, f"coefficients_{name}") for name in ("source", "target", "intercepts")}
    model.solution_ = Solution(**coefficients, condition_number=model.resonance_.condition_number)
    if "merger" in group:
        merger = _read(group, "merger")
        model.merger_ = Merger(model.merge, merger[:2], merger[2], model.task_)
        model.held_out_ = about["held_out"]
        model.cv_results_ = {
            k: np.array([np.nan if x is None else x for x in v]) for k, v in about["cv_results"].items()
        }
    rows = _read_points(group, "row_points")
    columns = _read_points(group, "column_points") if "column_points" in group else rows
    targets = (_read_points(group, "targets") if "targets" in group else rows) if about["exact_normaliser"] else None
    model._bind(Placed(kernel, rows, columns, about["n_rows"], targets))
    return model


def _without_arrays(spec: Any, group: zarr.Group) -> Any:
    """A kernel's description as JSON: arrays are written into the group and named."""
    if isinstance(spec, dict):
        return {key: _without_arrays(value, group) for key, value in spec.items()}
    if isinstance(spec, zarr.Array):
        if isinstance(spec.store, MemoryStore):
            raise StoreError("The kernel's matrix is a zarr array in memory, which cannot be kept: write it to a path.")
        return {"zarr": _absolute(spec), "shape": list(spec.shape), "dtype": str(spec.dtype)}
    if isinstance(spec, da.Array):
        raise StoreError("The kernel's matrix is a dask array, which cannot be kept: write it to zarr, fit with that.")
    if isinstance(spec, np.ndarray) or sp.issparse(spec):
        name = f"kernel_{len(list(group.members()))}"
        _write_points(group, name, spec)
        return {"array": name}
    return spec


def _absolute(array: zarr.Array) -> str:
    """Where an array is, wherever the model is loaded from."""
    return str(Path(store.place(array)).absolute()) if isinstance(array.store, LocalStore) else str(array.store_path)


def _with_arrays(spec: Any, group: zarr.Group) -> Any:
    if not isinstance(spec, dict):
        return spec
    if "array" in spec:
        return _read_points(group, spec["array"])
    if "zarr" in spec:
        return _open_matrix(spec)
    return {key: _with_arrays(value, group) for key, value in spec.items()}


def _open_matrix(spec: dict[str, Any]) -> zarr.Array:
    try:
        found = zarr.open_array(spec["zarr"], mode="r")
    except (OSError, KeyError, ValueError) as error:
        raise StoreError(f"The kernel matrix of the model is not at {spec['zarr']} any more: put it back.") from error
    if list(found.shape) != spec["shape"] or str(found.dtype) != spec["dtype"]:
        raise StoreError(f"{spec['zarr']} is no longer the kernel matrix of the model: it has another shape or dtype.")
    return found


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
    given["checkpoint"] = None if model.checkpoint is None else str(model.checkpoint)
    return {key: _json_parameter(value) for key, value in given.items()}


def _json_parameter(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_json_parameter(v) for v in value]
    if isinstance(value, dict):
        return {key: _json_parameter(v) for key, v in value.items()}
    return _json(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


def _class_weight(value: list[Any]) -> Any:
    """The `class_weight` parameter from JSON, whose own keys are text: a dict, or one for each of several labels."""
    if value and isinstance(value[0], dict):
        return [dict(weights["of_label"]) for weights in value]
    return dict(value)


def _landmarks(value: Any) -> Any:
    """The `landmarks` parameter from JSON: a name, row numbers, or a pair of them."""
    if isinstance(value, str):
        return value
    return tuple(map(np.array, value)) if isinstance(value[0], list) else np.array(value)


def _json(values: np.ndarray) -> Any:
    """Numbers as JSON: NaN becomes null."""
    if values.ndim:
        return [_json(np.asarray(v)) for v in values]
    value = values.item()
    return None if isinstance(value, float) and np.isnan(value) else value


def _read(group: zarr.Group, name: str) -> np.ndarray:
    return store.read(store.array(group, name))


def _write_points(group: zarr.Group, name: str, points: Block) -> None:
    if not sp.issparse(points):
        store.write_array(group, name, points)
        return
    part = group.create_group(name)
    points = points.tocsr()
    for key in ("data", "indices", "indptr"):
        store.write_array(part, key, getattr(points, key))
    store.write_array(part, "shape", np.array(points.shape))


def _read_points(group: zarr.Group, name: str) -> Block:
    if isinstance(group.get(name), zarr.Array):
        return _read(group, name)
    part = store.subgroup(group, name)
    data, indices, indptr, shape = (_read(part, key) for key in ("data", "indices", "indptr", "shape"))
    return sp.csr_matrix((data, indices, indptr), shape=tuple(shape))

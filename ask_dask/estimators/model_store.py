"""Models in zarr: arrays of numbers and JSON, nothing pickled."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import zarr

from ask_dask import store
from ask_dask.errors import StoreError
from ask_dask.estimators.askls import AsKLSClassifier
from ask_dask.estimators.merge import Merger
from ask_dask.kernels import kernel_from_dict
from ask_dask.kernels.base import Block
from ask_dask.solve import Resonance, Solution


def save(model: AsKLSClassifier, path: str | Path, overwrite: bool, facts: dict[str, Any]) -> None:
    """Write a fitted classifier to a model store."""
    with store.create(path, "model", overwrite) as group:
        write(model, group)
        store.describe(group, **facts)


def write(model: AsKLSClassifier, group: zarr.Group) -> None:
    """Write a fitted classifier into a group that is open for writing."""
    _write_points(group, "row_points", model.row_points_)
    if model.column_points_ is not model.row_points_:
        _write_points(group, "column_points", model.column_points_)
    if model.targets_ is not None:
        _write_points(group, "targets", model.targets_)
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
    parts = (model.row_landmarks_, *vars(model.solution_).values(), model.singular_values_)
    store.describe(
        group,
        fingerprint=store.fingerprint(*parts, model.kernel_, model.seed_),
        estimator=type(model).__name__,
        parameters=_parameters(model),
        kernel=model.kernel_.to_dict(),
        classes=model.classes_.tolist(),
        classes_dtype=model.classes_.dtype.str,
        gamma=model.gamma_,
        n_landmarks=model.n_landmarks_,
        n_rows=model.n_rows_,
        n_features=model.n_features_in_,
        seed=model.seed_,
        scoring=model.scoring,
        dtype=str(model.row_points_.dtype),
        resonance=model.resonance_.to_dict(),
        **optional,
    )


def load(path: str | Path) -> AsKLSClassifier:
    """The fitted classifier of a model store.

    Raises
    ------
    StoreError
        Not a model store of a known version and estimator.

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
    if about["estimator"] != AsKLSClassifier.__name__:
        raise StoreError(f"{path} holds a model of kind {about['estimator']}, which this release does not know.")
    kernel = kernel_from_dict(about["kernel"])
    parameters = about["parameters"]
    given = {"kernel": kernel if parameters["kernel"] else None, "landmarks": _landmarks(parameters["landmarks"])}
    model = AsKLSClassifier(**(parameters | given))
    model.kernel_, model.seed_, model.n_features_in_ = kernel, about["seed"], about["n_features"]
    model.gamma_, model.n_landmarks_ = about["gamma"], about["n_landmarks"]
    model.classes_ = np.array(about["classes"], about["classes_dtype"])
    for name in ("row_landmarks_", "column_landmarks_", "singular_values_"):
        setattr(model, name, _read(group, name.rstrip("_")))
    model.resonance_ = Resonance.from_dict(about["resonance"])
    coefficients = {name: _read(group, f"coefficients_{name}") for name in ("source", "target", "intercepts")}
    model.solution_ = Solution(**coefficients, condition_number=model.resonance_.condition_number)
    if "merger" in group:
        merger = _read(group, "merger")
        model.merger_ = Merger(model.merge, merger[:2], merger[2])
        model.held_out_ = about["held_out"]
        model.cv_results_ = {
            k: np.array([np.nan if x is None else x for x in v]) for k, v in about["cv_results"].items()
        }
    rows = _read_points(group, "row_points")
    columns = _read_points(group, "column_points") if "column_points" in group else rows
    model._bind(rows, columns, about["n_rows"], _read_points(group, "targets") if "targets" in group else None)
    model._at = model.landmark_kernel_.prefix(model.n_landmarks_)
    return model


def _parameters(model: AsKLSClassifier) -> dict[str, Any]:
    """The constructor's arguments as JSON values; what JSON cannot say (a splitter, row numbers) is said in words."""
    given = model.get_params(deep=False)
    given["kernel"] = None if model.kernel is None else model.kernel.to_dict()
    given["random_state"] = model.seed_
    if not (model.cv is None or isinstance(model.cv, int)):
        given["cv"] = len([key for key in model.cv_results_ if key.endswith("_test_auroc") and key.startswith("split")])
    return {key: _json_parameter(value) for key, value in given.items()}


def _json_parameter(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_json_parameter(v) for v in value]
    return _json(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


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

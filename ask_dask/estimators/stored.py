"""What every kind of model keeps in zarr: points, arrays, kernels and parameters as JSON; nothing pickled.

A kernel's arrays (a graph, a matrix, bandwidths) are kept beside its JSON, which names them. A matrix that is itself a
zarr array, and may be far larger than the model, stays where it is: its path and shape are kept.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
import zarr
from zarr.storage import FsspecStore, LocalStore, MemoryStore

from ask_dask import store
from ask_dask.basis import Basis
from ask_dask.errors import StoreError
from ask_dask.estimators.inputs import LARGEST_LABEL
from ask_dask.fit.bend import Bend
from ask_dask.fit.merge import Merger
from ask_dask.kernels.base import Block, Kernel
from ask_dask.solve import Functions, Resonance, Solution
from ask_dask.sparse import checked

OBJECTS: dict[str, Any] = {cls.__name__: cls for cls in (Bend, Functions, Merger, Resonance, Solution)}
"""Objects that are kept by their fields."""


def write_basis(group: zarr.Group, basis: Basis) -> None:
    """The points that a kernel at landmarks needs, each once."""
    write_points(group, "row_points", basis.row_points)
    if basis.column_points is not basis.row_points:
        write_points(group, "column_points", basis.column_points)
    if basis.targets is not None and basis.targets is not basis.row_points:
        write_points(group, "targets", basis.targets)


def read_basis(group: zarr.Group, kernel: Kernel, n_rows: int, exact_normaliser: bool) -> Basis:
    """The kernel at the points that `write_basis` wrote."""
    rows = read_points(group, "row_points")
    columns = read_points(group, "column_points") if "column_points" in group else rows
    targets = (read_points(group, "targets") if "targets" in group else rows) if exact_normaliser else None
    return Basis(kernel, rows, columns, n_rows, targets)


def without_arrays(spec: Any, group: zarr.Group, name: str = "kernel") -> Any:
    """Return a kernel's description or an object's fields as JSON: arrays are written into the group and named.

    Parameters
    ----------
    spec : JSON values, arrays, objects of `OBJECTS`, or dicts and lists of such
    name : str
        What the names of the arrays begin with.
    """
    if type(spec) in OBJECTS.values():
        parts = spec.to_dict() if hasattr(spec, "to_dict") else vars(spec)
        return {"object": type(spec).__name__} | without_arrays(parts, group, name)
    if isinstance(spec, dict):
        return {key: without_arrays(value, group, f"{name}_{key}") for key, value in spec.items()}
    if isinstance(spec, zarr.Array):
        if isinstance(spec.store, MemoryStore):
            raise StoreError("The kernel's matrix is a zarr array in memory, which cannot be kept: write it to a path.")
        return {"zarr": _absolute(spec), "shape": list(spec.shape), "dtype": str(spec.dtype)}
    if isinstance(spec, da.Array):
        raise StoreError("The kernel's matrix is a dask array, which cannot be kept: write it to zarr, fit with that.")
    if isinstance(spec, np.ndarray) or sp.issparse(spec):
        write_points(group, name, spec)
        return {"array": name}
    if isinstance(spec, float) and not np.isfinite(spec):
        return {"float": str(spec)}
    return spec


def _absolute(array: zarr.Array) -> str:
    """Where an array is, wherever the model is loaded from."""
    if isinstance(array.store, FsspecStore):
        return store.place(array)
    return str(Path(store.place(array)).absolute()) if isinstance(array.store, LocalStore) else str(array.store_path)


def with_arrays(spec: Any, group: zarr.Group) -> Any:
    """Return what `without_arrays` was given."""
    if not isinstance(spec, dict):
        return spec
    if "array" in spec:
        return read_points(group, spec["array"])
    if "zarr" in spec:
        return _open_matrix(spec)
    if "float" in spec:
        return float(spec["float"])
    values = {key: with_arrays(value, group) for key, value in spec.items()}
    name = values.pop("object", None)
    if name is None:
        return values
    if name not in OBJECTS:
        raise StoreError(f"{store.place(group)} holds an object of kind {name!r}, which this release does not know.")
    made = OBJECTS[name]
    try:
        return made.from_dict(values) if hasattr(made, "from_dict") else made(**values)
    except (TypeError, ValueError, KeyError) as error:
        raise StoreError(f"{store.place(group)} is damaged: its {name} lacks fields or has others.") from error


def _open_matrix(spec: dict[str, Any]) -> zarr.Array:
    try:
        found = store.open_matrix(store.located(spec["zarr"]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"The kernel matrix of the model is not at {spec['zarr']} any more: put it back.") from error
    if list(found.shape) != spec["shape"] or str(found.dtype) != spec["dtype"]:
        raise StoreError(f"{spec['zarr']} is no longer the kernel matrix of the model: it has another shape or dtype.")
    return found


def json_parameter(value: Any) -> Any:
    """A parameter of an estimator as JSON."""
    if isinstance(value, list | tuple):
        return [json_parameter(v) for v in value]
    if isinstance(value, dict):
        return {key: json_parameter(v) for key, v in value.items()}
    return json_values(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


def landmarks_parameter(value: Any) -> Any:
    """The `landmarks` parameter from JSON: a name, row numbers, or a pair of them."""
    if isinstance(value, str):
        return value
    return tuple(map(np.array, value)) if isinstance(value[0], list) else np.array(value)


def json_values(values: np.ndarray) -> Any:
    """Numbers as JSON: NaN becomes null."""
    if values.ndim:
        return [json_values(np.asarray(v)) for v in values]
    value = values.item()
    return None if isinstance(value, float) and np.isnan(value) else value


def dtype_of(group: zarr.Group, name: str, kinds: str) -> np.dtype:
    """Return the dtype that an attribute names, of some kinds.

    Raises
    ------
    StoreError
        It names no such dtype, or one of more than `LARGEST_LABEL` bytes.
    """
    given = store.about(group)[name]
    with suppress(TypeError, ValueError):
        dtype = np.dtype(given)
        if dtype.kind in kinds and dtype.itemsize <= LARGEST_LABEL and not dtype.subdtype:
            return dtype
    raise StoreError(f"{store.place(group)} is not taken: its {name} is {str(given)[:40]!r}, and no dtype of labels.")


def read_array(group: zarr.Group, name: str) -> np.ndarray:
    """A whole array of a store."""
    return store.read(store.array(group, name))


def write_points(group: zarr.Group, name: str, points: Block) -> None:
    """Points or a matrix, dense or sparse."""
    if not sp.issparse(points):
        store.write_array(group, name, points)
        return
    part = group.create_group(name)
    points = points.tocsr()
    for key in ("data", "indices", "indptr"):
        store.write_array(part, key, getattr(points, key))
    store.write_array(part, "shape", np.array(points.shape))


def read_points(group: zarr.Group, name: str) -> Block:
    """What `write_points` wrote."""
    if isinstance(group.get(name), zarr.Array):
        return read_array(group, name)
    part = store.subgroup(group, name)
    *parts, shape = (read_array(part, key) for key in ("data", "indices", "indptr", "shape"))
    return checked(store.place(part), tuple(parts), tuple(shape.ravel().tolist()))

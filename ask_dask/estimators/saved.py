"""Fitted estimators to stores and back."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zarr

from ask_dask import store
from ask_dask.errors import StoreError


@dataclass(frozen=True)
class Kind:
    """The writer and the reader of stores of one schema.

    Attributes
    ----------
    classes : tuple of classes
    write : callable
        A fitted estimator, and a group that is open for writing.
    read : callable
        The group of a store -> the fitted estimator.
    """

    classes: tuple[type, ...]
    write: Callable[[Any, zarr.Group], None]
    read: Callable[[zarr.Group], Any]


KINDS: dict[str, Kind] = {}
"""Kinds by the schema of their stores. The file that writes and reads a kind adds it."""


def save(model: Any, path: str | Path, overwrite: bool, facts: dict[str, Any]) -> None:
    """Write a fitted estimator and facts (JSON values) to a store, a model or an embedding."""
    schema, kind = next((schema, kind) for schema, kind in KINDS.items() if isinstance(model, kind.classes))
    with store.create(path, schema, overwrite) as group:
        kind.write(model, group)
        store.describe(group, **facts)


def load(path: str | Path) -> Any:
    """The fitted estimator of a model or embedding store.

    Raises
    ------
    StoreError
        Not such a store, or of an unknown version or estimator; its kernel matrix is no longer where it was.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from ask_dask import KSVD, AsKLSClassifier
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> folder = tempfile.mkdtemp()
    >>> m = AsKLSClassifier(gamma=1.0, cv=2, random_state=0).fit(X, X[:, 0] > 0)
    >>> m.save(f"{folder}/model.zarr")
    >>> np.array_equal(load(f"{folder}/model.zarr").decision_function(X), m.decision_function(X))
    True
    >>> k = KSVD(n_components=3, n_landmarks=30, random_state=0).fit(X, Z=X)
    >>> k.save(f"{folder}/embedding.zarr")
    >>> np.array_equal(load(f"{folder}/embedding.zarr").transform(X), k.transform(X))
    True
    """
    group = store.open_store(path)
    kind = store.about(group)["schema"]
    if kind not in KINDS:
        raise StoreError(f"{path} is a {kind} store, where a model or an embedding is needed: check the path.")
    return KINDS[kind].read(group)

"""Samples of points, one sample an item -> a dataset store with the divergences between the items' mixtures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from ask_dask import compute, store
from ask_dask.errors import InputError, StoreError
from ask_dask.ingest.labels import PAIRS, Labels, label_counts, read_labels
from ask_dask.ingest.points import read_points
from ask_dask.kernels.mixtures import Mixtures, fit_mixtures, require_whole
from ask_dask.kernels.montecarlo import divergences


def ingest_samples(
    files: Sequence[str | Path],
    to: str | Path,
    *,
    labels: str | Path | None,
    n_components: int = 3,
    n_draws: int = 1000,
    random_state: int = 0,
    max_iter: int = 200,
    memory: int | None = None,
    overwrite: bool = False,
    facts: dict[str, Any] | None = None,
) -> None:
    """Fit a Gaussian mixture to each item's points, and estimate the divergence between each two items.

    A line is an item's id and the coordinates of one point of its sample (a patch of an image, a frame of a sound),
    separated by tabs, commas or spaces. The lines of an item need not be together; items are numbered in order of first
    appearance. A first line whose coordinates are all names is a header, and left out. The points are held in memory.

    Finished blocks are kept in a folder `.NAME.work` beside `to`: the same call after an interruption goes on from
    there. It is removed when the store is whole.

    Parameters
    ----------
    files : sequence of path or URL
        Read in this order, plain or compressed, from any file system that fsspec opens.
    to : path
        The store to be made. It holds `divergence` and its `standard_error` float64 (N, N), over all N items, `names`
        (N,), their ids, X int64 (n, 1), the numbers of the labelled items, or of all where there are no labels, and y
        (n,), whole numbers or text.
    labels : path or URL, or None
        Two columns, id and label, of some or all items.
    n_components : int
        Components of each mixture.
    n_draws : int
        Points drawn from each mixture to estimate its divergences: the standard error falls with the square root.
    random_state : int
        Seed of the fits and the draws.
    max_iter : int
        Largest number of EM steps of a fit.
    memory : int, optional
        Bytes that this may take; refused as soon as the points read need more.
    overwrite : bool
        Replace a store that is there.
    facts : dict, optional
        JSON values to keep in the store.

    Raises
    ------
    InputError
        A parameter, a file or a line is not what it must be: names the file and the line.
    StoreError
        `to` exists, or cannot be written.
    BudgetError
        `memory` is too little.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "points.txt").write_text("a 0.1\\na -0.1\\nb 5.0\\nb 5.5\\n")
    >>> ingest_samples([folder / "points.txt"], folder / "s.zarr", labels=None, n_components=1, n_draws=100)
    >>> read_divergence(store.open_store(folder / "s.zarr", "dataset")).shape
    (2, 2)
    """
    parameters = {
        "n_components": n_components, "n_draws": n_draws, "random_state": random_state, "max_iter": max_iter
    }  # fmt: skip
    for name, least in (("n_components", 1), ("n_draws", 2), ("random_state", 0), ("max_iter", 1)):
        require_whole(name, parameters[name], least)
    paths = [str(file) for file in ([files] if isinstance(files, str | Path) else files)]
    if not paths:
        raise InputError("No file of samples was given: give one file or more.")
    store.refuse_existing(to, overwrite, "dataset")
    steps: list[dict[str, Any]] = []
    with compute.measured(steps, "read"):
        names, samples, about = read_points(paths, n_components, n_draws, memory)
        read = read_labels(str(labels), PAIRS) if labels else None
        X, y = _rows(names, read)
    place = store.work_of(store.located(to))
    work = store.open_work(place, store.fingerprint(*samples, *parameters.values()))
    with compute.measured(steps, "fit"):
        mixtures = _mixtures(work, samples, n_components, random_state, max_iter)
    with compute.measured(steps, "divergences"):
        divergences(mixtures, work, n_draws, random_state)
    with store.create(to, "dataset", overwrite) as group:
        with compute.measured(steps, "write"):
            described = _write(group, work, X, y, names)
        described |= {"files": [*about, *([read.about] if read else [])], "parameters": parameters}
        described["n_points"] = sum(map(len, samples))
        store.describe(group, **(facts or {}) | described, steps=steps)
    store.remove(place)


def read_divergence(group: zarr.Group) -> zarr.Array:
    """The divergences (N, N) between the items of an open dataset store: [i, j] estimates KL(P_i || P_j).

    Raises
    ------
    InputError
        The store holds none.
    """
    if "divergence" not in group:
        raise InputError(f"{store.place(group)} holds no divergences: make it with ask-dask ingest samples.")
    return store.array(group, "divergence")


def _rows(names: list[str], labels: Labels | None) -> tuple[np.ndarray, np.ndarray | None]:
    """X and y, in the order of the items."""
    if labels is None or labels.ids is None:
        return np.arange(len(names))[:, None], None
    numbers = {name: number for number, name in enumerate(names)}
    found = np.array([numbers.get(name, -1) for name in labels.ids.to_pylist()])
    unknown = np.flatnonzero(found < 0)
    if len(unknown):
        raise InputError(
            f"{labels.cells.place(unknown[0])}: the item {labels.ids[unknown[0]].as_py()!r} has no points; remove the "
            "line, or add the file with its points."
        )
    order = np.argsort(found)
    return found[order, None], labels.values[order]


def _mixtures(
    work: zarr.Group, samples: list[np.ndarray], n_components: int, random_state: int, max_iter: int
) -> Mixtures:
    """The mixtures, fitted here or before."""
    names = ("weights", "means", "variances")
    if not store.about(work).get("fitted"):
        fitted = fit_mixtures(samples, n_components, random_state, max_iter)
        for name in names:
            if name in work:
                del work[name]
            store.write_array(work, name, getattr(fitted, name))
        store.describe(work, fitted=True)
    return Mixtures(*(store.read(store.array(work, name)) for name in names))


def _write(
    group: zarr.Group, work: zarr.Group, X: np.ndarray, y: np.ndarray | None, names: list[str]
) -> dict[str, Any]:
    """Copy what was computed, add the rows; what the store says of them."""
    made = store.array(work, "divergence")
    n, height = len(names), made.chunks[0]
    kinds: dict[str, tuple[tuple[int, ...], Any]] = {
        name: ((n, n), np.float64) for name in ("divergence", "standard_error")
    }
    arrays = store.create_aligned(group, kinds, like=made)
    copy = compute.task(_copy)
    sums = compute.run([copy(work, arrays, i, min(i + height, n)) for i in range(0, n, height)], "Write", "blocks")
    means = np.sum(sums, axis=0) / max(1, n * (n - 1))
    for name, values in {"X": X, "y": y, "names": np.array(names)}.items():
        if values is not None:
            store.write_array(group, name, values)
    divergence = store.fingerprint(store.about(work)["divergence_fingerprint"], *names)
    return {
        "format": "samples",
        "n_rows": len(X),
        "n_features": 1,
        "feature_names": ["item"],
        "n_items": n,
        "mean_divergence": float(means[0]),
        "mean_standard_error": float(means[1]),
        "label_counts": None if y is None else label_counts(y),
        "encoder_fingerprint": divergence,
        "fingerprint": store.fingerprint(X, *([] if y is None else [y]), divergence),
    }


def _copy(work: zarr.Group, arrays: dict[str, zarr.Array], start: int, stop: int) -> np.ndarray:
    """Copy rows start..stop of each array; the sum of each."""
    sums = []
    for name, array in arrays.items():
        values = store.read(store.array(work, name), start, stop)
        if np.isnan(values).any():
            raise StoreError(f"{store.place(work)} lacks some of its files: remove it, and start again.")
        array[start:stop] = values
        sums.append(values.sum())
    return np.array(sums)

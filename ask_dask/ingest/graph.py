"""Edge lists and labels of nodes -> a dataset store with the graph, whose rows are node numbers."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import zarr

from ask_dask import budget, compute, store
from ask_dask.errors import InputError, mask
from ask_dask.ingest import files as raw
from ask_dask.ingest.cells import Cells, to_integers, to_numbers
from ask_dask.ingest.labels import Labels, label_counts, read_ids, read_labels, require_filled
from ask_dask.ingest.numbering import Numbering
from ask_dask.ingest.separated import Reader, Rule
from ask_dask.sparse import checked

EDGES = Rule("give two ids a line, separated by a tab, a comma or spaces, and a third column for weights", (2, 3))

SPARE_NUMBERS = 1000
"""Numbers per edge that ids may run to: more are ids that were never meant to be counted through."""


def ingest_graph(
    files: Sequence[str | Path],
    to: str | Path,
    *,
    labels: str | Path | None = None,
    nodes: str | Path | None = None,
    memory: int | None = None,
    overwrite: bool = False,
    facts: dict[str, Any] | None = None,
) -> None:
    """Turn edge lists into a dataset store: the graph, and a row for each labelled node.

    A line "a b" is an edge a -> b. Columns are separated by tabs, commas or spaces (found for each file); a third
    column is a weight above 0; blank lines and those that start with # or % are ignored. An edge that is there more
    than once counts once, or with the sum of its weights where there are weights. Self loops are kept as edges.

    Nodes are numbered in the order of `nodes`; without it, ids that are all whole numbers are their own numbers (N is
    the largest plus one, or the number of labels in order); other ids are numbered in order of first appearance.

    The text is read a piece at a time; the graph itself, about 100 bytes an edge while it is put in order, is held in
    memory.

    Parameters
    ----------
    files : sequence of path or URL
        Edge lists, plain or compressed, from any file system that fsspec opens.
    to : path
        The store to be made; nothing is there until it is whole. It holds the group `graph` (the adjacency matrix in
        CSR: indptr, indices int64, data float64), X int64 (n, 1), the numbers of the labelled nodes, or of all where
        there are no labels, y (n,) whole numbers or text, and `names` (N,), the ids, where these are not the numbers.
    labels : path or URL, optional
        One column, the labels of nodes 0, 1, ...; or two, id and label, of some or all nodes.
    nodes : path or URL, optional
        Every node's id, one a line.
    memory : int, optional
        Bytes that this may take; refused as soon as the edges read need more.
    overwrite : bool
        Replace a store that is there.
    facts : dict, optional
        JSON values to keep in the store.

    Raises
    ------
    InputError
        A file cannot be read or a line is not what it must be: names the file and the line.
    StoreError
        `to` exists, or cannot be written.
    BudgetError
        `memory` is too little.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "edges.txt").write_text("# who cites whom\\na b\\nb c\\na b\\n")
    >>> ingest_graph([folder / "edges.txt"], folder / "g.zarr")
    >>> group = store.open_store(folder / "g.zarr", "dataset")
    >>> read_graph(group).toarray(), group["names"][:].tolist(), store.about(group)["duplicate_edges"]
    (array([[0., 1., 0.], [0., 0., 1.], [0., 0., 0.]]), ['a', 'b', 'c'], 1)
    """
    paths = [str(file) for file in ([files] if isinstance(files, str | Path) else files)]
    if not paths:
        raise InputError("No edge list was given: give one file or more.")
    with store.create(to, "dataset", overwrite) as group:
        steps: list[dict[str, Any]] = []
        with compute.measured(steps, "read"):
            listed, about_nodes = read_ids(str(nodes)) if nodes else (None, None)
            read = read_labels(str(labels)) if labels else None
            numbering = Numbering(listed, Path(mask(str(nodes))).name)
            weights, about_edges = _read_edges(paths, numbering, memory)
        with compute.measured(steps, "write"):
            described = _write(group, numbering, weights, read)
        described["files"] = [*about_edges, *([read.about] if read else []), *([about_nodes] if about_nodes else [])]
        store.describe(group, **(facts or {}) | described, steps=steps)


def read_graph(group: zarr.Group) -> sp.csr_matrix:
    """The adjacency matrix of an open dataset store, float64 (N, N): entry [i, j] is the weight of the edge i -> j.

    Raises
    ------
    InputError
        The store holds no graph.
    StoreError
        It is damaged.
    """
    if "graph" not in group:
        raise InputError(f"{store.place(group)} holds no graph: make it with ask-dask ingest graph.")
    graph = store.subgroup(group, "graph")
    parts = tuple(store.read(store.array(graph, name)) for name in ("data", "indices", "indptr"))
    return checked(store.place(graph), parts, (parts[2].size - 1, parts[2].size - 1))


def graph_plan(n_edges: int) -> budget.Plan:
    """Memory that `ingest_graph` takes for this many lines of edges.

    >>> print(graph_plan(10_000_000))
    edges 915.5 MiB, text 256.0 MiB
    """
    return budget.Plan({"edges": 96 * n_edges, "text": 8 * raw.PIECE_BYTES})


def _read_edges(
    paths: list[str], numbering: Numbering, memory: int | None
) -> tuple[np.ndarray | None, list[dict[str, Any]]]:
    """Number all edges; their weights, where they have some, and what a store keeps of the files."""
    found, weights, read, rule, about = [raw.find(path) for path in paths], [], 0, EDGES, []
    for file in found:
        reader = Reader(file, rule)
        for cells in _checked(reader.read(), numbering):
            read += len(cells.lines)
            if memory is not None:
                budget.check(graph_plan, read, memory, "edges")
            numbering.add(cells)
            weights += [_weights(cells)] if reader.width == 3 else []
        if reader.width:
            rule = Rule(f"{EDGES.needs}, in all files or in none", (reader.width,))
        about.append(reader.about())
    if not read:
        raise InputError(f"{found[0].name} has no edges: {EDGES.needs}.")
    _refuse_size_line(paths, numbering, found[0].name)
    return (np.concatenate(weights) if weights else None), about


def _checked(pieces: Iterator[Cells], numbering: Numbering) -> Iterator[Cells]:
    for number, cells in enumerate(pieces):
        require_filled(cells)
        if number == 0 and numbering.known is None:
            _refuse_header(cells)
        yield cells


def _refuse_size_line(paths: list[str], numbering: Numbering, name: str) -> None:
    """Raise InputError for a first line that counts nodes and edges, which would be an edge.

    Its second number is that of the lines after it, its first as large as any id, and no other edge has either.
    """
    edges = numbering.edges()
    (nodes, lines), rest = edges[0], edges[1:]
    if len(paths) > 1 or numbering.names() is not None or lines != len(rest) or len(rest) < 2:
        return
    if nodes >= rest.max() and lines not in rest:
        raise InputError(
            f"{name}: the first line, {nodes} {lines}, counts the {lines} edges after it; put # before it."
        )


def _refuse_header(cells: Cells) -> None:
    """Refuse names of columns, which would be taken for two more nodes."""
    first, rest = cells.rows(0, 1), cells.rows(1)
    named, numbered = (
        [(to_integers(column) is None) == text for column in part.columns[:2]]
        for part, text in ((first, True), (rest, False))
    )
    if len(rest.lines) and all(named) and all(numbered):
        names = " and ".join(repr(column[0].as_py()) for column in first.columns[:2])
        raise InputError(
            f"{cells.place(0)}: {names} are names of columns, since all other ids are numbers; put # before that line."
        )


def _weights(cells: Cells) -> np.ndarray:
    weights = to_numbers(cells.columns[2])
    if len(wrong := np.flatnonzero(~(weights > 0))):
        given = cells.columns[2][wrong[0]].as_py()
        raise InputError(f"{cells.place(wrong[0])}: the weight {given!r} is no finite number above 0; correct it.")
    return weights


def _adjacency(edges: np.ndarray, weights: np.ndarray | None, n_nodes: int) -> sp.csr_matrix:
    """Duplicates are summed where there are weights, and count once where there are none."""
    ones = np.ones(len(edges))
    matrix = sp.coo_matrix((ones if weights is None else weights, edges.T), shape=(n_nodes, n_nodes)).tocsr()
    matrix.sort_indices()
    if weights is None:
        matrix.data[:] = 1
    if not np.isfinite(matrix.data).all():
        raise InputError("The weights of an edge that is there more than once sum to infinity: scale the weights down.")
    return matrix


def _write(
    group: zarr.Group, numbering: Numbering, weights: np.ndarray | None, labels: Labels | None
) -> dict[str, Any]:
    """Write the graph and the rows; what the store says of them."""
    edges, n_nodes = numbering.edges(), numbering.count(labels)
    if numbering.known is None and n_nodes > SPARE_NUMBERS * len(edges) + 1_000_000:
        raise InputError(
            f"Node numbers run to {n_nodes - 1} and there are {len(edges)} edges: give --nodes, a file with the id of "
            "every node, one a line."
        )
    X, y = _rows(numbering, labels, n_nodes)
    adjacency, names = _adjacency(edges, weights, n_nodes), numbering.names()
    parts = {name: getattr(adjacency, name).astype(np.int64) for name in ("indptr", "indices")}
    parts["data"] = adjacency.data
    _write_arrays(group.create_group("graph"), parts)
    _write_arrays(group, {"X": X} | ({} if y is None else {"y": y}) | ({} if names is None else {"names": names}))
    graph = store.fingerprint(*parts.values(), *([] if names is None else [names]))
    return {
        "format": "graph",
        "n_rows": len(X),
        "n_features": 1,
        "feature_names": ["node"],
        "n_nodes": n_nodes,
        "n_edges": adjacency.nnz,
        "duplicate_edges": len(edges) - adjacency.nnz,
        "self_loops": int(np.count_nonzero(adjacency.diagonal())),
        "weighted": weights is not None,
        "label_counts": None if y is None else label_counts(y),
        "encoder_fingerprint": graph,
        "fingerprint": store.fingerprint(X, *([] if y is None else [y]), graph),
    }


def _rows(numbering: Numbering, labels: Labels | None, n_nodes: int) -> tuple[np.ndarray, np.ndarray | None]:
    """X and y, in the order of the nodes."""
    if labels is None:
        return np.arange(n_nodes)[:, None], None
    numbers = numbering.find(labels, n_nodes)
    order = np.argsort(numbers)
    return numbers[order, None], labels.values[order]


def _write_arrays(group: zarr.Group, arrays: dict[str, np.ndarray]) -> None:
    for name, values in arrays.items():
        array = store.create_array(group, name, values.shape, values.dtype)
        height = (array.shards or array.chunks)[0]
        for start in range(0, len(values), height):
            array[start : start + height] = values[start : start + height]

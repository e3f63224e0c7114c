"""Ids of any kind -> node numbers 0..N-1, as edges come."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ask_dask.errors import InputError
from ask_dask.ingest.cells import Cells, to_integers
from ask_dask.ingest.labels import Labels


class Numbering:
    """Numbers of nodes.

    Whole numbers (0, 1, 2, ...) stay themselves as long as every id is one; otherwise, also for those before, ids are
    numbered in order of first appearance; or all ids are `listed` from the first.

    Attributes
    ----------
    known : dict, optional
        Id -> number; None where ids are their own numbers.

    Examples
    --------
    >>> numbering = Numbering()
    >>> edges = Cells("a.tsv", (pa.array(["7", "x"]), pa.array(["2", "7"])), np.array([1, 2]))
    >>> numbering.add(edges)
    >>> numbering.edges(), numbering.names()
    (array([[0, 1], [2, 0]]), array(['7', '2', 'x'], dtype='<U1'))
    """

    def __init__(self, listed: list[str] | None = None, nodes_file: str = "") -> None:
        self.known = None if listed is None else {name: number for number, name in enumerate(listed)}
        self._listed, self._nodes_file = listed is not None, nodes_file
        self._parts: list[np.ndarray] = []
        self._largest, self._largest_place = -1, ""

    def add(self, cells: Cells) -> None:
        """Take the edges of the first two columns.

        Raises
        ------
        InputError
            An id is not listed: names the line.
        """
        numbers = [to_integers(column) for column in cells.columns[:2]] if self.known is None else [None]
        if any(column is None or column.min() < 0 for column in numbers):
            named = self._named(cells)  # may put new parts in the place of those before
            self._parts.append(named)
        else:
            self._parts.append(np.stack(numbers, axis=1))  # type: ignore[arg-type]
            row, side = divmod(int(self._parts[-1].argmax()), 2)
            if (largest := int(self._parts[-1][row, side])) > self._largest:
                self._largest, self._largest_place = largest, cells.place(row)

    def _named(self, cells: Cells) -> np.ndarray:
        if self.known is None:
            self._name_numbers()
        known = self.known or {}
        n = len(cells.lines)
        order = np.arange(2 * n).reshape(2, n).T.ravel()  # source and target of a line, then those of the next
        ids = pa.concat_arrays(cells.columns[:2]).take(pa.array(order)).dictionary_encode()
        if self._listed:
            numbers = np.array([known.get(name, -1) for name in ids.dictionary.to_pylist()])
            self._refuse_unlisted(cells, ids, numbers)
        else:
            numbers = np.array([known.setdefault(name, len(known)) for name in ids.dictionary.to_pylist()])
            self.known = known
        return numbers[ids.indices.to_numpy()].reshape(n, 2)

    def _name_numbers(self) -> None:
        """Ids met so far are numbered in order of first appearance after all."""
        parts = [part.ravel() for part in self._parts]
        ids = pa.array(np.concatenate([np.empty(0, np.int64), *parts])).dictionary_encode()
        self.known = {str(name): number for number, name in enumerate(ids.dictionary.to_pylist())}
        self._parts = [ids.indices.to_numpy().astype(np.int64).reshape(-1, 2)]

    def _refuse_unlisted(self, cells: Cells, ids: pa.DictionaryArray, numbers: np.ndarray) -> None:
        if len(wrong := np.flatnonzero(numbers < 0)):
            code = wrong[0]
            row = int(np.flatnonzero(ids.indices.to_numpy() == code)[0]) // 2
            raise InputError(
                f"{cells.place(row)}: node {ids.dictionary[code].as_py()!r} is not in {self._nodes_file}; add it "
                "there, or remove the edge."
            )

    def edges(self) -> np.ndarray:
        """All edges taken, as node numbers, int64 (E, 2)."""
        return np.concatenate([np.empty((0, 2), np.int64), *self._parts])

    def count(self, labels: Labels | None = None) -> int:
        """The number of nodes; labels in order may name more nodes than the edges do.

        Raises
        ------
        InputError
            Labels in order that are not as many as the nodes, or whose nodes have no order.
        """
        edges, ordered = self._largest + 1, labels is not None and labels.ids is None
        if labels is None or not ordered:
            return edges if self.known is None else len(self.known)
        name, n = labels.cells.file, len(labels.values)
        if self.known is None and n < edges:
            raise InputError(
                f"{self._largest_place}: node {self._largest} is beyond the {n} labels of {name}, which are for nodes "
                f"0 to {n - 1}; give each node a label, or two columns, id and label."
            )
        if self._listed and n != len(self.known or {}):
            raise InputError(
                f"{name} has {n} labels and {self._nodes_file} {len(self.known or {})} nodes: give one each."
            )
        if self.known is not None and not self._listed:
            raise InputError(
                f"{name} has one column and the nodes of the edges are not numbered: give two columns, id and label, "
                "or --nodes, a file of the ids in the order of the labels."
            )
        return n

    def find(self, labels: Labels, n_nodes: int) -> np.ndarray:
        """The node number of each label, int64 (n,).

        Raises
        ------
        InputError
            A label for an unknown node: names the line.
        """
        if labels.ids is None:
            return np.arange(n_nodes)
        numbers = to_integers(labels.ids) if self.known is None else self._look_up(labels.ids, self.known)
        if numbers is None:  # some id is no number, and so no node
            numbers = self._look_up(labels.ids, {})
            whole = pc.match_substring_regex(labels.ids, "^(0|[1-9][0-9]{0,17})$").to_numpy(zero_copy_only=False)
            numbers = np.where(whole, 0, numbers)
        if len(wrong := np.flatnonzero((numbers < 0) | (numbers >= n_nodes))):
            there = f"no edge names a node beyond {n_nodes - 1}" if self.known is None else "no edge names it"
            there = f"{self._nodes_file} lacks it" if self._listed else there
            advice = "remove the label" if self._listed else "remove the label, or list all nodes with --nodes"
            raise InputError(
                f"{labels.cells.place(wrong[0])}: a label for the unknown node {labels.ids[wrong[0]].as_py()!r}, "
                f"{there}; {advice}."
            )
        return numbers

    @staticmethod
    def _look_up(ids: pa.Array, known: dict[str, int]) -> np.ndarray:
        return np.array([known.get(name, -1) for name in ids.to_pylist()], np.int64)

    def names(self) -> np.ndarray | None:
        """The id of each node as text (N,); None where ids are their own numbers."""
        if self.known is None or all(name == str(number) for name, number in self.known.items()):
            return None
        return np.array(list(self.known))

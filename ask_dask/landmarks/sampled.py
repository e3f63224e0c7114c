"""Landmarks by row number alone: uniform and stratified, and the candidates that the other ways choose among.

Uniform and stratified return an order in which every prefix is itself such a sample: nested landmark counts are
prefixes.
"""

from collections.abc import Sequence

import numpy as np

from ask_dask.errors import InputError

Seed = int | Sequence[int]
"""What numpy.random.default_rng takes: one number, or several that together are one seed."""


def uniform(n_rows: int, n_landmarks: int, random_state: Seed) -> np.ndarray:
    """Row numbers drawn uniformly without replacement, shape (n_landmarks,), int64.

    >>> uniform(1_000_000_000, 3, random_state=0).shape
    (3,)
    """
    require_enough(n_landmarks, n_rows, "rows of X")
    return np.random.default_rng(random_state).choice(n_rows, n_landmarks, replace=False).astype(np.int64)


def stratified(codes: np.ndarray, n_landmarks: int, random_state: int) -> np.ndarray:
    """Row numbers drawn per label, in proportion to the labels' counts in every prefix, shape (n_landmarks,), int64.

    Each label's rows are shuffled and the r-th of n takes the place (r + 1/2) / n; sorting all places interleaves
    the labels evenly.

    Parameters
    ----------
    codes : (N,) array
        Labels.

    Examples
    --------
    >>> codes = np.repeat([0, 1], [900, 100])
    >>> np.bincount(codes[stratified(codes, 50, random_state=0)])
    array([45,  5])
    """
    require_enough(n_landmarks, len(codes), "rows of X")
    rng = np.random.default_rng(random_state)
    rows, places = [], []
    for label in np.unique(codes):
        members = np.flatnonzero(codes == label)
        kept = -(-n_landmarks * len(members) // len(codes)) + 1
        rows.append(rng.choice(members, min(kept, len(members)), replace=False))
        places.append((np.arange(len(rows[-1])) + 0.5) / len(members))
    order = np.argsort(np.concatenate(places), kind="stable")[:n_landmarks]
    return np.concatenate(rows)[order].astype(np.int64)


def candidates(n_rows: int, n_candidates: int, random_state: Seed) -> np.ndarray:
    """Row numbers of a uniform sample in increasing order, all rows where they are fewer: int64.

    >>> candidates(4, 10, random_state=0)
    array([0, 1, 2, 3])
    """
    return np.sort(uniform(n_rows, min(n_candidates, n_rows), random_state))


def fill_uniformly(
    chosen: Sequence[int] | np.ndarray, n_candidates: int, n_landmarks: int, rng: np.random.Generator
) -> np.ndarray:
    """The chosen positions, then others drawn uniformly until there are enough: (n_landmarks,) int64, distinct.

    >>> fill_uniformly([2], 3, 2, np.random.default_rng(0))[0]
    np.int64(2)
    """
    first = np.asarray(chosen, np.int64)[:n_landmarks]
    others = np.setdiff1d(np.arange(n_candidates), first)
    return np.concatenate([first, rng.choice(others, n_landmarks - len(first), replace=False)]).astype(np.int64)


def require_enough(n_landmarks: int, n_candidates: int, what: str = "candidates") -> None:
    """Raise InputError where more landmarks are asked for than there are, or none at all."""
    if n_landmarks > n_candidates:
        raise InputError(
            f"n_landmarks={n_landmarks} is more than the {n_candidates} {what}: use {n_candidates} or fewer."
        )
    if n_landmarks < 1:
        raise InputError(f"n_landmarks={n_landmarks} must be 1 or more.")

"""Which rows are kept as landmarks: seeded, chosen by row number alone, so independent of chunking.

Both choices return an order in which every prefix is itself such a sample: nested landmark counts are prefixes.
"""

import numpy as np

from ask_dask.errors import InputError


def uniform(n_rows: int, n_landmarks: int, random_state: int) -> np.ndarray:
    """Row numbers drawn uniformly without replacement, shape (n_landmarks,), int64.

    >>> uniform(1_000_000_000, 3, random_state=0).shape
    (3,)
    """
    _require_enough(n_rows, n_landmarks)
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
    _require_enough(len(codes), n_landmarks)
    rng = np.random.default_rng(random_state)
    rows, places = [], []
    for label in np.unique(codes):
        members = np.flatnonzero(codes == label)
        kept = -(-n_landmarks * len(members) // len(codes)) + 1
        rows.append(rng.choice(members, min(kept, len(members)), replace=False))
        places.append((np.arange(len(rows[-1])) + 0.5) / len(members))
    order = np.argsort(np.concatenate(places), kind="stable")[:n_landmarks]
    return np.concatenate(rows)[order].astype(np.int64)


def _require_enough(n_rows: int, n_landmarks: int) -> None:
    if n_landmarks > n_rows:
        raise InputError(f"n_landmarks={n_landmarks} is more than the {n_rows} rows of X: use {n_rows} or fewer.")

"""The fold of each row: those of scikit-learn, without its eight to thirty bytes a row, and what must hold of them."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from ask_dask.errors import InputError
from ask_dask.fit.selection import Weights


def check_folds(
    cv: Any, n_rows: int, codes: np.ndarray | None, seed: int, groups: Any = None
) -> tuple[np.ndarray, int]:
    """Fold number of each row (N,) int16 and the number of folds; one fold of everything when cv is None.

    Parameters
    ----------
    cv : None, int, scikit-learn splitter, or iterable of (train, test) row numbers
        An int is a shuffled StratifiedKFold, or KFold where there are no classes. The test sets must hold each row
        once.
    codes : (N,) class numbers, if there are classes
    groups : (N,) array, optional
        For a splitter that keeps the rows of a group together, such as GroupKFold.

    Raises
    ------
    InputError
        The folds do not go with the rows, the classes or the groups.
    """
    if groups is not None and len(groups) != n_rows:
        raise InputError(f"groups has {len(groups)} entries and X has {n_rows} rows: give one group a row.")
    if groups is not None and (cv is None or isinstance(cv, int | np.integer)):
        raise InputError(f"cv={cv} does not use groups: set cv to a splitter such as GroupKFold, or leave groups out.")
    if cv is None:
        return np.zeros(n_rows, np.int16), 1
    if not isinstance(cv, int | np.integer):
        return _of_tests(n_rows, (test for _, test in check_cv(cv).split(np.empty((n_rows, 0)), codes, groups)))
    smallest = n_rows if codes is None else int(_counts(codes).min())
    if cv < 2:
        raise InputError(f"cv={cv} folds: use 2 or more, or None for no cross-validation.")
    if cv > smallest:
        rows = f"the rows of X (n_samples={n_rows})" if codes is None else f"the {smallest} rows of the smallest class"
        raise InputError(f"cv={cv} folds are more than {rows}: use fewer folds.")
    return shuffled(n_rows, int(cv), seed) if codes is None else stratified(codes, int(cv), seed), int(cv)


def shuffled(n_rows: int, n_folds: int, seed: int) -> np.ndarray:
    """Folds (N,) int16 of scikit-learn's `KFold(n_folds, shuffle=True, random_state=seed)`.

    >>> shuffled(5, 2, seed=0)
    array([0, 0, 0, 1, 1], dtype=int16)
    """
    order = np.arange(n_rows, dtype=np.int32 if n_rows < 1 << 31 else np.int64)
    np.random.RandomState(seed).shuffle(order)
    folds, bounds = np.empty(n_rows, np.int16), np.arange(n_folds + 1) * (n_rows // n_folds)
    bounds += np.minimum(np.arange(n_folds + 1), n_rows % n_folds)
    for fold in range(n_folds):
        folds[order[bounds[fold] : bounds[fold + 1]]] = fold
    return folds


def stratified(codes: np.ndarray, n_folds: int, seed: int) -> np.ndarray:
    """Folds (N,) int16 of scikit-learn's `StratifiedKFold(n_folds, shuffle=True, random_state=seed)`.

    Rows in the order of their classes, the class that is seen first before the others, would take folds in turn; each
    class shuffles what its rows take.

    >>> stratified(np.array([0, 0, 1, 1]), 2, seed=0)
    array([1, 0, 0, 1], dtype=int16)
    """
    random, folds, place = np.random.RandomState(seed), np.empty(len(codes), np.int16), 0
    counts = _counts(codes)
    for label in sorted(np.flatnonzero(counts), key=lambda label: int((codes == label).argmax())):
        taken = np.bincount((place + np.arange(counts[label] % n_folds)) % n_folds, minlength=n_folds)
        own = np.repeat(np.arange(n_folds, dtype=np.int16), taken + counts[label] // n_folds)
        random.shuffle(own)
        folds[codes == label] = own
        place += counts[label]
    return folds


def _counts(codes: np.ndarray, at_once: int = 1 << 20) -> np.ndarray:
    """Rows of each class number; bincount makes eight bytes of each row that it is given."""
    parts = [codes[start : start + at_once] for start in range(0, len(codes), at_once)]
    return np.add.reduce([np.bincount(part, minlength=int(codes.max()) + 1) for part in parts])


def _of_tests(n_rows: int, tests: Iterable[np.ndarray]) -> tuple[np.ndarray, int]:
    folds, n_folds = np.full(n_rows, -1, np.int16), 0
    for test in tests:
        if (folds[test] >= 0).any():
            raise InputError("cv puts a row into two test sets: use a splitter such as KFold that uses each row once.")
        folds[test] = n_folds
        n_folds += 1
    if n_folds < 2:
        raise InputError(
            f"cv has {'one' if n_folds else 'no'} test set: use 2 or more, or None for no cross-validation."
        )
    if (folds < 0).any():
        raise InputError("cv leaves rows out of every test set: use a splitter such as KFold that uses each row once.")
    return folds, n_folds


def check_weight_of_folds(weights: Weights, folds: np.ndarray, n_folds: int) -> None:
    """Raise InputError when all weight is in one fold, which then cannot be left out."""
    for fold in range(n_folds):
        if weights.fit is not None and not weights.fit[folds != fold].any():
            raise InputError(
                f"Without fold {fold} every row has the weight zero: give weight to more rows, use fewer folds, or set "
                "cv to None."
            )


def check_scored(scored: np.ndarray, folds: np.ndarray, weights: Weights) -> None:
    """Raise InputError when all weight of the scored rows is in one fold, whose merger is fitted on the others."""
    heavy = scored if weights.fit is None else scored[weights.fit[scored] > 0]
    if len(np.unique(folds[heavy])) < 2:
        raise InputError(
            f"max_scored_rows={len(scored)} takes rows with a weight from one fold alone or none, and a fold's scores "
            "are merged as those of the others say: use more."
        )

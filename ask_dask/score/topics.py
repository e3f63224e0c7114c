"""How well the terms of a cluster belong together."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ask_dask.errors import InputError


def coherence(documents: Any, clusters: np.ndarray, top: int = 10) -> float:
    """Mean normalised pointwise mutual information of the most frequent terms of each cluster, over the clusters.

    log(p(i, j) / (p(i) p(j))) / -log p(i, j), p being shares of documents: 1 for terms that are always together, 0 for
    independent ones, -1 for terms that never meet. Bouma, Normalized (pointwise) mutual information in collocation
    extraction, GSCL 2009. Clusters of one term are left out; with none left it is 0.

    Parameters
    ----------
    documents : (n, m) numpy or scipy.sparse
        A term occurs where the entry is not 0.
    clusters : (m,)
        The cluster of each term.
    top : int, default 10
        Terms of each cluster, 2 or more.

    Raises
    ------
    InputError
        Another number of terms, no documents, fewer than two terms at the top.

    Examples
    --------
    >>> documents = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    >>> coherence(documents, np.array([0, 0, 1, 1])), coherence(documents, np.array([0, 1, 0, 1]))
    (1.0, -1.0)
    """
    occurs = sp.csc_matrix(documents, dtype=np.float64)
    occurs.eliminate_zeros()
    occurs.data[:] = 1
    clusters = np.asarray(clusters)
    if clusters.shape != (occurs.shape[1],) or not occurs.shape[0]:
        raise InputError(f"documents {occurs.shape} and clusters {clusters.shape} must be (n, m) and (m,), a cluster "
                         "for each term.")  # fmt: skip
    if top < 2:
        raise InputError(f"top={top!r} must be 2 or more, since coherence is of pairs of terms.")
    counts = np.asarray(occurs.sum(0)).ravel()
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    leading = [order[clusters[order] == which][:top] for which in np.unique(clusters)]
    found = [_of_terms(occurs[:, terms]) for terms in leading if len(terms) > 1]
    return float(np.mean(found)) if found else 0.0


def _of_terms(occurs: sp.csc_matrix) -> float:
    together = (occurs.T @ occurs).toarray() / occurs.shape[0]
    alone, upper = together.diagonal(), np.triu_indices(len(together), 1)
    joint, apart = together[upper], np.outer(alone, alone)[upper]
    values = np.full(len(joint), -1.0)
    values[joint == 1] = 1.0  # both in every document
    inside = (joint > 0) & (joint < 1)
    values[inside] = np.log(joint[inside] / apart[inside]) / -np.log(joint[inside])
    return float(values.mean())

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


def association(documents: Any) -> np.ndarray:
    """Pointwise mutual information of each two terms, and of each with itself; 0 where they never meet.

    log(p(i, j) / (p(i) p(j))), p(i, j) being the product of the columns i and j over the sum of all such products, and
    p(i) its sum over j. Fettal, Labiod, Nadif, Efficient and Effective Optimal Transport-Based Biclustering, NeurIPS
    2022, as their code computes it.

    Parameters
    ----------
    documents : (n, m) numpy or scipy.sparse, 0 or more

    Returns
    -------
    (m, m) float64

    Examples
    --------
    >>> documents = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    >>> association(documents)[0].round(2)
    array([0.41, 0.41, 0.  , 0.  ])
    """
    A = sp.csr_matrix(documents, dtype=np.float64)
    together = (A.T @ A).toarray()
    alone = together.sum(0)
    apart = np.outer(alone, alone) / (alone.sum() or 1.0)
    return np.log(np.divide(together, apart, out=np.ones_like(together), where=together > 0))


def contrast(associated: np.ndarray, clusters: np.ndarray) -> float:
    """Coherence of clusters of terms: their mean association inside less that with the terms of others, over terms.

    Fettal, Labiod, Nadif, NeurIPS 2022 (`association`), as their code computes it.

    Parameters
    ----------
    associated : (m, m) array
        Association of each two terms, and of each with itself.
    clusters : (m,)
        The cluster of each term.

    Raises
    ------
    InputError
        Another number of terms, or fewer than two clusters.

    Examples
    --------
    >>> documents = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    >>> found = [contrast(association(documents), np.array(clusters)) for clusters in ([0, 0, 1, 1], [0, 1, 0, 1])]
    >>> np.round(found, 2)
    array([0.75, 0.  ])
    """
    clusters = np.asarray(clusters)
    if associated.shape != (len(clusters), len(clusters)):
        raise InputError(f"associated {associated.shape} and clusters {clusters.shape} must be (m, m) and (m,), a "
                         "cluster for each term.")  # fmt: skip
    member = (clusters[:, None] == np.unique(clusters)).astype(float)
    if member.shape[1] < 2:
        raise InputError("All terms are in one cluster, where there are no others to compare with: give two or more.")
    sizes, sums = member.sum(0), member.T @ associated @ member
    inside = sums.diagonal() / sizes**2
    outside = (sums.sum(1) - sums.diagonal()) / (sizes * (len(clusters) - sizes))
    return float((inside - outside) @ sizes / len(clusters))


def _of_terms(occurs: sp.csc_matrix) -> float:
    together = (occurs.T @ occurs).toarray() / occurs.shape[0]
    alone, upper = together.diagonal(), np.triu_indices(len(together), 1)
    joint, apart = together[upper], np.outer(alone, alone)[upper]
    values = np.full(len(joint), -1.0)
    values[joint == 1] = 1.0  # both in every document
    inside = (joint > 0) & (joint < 1)
    values[inside] = np.log(joint[inside] / apart[inside]) / -np.log(joint[inside])
    return float(values.mean())

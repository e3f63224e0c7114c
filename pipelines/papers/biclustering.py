"""Biclustering: k-means on the left and on the right singular vectors of a matrix of documents and terms.

The matrix as it is, binary, tf-idf, or D^-1/2 A E^-1/2 with the sums of its rows and columns, as spectral co-clustering
has it (Dhillon, KDD 2001). KSVD has compatibility a0, by which a document times a term is the entry of the matrix, or
both on their paired principal axes.
Each line is a setting; none is chosen by the classes here: a reader who takes the best one has let them choose.
Coherence is that of the benchmark whose sets the paper takes (`ask_dask.score.contrast`), with its numbers of clusters
of terms.
k-means is dask-ml's, or scikit-learn's, as the settings have it: the best of so many starts.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import dask.array as da
import dask_ml.cluster
import numpy as np
import scipy.sparse as sp
import sklearn.cluster
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import normalized_mutual_info_score, pairwise_distances
from sklearn.preprocessing import normalize

from ask_dask import KSVD
from ask_dask.kernels import RBF, SNE, Linear, Precomputed
from ask_dask.score import association, contrast


def degrees(A: sp.csr_matrix) -> sp.csr_matrix:
    """The binary matrix over the square roots of the sums of its rows and of its columns."""
    binary = (A > 0).astype(float)
    sides = [np.maximum(np.asarray(binary.sum(axis)).ravel(), 1) ** -0.5 for axis in (1, 0)]
    return sp.diags(sides[0]) @ binary @ sp.diags(sides[1])


WEIGHTS = {
    "given": lambda A: A,
    "binary": lambda A: (A > 0).astype(float),
    "tf-idf": TfidfTransformer().fit_transform,
    "degrees": degrees,
}


def read(data: Path, name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Documents x terms, of ACM binary and of Pubmed tf-idf, and the class of each document."""
    if name == "acm":
        found = np.load(data / "acm" / "acm.npz")
        indices, pointers = found["attr_indices"], found["attr_indptr"]
        A = sp.csr_matrix((np.ones(len(indices)), indices, pointers), shape=tuple(found["attr_shape"]))
        return A, found["labels"]
    found = np.load(data / name / "features_csr.npz")
    parts = found["data"].astype(np.float64), found["indices"], found["indptr"]
    return sp.csr_matrix(parts, shape=tuple(found["shape"])), found["labels"]


def embeddings(A: sp.csr_matrix, own: dict[str, Any]) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Method, left and right singular vectors and values: of the matrix, of rows and columns, of each with itself.

    PCA and KPCA are of each with itself, so that the values of PCA are the squares of those of the centred matrix.
    """
    dense, most = A.toarray(), max(own["components"])
    few = dense[np.random.default_rng(0).choice(len(dense), 500, replace=False)]
    width = own["bandwidth"] * float(np.median(pairwise_distances(few)))
    landmarks = None if len(dense) <= own["whole_up_to"] else own["landmarks"]
    columns = np.ascontiguousarray(dense.T)
    numbers = [np.arange(n)[:, None] for n in A.shape]
    svd = KSVD(Precomputed(A), most, solver="arpack", random_state=0)
    yield "SVD", *_parts(svd.fit(numbers[0], Z=numbers[1]))
    for kernel, compat in product((SNE, RBF), own["compats"]):
        model = KSVD(kernel(width), most, compat=compat, center=True, solver="dense", random_state=0)
        yield f"KSVD, {kernel.__name__}, {compat}", *_parts(model.fit(dense))
    for method, of_itself in (("PCA", Linear()), ("KPCA", RBF(width))):
        ours = [_parts(KSVD(of_itself, most, landmarks if side is dense else None, center=True, random_state=0)
                       .fit(side, Z=side)) for side in (dense, columns)]  # fmt: skip
        yield method, ours[0][0], ours[1][0], np.sqrt(ours[0][2]) if method == "PCA" else ours[0][2]


def _parts(model: KSVD) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.asarray(model.left_singular_vectors_), np.asarray(model.right_singular_vectors_), model.singular_values_


def clusters(vectors: np.ndarray, values: np.ndarray, scaling: str, k: int, own: dict[str, Any]) -> np.ndarray:
    """k-means of the rows of singular vectors: as they are, times the values, or each scaled to length 1."""
    points = vectors * values if scaling == "values" else normalize(vectors) if scaling == "rows" else vectors
    return KMEANS[own["kmeans"]](points, k, own["starts"])


def _dask_ml(points: np.ndarray, k: int, starts: int) -> np.ndarray:
    """Labels of the start with the least sum of squares. Its tolerance is of sizes as they are: vectors of 3,000
    documents have entries of 0.02, of which its 10^-4 would end the first iteration."""
    points = points / points.std()
    rows, best, found = da.from_array(points, chunks=-1), np.inf, np.zeros(0, int)
    for seed in range(starts):
        model = dask_ml.cluster.KMeans(k, random_state=seed, tol=1e-10).fit(rows)
        labels = np.asarray(model.labels_)
        squares = float(((points - model.cluster_centers_[labels]) ** 2).sum())
        if squares < best:
            best, found = squares, labels
    return found


def _scikit_learn(points: np.ndarray, k: int, starts: int) -> np.ndarray:
    return sklearn.cluster.KMeans(k, n_init=starts, random_state=0).fit_predict(points)


KMEANS = {"dask-ml": _dask_ml, "scikit-learn": _scikit_learn}


def rows(data: Path, own: dict[str, Any], trials: int) -> Iterator[str]:
    """The table: a line for each set, weights, method, number of components and scaling, each with all the starts."""
    yield "| set, weights: method | paper, NMI coherence | components | scaling | NMI, coherence |"
    yield "|---|---|---|---|---|"
    for name, paper in own["paper"].items():
        A, y = read(data, name)
        of_set = own | own["sets"][name]
        numbers = len(np.unique(y)), of_set["term_clusters"]
        associated = association(A)
        for weights in of_set["weights"]:
            for method, U, V, s in embeddings(sp.csr_matrix(WEIGHTS[weights](A)), of_set):
                for r, scaling in product(of_set["components"], own["scalings"]):
                    ours, terms = (
                        clusters(side[:, :r], s[:r], scaling, k, own) for side, k in zip((U, V), numbers, strict=True)
                    )
                    found = f"{normalized_mutual_info_score(y, ours):.3f} {contrast(associated, terms):.3f}"
                    line = f"{name}, {weights}: {method}"
                    yield f"| {line:<17} | {paper.get(method[:4], ''):<9} | {r} | {scaling} | {found} |"

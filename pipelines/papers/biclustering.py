"""Biclustering: k-means on the left and on the right singular vectors of a matrix of documents and terms.

Each line is a setting; none is chosen by the labels here: a reader who takes the best one has let the classes choose.
k-means is scikit-learn's: the points are in memory
(`ask_dask.landmarks.kmeans` says what the start of dask-ml's does with many centres; with few it was not tried here).
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import normalized_mutual_info_score, pairwise_distances
from sklearn.preprocessing import normalize

from ask_dask import KSVD
from ask_dask.kernels import RBF, SNE, Linear
from ask_dask.score import coherence


def read(data: Path, name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Documents x terms, and the class of each document; binary documents become tf-idf."""
    if name == "acm":
        found = np.load(data / "acm" / "acm.npz")
        indices, pointers = found["attr_indices"], found["attr_indptr"]
        A = sp.csr_matrix((np.ones(len(indices)), indices, pointers), shape=tuple(found["attr_shape"]))
        return TfidfTransformer().fit_transform(A), found["labels"]
    found = np.load(data / name / "features_csr.npz")
    parts = found["data"].astype(np.float64), found["indices"], found["indptr"]
    return sp.csr_matrix(parts, shape=tuple(found["shape"])), found["labels"]


def embeddings(A: sp.csr_matrix, own: dict[str, Any]) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Method, left and right singular vectors and values: of the matrix, of rows and columns, of each with itself."""
    dense, most = A.toarray(), max(own["components"])
    few = dense[np.random.default_rng(0).choice(len(dense), 500, replace=False)]
    width = own["bandwidth"] * float(np.median(pairwise_distances(few)))
    landmarks = None if len(dense) <= own["whole_up_to"] else own["landmarks"]
    columns = np.ascontiguousarray(dense.T)
    eye = np.eye(A.shape[1])
    for method, center in (("SVD", False), ("PCA", True)):
        yield method, *_parts(KSVD(Linear(), most, center=center, solver="arpack", random_state=0).fit(dense, Z=eye))
    kernels = {"SNE": SNE, "RBF": RBF}.items()
    for (name, kernel), (compat, share) in product(kernels, own["compats"].items()):
        model = KSVD(kernel(share * width), most, landmarks and (landmarks, A.shape[1]), compat=compat, center=True,
                     random_state=0)  # fmt: skip
        yield f"KSVD, {name}, {compat}", *_parts(model.fit(dense))
    ours = [_parts(KSVD(RBF(width), most, landmarks if side is dense else None, center=True, random_state=0)
                   .fit(side, Z=side)) for side in (dense, columns)]  # fmt: skip
    yield "KPCA", ours[0][0], ours[1][0], ours[0][2]


def _parts(model: KSVD) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.asarray(model.left_singular_vectors_), np.asarray(model.right_singular_vectors_), model.singular_values_


def clusters(vectors: np.ndarray, values: np.ndarray, scaling: str, k: int, own: dict[str, Any]) -> np.ndarray:
    """k-means of the rows of singular vectors: as they are, times the values, or each scaled to length 1."""
    points = vectors * values if scaling == "values" else normalize(vectors) if scaling == "rows" else vectors
    return KMeans(k, n_init=own["starts"], random_state=0).fit_predict(points)


def rows(data: Path, own: dict[str, Any], trials: int) -> Iterator[str]:
    """The table: a line for each set, method, number of components and scaling; starts of k-means are its trials."""
    yield "| set: method | paper, NMI coherence | components | scaling | NMI, coherence |\n|---|---|---|---|---|"
    for name, paper in own["paper"].items():
        A, y = read(data, name)
        k = len(np.unique(y))
        for method, U, V, s in embeddings(A, own):
            for r in own["components"]:
                for scaling in own["scalings"]:
                    ours, terms = (clusters(side[:, :r], s[:r], scaling, k, own) for side in (U, V))
                    nmi = normalized_mutual_info_score(y, ours)
                    found = f"{nmi:.3f} {coherence(A, terms, own['top']):.3f}"
                    line = f"{name}: {method}"
                    yield f"| {line:<17} | {paper.get(method[:4], ''):<9} | {r} | {scaling} | {found} |"

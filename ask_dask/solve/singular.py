"""The leading singular vectors of a whole kernel matrix: dense, by ARPACK, or by block iteration on its tiles.

All three give U, s, V of K or of (I - 11'/N) K (I - 11'/M), which is never formed by the last two.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.linalg import qr
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, svds

from ask_dask import compute
from ask_dask.errors import InputError
from ask_dask.nystrom import svd
from ask_dask.solve.tiles import Tiles


@dataclass(frozen=True)
class Leading:
    """The leading singular values and vectors.

    Attributes
    ----------
    U : (N, r), V : (M, r) float64
        Orthonormal columns.
    values : (r,) float64, descending
    residuals : list of float
        Of each iteration: the largest of |K v - s u| and |K'u - s v| over the largest singular value.
    """

    U: np.ndarray
    values: np.ndarray
    V: np.ndarray
    residuals: list[float] = field(default_factory=list)


def dense(tiles: Tiles, n_components: int, center: bool) -> Leading:
    """From the whole matrix, with all its singular values computed.

    Examples
    --------
    >>> from ask_dask.kernels import SNE
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> tiles = Tiles(SNE().at(X, X, 60), 60)
    >>> found, iterated = dense(tiles, 3, True), iterated(tiles, 3, True, tol=1e-10)
    >>> np.allclose(found.values, iterated.values), np.allclose(abs(found.U.T @ iterated.U), np.eye(3), atol=1e-6)
    (True, True)
    """
    K = tiles.matrix()
    if center:
        K -= K.mean(0)
        K -= K.mean(1)[:, None]
    U, s, Vt = svd(K)
    return Leading(U[:, :n_components], s[:n_components], Vt[:n_components].T)


def arpack(tiles: Tiles, n_components: int, center: bool, tol: float, max_iter: int, seed: int = 0) -> Leading:
    """By Lanczos on K'K (SciPy's `svds`): many products with one vector, so for matrices that are cheap to multiply."""
    n, m = tiles.shape
    if n_components >= min(n, m):
        raise InputError(
            f"n_components={n_components} of a {n} x {m} matrix: solver='arpack' gives fewer than {min(n, m)}, so use "
            "'dense'."
        )
    products, nothing = _centred(tiles, center), np.zeros
    operator = LinearOperator(
        (n, m),
        matvec=lambda c: products(c.reshape(m, -1), nothing((n, 0)))[0],
        rmatvec=lambda a: products(nothing((m, 0)), a.reshape(n, -1))[1],
        matmat=lambda c: products(c, nothing((n, 0)))[0],
        rmatmat=lambda a: products(nothing((m, 0)), a)[1],
        dtype=np.float64,
    )
    start = np.random.default_rng(seed).standard_normal(min(n, m))
    try:
        U, s, Vt = svds(operator, n_components, tol=tol, maxiter=max_iter * n_components, v0=start)
    except ArpackNoConvergence as error:
        raise InputError(
            f"ARPACK found {len(error.eigenvalues)} of {n_components} singular values: raise max_iter or tol, or use "
            "solver='dense'."
        ) from error
    order = np.argsort(-s)
    return Leading(U[:, order], s[order], Vt[order].T)


BLOCKS = 4
"""Blocks of directions that the iteration has on either side before it starts again from the best of them."""


def iterated(
    tiles: Tiles, n_components: int, center: bool, tol: float = 1e-8, max_iter: int = 100, seed: int = 0,
    oversampling: int = 10,
) -> Leading:  # fmt: skip
    """By block Krylov iteration on both sides: the matrix is evaluated once an iteration, for K V and for K'U.

    What K V - U s and K'U - V s leave is the next block of either side; of BLOCKS the better half goes on (a thick
    restart, as of Baglama and Reichel, Restarted block Lanczos bidiagonalization methods, 2006), so that no more are
    held. The start is drawn for all rows at once, so the answer does not depend on how they are cut.
    """
    (n, m), products = tiles.shape, _centred(tiles, center)
    width, rng = min(n_components + oversampling, n, m), np.random.default_rng(seed)
    new_U, new_V = (qr(rng.standard_normal((size, width)))[0] for size in (n, m))
    U, KV, V, KU = (np.empty((size, 0)) for size in (n, n, m, m))
    residuals: list[float] = []
    with compute.progress("singular vectors", max_iter, "iterations") as advance:
        while True:
            new_KV, new_KU = products(new_V, new_U)
            U, KV = np.hstack((U, new_U)), np.hstack((KV, new_KV))
            V, KU = np.hstack((V, new_V)), np.hstack((KU, new_KU))
            P, s, Qt = svd(U.T @ KV)
            Q, first = Qt.T, s[:width]
            left, right = U @ P[:, :width], V @ Q[:, :width]
            gaps = KV @ Q[:, :width] - left * first, KU @ P[:, :width] - right * first
            largest = max(np.linalg.norm(gap[:, :n_components], axis=0).max() for gap in gaps)
            residuals.append(float(largest / (s[0] or 1.0)))
            advance()
            if residuals[-1] <= tol or len(residuals) == max_iter:
                return Leading(left[:, :n_components], s[:n_components], right[:, :n_components], residuals)
            U, KU, new_U = _grown(U, KU, P, gaps[0])
            V, KV, new_V = _grown(V, KV, Q, gaps[1])


def _grown(basis: np.ndarray, image: np.ndarray, turn: np.ndarray, gap: np.ndarray) -> tuple[np.ndarray, ...]:
    """A basis and its image, cut where there is no room, and the next block, orthonormal and across from the basis."""
    size, width = gap.shape
    if basis.shape[1] + width > BLOCKS * width:
        kept = turn[:, : BLOCKS // 2 * width]
        basis, image = basis @ kept, image @ kept
    new = gap[:, : size - basis.shape[1]]
    for _ in range(2):  # once leaves what rounding does
        new = qr(new - basis @ (basis.T @ new))[0]
    return basis, image, new


def _centred(tiles: Tiles, center: bool) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The products of (I - 11'/N) K (I - 11'/M): vectors are centred before and after."""
    if not center:
        return tiles.products

    def products(c: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        Kc, Ka = tiles.products(c - c.mean(0), a - a.mean(0))
        return Kc - Kc.mean(0), Ka - Ka.mean(0)

    return products

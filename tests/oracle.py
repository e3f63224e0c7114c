"""Dense definitions of the kernels and methods, which the library must agree with: NumPy in float64, O(N^2) memory.

[AsK] is He et al., Learning with Asymmetric Kernels; [CCE] is Tao, Tonin et al., Learning in Feature Spaces via Coupled
Covariances. `test_oracle.py` checks every function here by a second route.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg as sl
from scipy.special import logsumexp


# ------------------------------------------------------------------------------------------------------------ kernels
def rbf(X, Z, bandwidth):
    """Return exp(-||x - z||^2 / bandwidth^2) of all pairs."""
    return np.exp(-_squares(X, Z) / bandwidth**2)


def sne(X, Z, bandwidth, targets):
    """Return the SNE kernel, [AsK] section 4.3 and [CCE] section 4.1: rbf(x, z) over the sum of rbf(x, targets)."""
    total = logsumexp(-_squares(X, targets) / bandwidth**2, axis=1)
    return np.exp(-_squares(X, Z) / bandwidth**2 - total[:, None])


def student_t(X, Z, targets):
    """Return the T kernel, [AsK] section 4.3: 1 / (1 + ||x - z||^2) over its sum at the targets."""
    of_pairs, of_targets = (1 / (1 + _squares(X, points)) for points in (Z, targets))
    return of_pairs / of_targets.sum(1)[:, None]


def directed_graph(adjacency):
    """Return the kernel of a graph, [AsK] section 4.2: self loops are added, and each row is divided by its sum."""
    looped = np.array(adjacency, float)
    looped[np.diag_indices(len(looped))] += 1
    return np.diag(1 / looped.sum(1)) @ looped


def _squares(X, Z):
    """Return ||x - z||^2 of all pairs, by differences."""
    return np.stack([((Z - x) ** 2).sum(1) for x in X])


# ------------------------------------------------------------------------------------------------------------- AsK-LS
class Solution(NamedTuple):
    """A solution of AsK-LS in the unsigned dual variables a_i = alpha_i y_i and c_i = beta_i y_i.

    The discriminants are f_s(x) = k(x, X) c + b_s and f_t(x) = k(X, x)'a + b_t.
    """

    a: np.ndarray
    c: np.ndarray
    intercepts: np.ndarray

    def source(self, rows):
        """Return f_s of points from k(points, X)."""
        return rows @ self.c + self.intercepts[0]

    def target(self, columns):
        """Return f_t of points from k(X, points)."""
        return columns.T @ self.a + self.intercepts[1]


def askls_dual(K, Y, gamma):
    """Solve [AsK] eq. (6), written with a and c so that all columns of Y (N, q) share one matrix.

    a / gamma + K c + b_s = y,  K'a + c / gamma + b_t = y,  1'a = 1'c = 0
    """
    n, Y = len(K), _columns(Y)
    sums = np.kron(np.eye(2), np.ones((n, 1)))  # of a, and of c
    system = np.block([[saddle(K, gamma), sums], [sums.T, np.zeros((2, 2))]])
    found = np.linalg.solve(system, np.concatenate([Y, Y, np.zeros((2, Y.shape[1]))]))
    return Solution(*np.split(found, [n, 2 * n]))


def askls_path(K, Y, gammas, damping=0.0):
    """Return the singular values of the centred kernel, and the solution of eq. (6) at each gamma from its modes.

    Each mode u, sigma, v is a system of two unknowns, [1/gamma sigma; sigma 1/gamma] [u'a; v'c] = [u'y; v'y], whose
    eigenvalues mu are 1/gamma +- sigma. Damping replaces 1/mu by mu / (mu^2 + damping).
    """
    Y = _columns(Y)
    U, sigma, Vt = np.linalg.svd(centred(K))
    about_mean = Y - Y.mean(0)
    left, right = U.T @ about_mean, Vt @ about_mean
    solutions = []
    for gamma in gammas:
        sums, differences = (
            (mu / (mu**2 + damping))[:, None] * part / 2
            for mu, part in ((1 / gamma + sigma, left + right), (1 / gamma - sigma, left - right))
        )
        a, c = U @ (sums + differences), Vt.T @ (sums - differences)
        solutions.append(Solution(a, c, np.stack([Y.mean(0) - (K @ c).mean(0), Y.mean(0) - (K.T @ a).mean(0)])))
    return sigma, solutions


def askls_primal(source, target, Y, gamma, ridge=0.0):
    """Solve the primal problem [AsK] eq. (5) in features: return w, v and the intercepts (2, q).

    w'v + ridge (||w||^2 + ||v||^2) / 2 + gamma / 2 (sum e^2 + sum h^2), with residuals e = y - source w - b_s and
    h = y - target v - b_t; its gradient in w, v, b_s and b_t is zero. ridge = 0 is the paper's saddle point.
    """
    Y, r = _columns(Y), source.shape[1]
    S, T = (np.column_stack([features, np.ones(len(features))]) for features in (source, target))
    weights = np.diag(np.r_[np.ones(r), 0.0])  # no penalty on the intercepts
    gradient = np.block([[ridge * weights + gamma * S.T @ S, weights], [weights, ridge * weights + gamma * T.T @ T]])
    found = np.linalg.solve(gradient, gamma * np.concatenate([S.T @ Y, T.T @ Y]))
    return found[:r], found[r + 1 : -1], found[[r, -1]]


def saddle(K, gamma):
    """Return the matrix of eq. (6) without its intercepts."""
    identity = np.eye(len(K)) / gamma
    return np.block([[identity, K], [K.T, identity]])


def landmark_features(C, W, R, rcond=1e-12):
    """Return features whose products are C W^+ R, from the columns K[:, J], the core K[I, J] and the rows K[I]."""
    P, sizes, Qt = np.linalg.svd(W)
    rank = int((sizes > rcond * sizes[0]).sum())
    root = np.diag(sizes[:rank] ** -0.5)
    return C @ Qt[:rank].T @ root, R.T @ P[:, :rank] @ root


def centred(K):
    """Return K less the means of its rows and columns, [CCE] section 2.2."""
    left, right = (np.eye(n) - 1 / n for n in K.shape)
    return left @ K @ right


def _columns(Y):
    return np.asarray(Y, float).reshape(len(Y), -1)


# ----------------------------------------------------------------------------------------------------- singular vectors
def nystrom_singular_vectors(C, W, R, rank):
    """Return the asymmetric Nystrom method's u, sigma, v, [CCE] eq. (9), with u and v of norm 1.

    sigma is that of the core W times sqrt(N M / (n m)), the N / n of the symmetric method.
    """
    P, sizes, Qt = np.linalg.svd(W)
    share = W.size / (C.shape[0] * R.shape[1])
    return _unit(C @ Qt[:rank].T), sizes[:rank] / np.sqrt(share), _unit(R.T @ P[:, :rank])


def eta(U, s, V, approximate_u, approximate_v):
    """Return the error of singular vectors in [CCE] section 4.4: 1 - |cos| of each one, weighted by exact values."""
    cosines = [abs(np.diag(exact.T @ _unit(found))) for exact, found in ((U, approximate_u), (V, approximate_v))]
    return np.mean(s * (2 - sum(cosines)))


def subspace_error(U, approximate):
    """Return the sine of the largest principal angle between two column spaces."""
    return np.sin(sl.subspace_angles(U, approximate).max())


def _unit(columns):
    return columns / np.sqrt((columns**2).sum(0))


# ------------------------------------------------------------------------------------- methods on features of landmarks
def ridge(F, Y, alpha, weights=None):
    """Return w and b that minimise sum_i weights_i |y_i - F_i w - b|^2 + alpha |w|^2, by the normal equations."""
    t = np.ones(len(F)) if weights is None else weights
    D = np.column_stack([F, np.ones(len(F))])
    penalty = np.diag(np.append(np.full(F.shape[1], alpha), 0.0))
    found = np.linalg.solve((D.T * t) @ D + penalty, (D.T * t) @ _columns(Y))
    return found[:-1], found[-1]


def components(K, rank):
    """Return eigenvalues, and scores of the rows, of the centred kernel matrix K (N, N)."""
    values, vectors = np.linalg.eigh(centred(K))
    values, vectors = values[::-1][:rank], vectors[:, ::-1][:, :rank]
    return values, vectors * np.sqrt(np.maximum(values, 0))


def fisher(F, codes, mu):
    """Return directions (r, classes - 1) with W'(S_W + mu I) W = I that maximise the scatter between classes."""
    mean = F.mean(0)
    within, between = mu * np.eye(F.shape[1]), np.zeros((F.shape[1], F.shape[1]))
    for code in np.unique(codes):
        own = F[codes == code]
        within = within + (own - own.mean(0)).T @ (own - own.mean(0))
        between = between + len(own) * np.outer(own.mean(0) - mean, own.mean(0) - mean)
    return sl.eigh(between, within)[1][:, ::-1][:, : len(np.unique(codes)) - 1]

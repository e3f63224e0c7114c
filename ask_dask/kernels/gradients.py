"""How a loss of kernel entries changes with the points: what a learned compatibility descends along."""

import numpy as np

from ask_dask.errors import InputError
from ask_dask.kernels.base import Kernel
from ask_dask.kernels.normalised import SNE
from ask_dask.kernels.pointwise import RBF


def require_gradient(kernel: Kernel) -> None:
    """Raise InputError for a kernel that `gradients` does not know."""
    if type(kernel) not in (RBF, SNE):
        raise InputError(f"compat='learned' needs the kernel's gradient, which {type(kernel).__name__} does not "
                         "have here: use RBF or SNE, or compat='pinv', 'pca', 'random'.")  # fmt: skip


def gradients(kernel: Kernel, X: np.ndarray, Z: np.ndarray, K: np.ndarray, G: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gradients of a loss L with regard to sources and targets, from G = dL/dK at K = k(X, Z).

    With q_ij = -|x_i - z_j|^2 / h^2 and H = dL/dq, dL/dx_i = 2/h^2 sum_j H_ij (z_j - x_i) and likewise of z_j. RBF has
    H = G K entry by entry; SNE, a softmax of each row of q, H_ij = K_ij (G_ij - sum_l G_il K_il).

    Parameters
    ----------
    kernel : RBF or SNE
        SNE with Z as all the targets that its normaliser sums over.
    X, Z : (n, d) and (m, d) float64
    K, G : (n, m) float64

    Returns
    -------
    (n, d) and (m, d) float64

    Raises
    ------
    InputError
        Another kernel.

    Examples
    --------
    >>> x, z = np.zeros((1, 1)), np.ones((1, 1))
    >>> [g.round(4).tolist() for g in gradients(RBF(1.0), x, z, RBF(1.0)(x, z), np.ones((1, 1)))]
    [[[0.7358]], [[-0.7358]]]
    """
    require_gradient(kernel)
    H = G * K
    if isinstance(kernel, SNE):
        H -= K * H.sum(1, keepdims=True)
    scale = 2 * kernel.bandwidth**-2  # type: ignore[attr-defined]
    return scale * (H @ Z - H.sum(1)[:, None] * X), scale * (H.T @ X - H.sum(0)[:, None] * Z)

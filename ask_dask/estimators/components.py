"""Kernel principal component analysis on landmarks, as a scikit-learn transformer."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ask_dask.basis import Basis
from ask_dask.errors import InputError
from ask_dask.estimators.inputs import is_number
from ask_dask.estimators.methods import Method, declare
from ask_dask.estimators.one_role import OneRole, mean_share
from ask_dask.fit.outputs import Outputs
from ask_dask.fit.solved import Errors, Solved
from ask_dask.kernels import RBF, Kernel
from ask_dask.kernels.base import Block
from ask_dask.solve import Components

STEPS = 100
"""Steps of the fixed point that looks for a pre-image."""


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OneRole):
    """Principal components of a symmetric kernel, on landmarks.

    The components are those of the features of the Nystrom approximation over all rows, from one pass: with every row a
    landmark those of `sklearn.decomposition.KernelPCA`. Shawe-Taylor and Sun, Kernel methods and support vector
    machines, eqs. (33) to (38).

    Parameters
    ----------
    kernel : Kernel, optional
        Symmetric and of two points alone. By default RBF with the bandwidth at which an average pair of landmarks has
        exp(-1).
    n_components : int, default 2
        How many.
    n_landmarks : int, sequence of int, "auto" or None, default "auto"
        "auto" is 1000 or every row, None every row; of several, nested, the one whose components hold most of the
        variance of held-out rows is chosen.
    cv : int, splitter or None, default None
        Folds whose rows show how much of the variance of new rows the components hold, without another pass.
    landmarks, checkpoint, memory, random_state : as in `KernelRidge`

    Attributes
    ----------
    n_components_ : int
        Fewer than asked for where the precision of the rows resolves no more.
    eigenvalues_ : (n_components_,) float64, descending
        Of the centred kernel matrix of all rows.
    explained_variance_ratio_ : (n_components_,) float64
        Shares of its trace, the variance of the rows in the kernel's space.
    cv_results_, held_out_ : dict
        With folds: "captured", the share of the variance of held-out rows.
    n_landmarks_, row_landmarks_, kernel_, seed_, solution_, steps_ : as in `KernelRidge`

    See Also
    --------
    KSVD : singular vectors of an asymmetric kernel.
    AsymmetricNystroem : the features alone.

    Examples
    --------
    >>> from ask_dask.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = KernelPCA(RBF(2.0), n_components=3, n_landmarks=100, random_state=0).fit(X)
    >>> model.transform(X).shape, model.anomaly_score(X).shape
    ((300, 3), (300,))
    """

    parameter = "n_components"
    kept = ("n_components_",)

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 2,
        n_landmarks: Any = "auto",
        *,
        cv: Any = None,
        landmarks: Any = "uniform",
        checkpoint: str | Path | None = None,
        memory: str | int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.cv = cv
        self.landmarks = landmarks
        self.checkpoint = checkpoint
        self.memory = memory
        self.random_state = random_state

    def transform(self, X: Any) -> Any:
        """Return the scores (n, n_components_) of rows."""
        return self._functions(X, self._block, self._n_features_out)

    def anomaly_score(self, X: Any) -> Any:
        """Return for each row (n,) the part of |phi(x) - mean|^2 that the components do not hold: large is unusual."""
        found = self._functions(X, self._block_anomaly, 1)
        return found[:, 0]

    def inverse_transform(self, scores: Any) -> np.ndarray:
        """Return points (n, d) whose scores are near the given ones, (n, n_components_).

        The start is a linear regression of the landmarks on their scores. With RBF it is improved by the fixed point of
        Mika et al., Kernel PCA and De-Noising in Feature Spaces (NIPS 1998), eq. (10).
        """
        check_is_fitted(self)
        scores = check_array(scores)
        points = self.basis_.column_points[: self.n_landmarks_]
        points = np.asarray(points.toarray() if sp.issparse(points) else points, np.float64)
        own = self._block(self.basis_.column_points[: self.n_landmarks_]).astype(np.float64)
        design = np.column_stack([np.ones(len(own)), own])
        start = np.column_stack([np.ones(len(scores)), scores]) @ np.linalg.lstsq(design, points, rcond=None)[0]
        if not isinstance(self.kernel_, RBF):
            return start
        s = self.solution_
        weights = scores @ s.source.T + s.more["mean"].coefficients[:, 0]
        for _ in range(STEPS):
            pull = weights * self.kernel_(start, points)
            total = pull.sum(1, keepdims=True)
            near = np.abs(total) > 1e-12
            start = np.where(near, pull @ points / np.where(near, total, 1), start)
        return start

    def _block_anomaly(self, block: Block) -> np.ndarray:
        s = self.solution_
        inside = (self._block(block).astype(np.float64) ** 2).sum(1)
        mean = self._block(block, "mean")[:, 0]
        left = self.kernel_.diagonal(block) - 2 * mean + s.statistics["mean_square"] - inside
        return np.maximum(left, 0)[:, None]

    def block_outputs(self, block: Block) -> dict[str, np.ndarray]:
        """Return what a store of predictions keeps of a block of rows."""
        return {"scores": self._block(block), "anomaly": self._block_anomaly(block)}

    @property
    def output_widths(self) -> dict[str, int]:
        """The columns of each of `block_outputs`."""
        return {"scores": self._n_features_out, "anomaly": 1}

    @property
    def eigenvalues_(self) -> np.ndarray:
        """Eigenvalues (n_components_,) of the centred kernel matrix, descending."""
        return np.array(self.solution_.statistics["eigenvalues"])

    @property
    def explained_variance_ratio_(self) -> np.ndarray:
        """Shares (n_components_,) of the variance of the rows in the kernel's space."""
        return np.array(self.solution_.statistics["share"])

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self)
        return self.n_components_

    def _check_y(self, y: Any, n_rows: int) -> Outputs:
        return Outputs("components", np.zeros((n_rows, 0)))

    def _solve(self, outputs: Outputs) -> Components:
        if not (is_number(self.n_components, whole=True) and self.n_components >= 1):
            raise InputError(f"n_components={self.n_components!r} must be a whole number, 1 or more.")
        method = Components((int(self.n_components),))
        self._check_method(method)
        self.scoring_ = "captured"
        if self.kernel is not None and not (self.kernel.symmetric and not self.kernel.relative):
            raise InputError(
                f"kernel={self.kernel!r} is not a symmetric function of two points: use RBF or another such kernel, or "
                "KSVD."
            )
        return method

    def _metrics(self, errors: Errors) -> dict[str, float | None]:
        return {"captured": mean_share(errors)}

    def _keep(self, solved: Solved, pair: int, basis: Basis) -> None:
        super()._keep(solved, pair, basis)
        self.n_components_ = self.solution_.source.shape[1]


declare(Method("kernel-pca", KernelPCA, "embed"))

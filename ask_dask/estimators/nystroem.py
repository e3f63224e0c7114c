"""The feature maps of the asymmetric Nystrom approximation as a scikit-learn transformer."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ask_dask import blocks, nystrom
from ask_dask.estimators import two_sets
from ask_dask.estimators.inputs import check_rows, check_seed
from ask_dask.estimators.parameters import WithKernel
from ask_dask.estimators.two_sets import Pairs
from ask_dask.kernels import Kernel


class AsymmetricNystroem(ClassNamePrefixFeaturesOutMixin, TransformerMixin, WithKernel):
    """Feature maps of an asymmetric kernel: psi_s(x)'psi_t(z) is C X R, an approximation of k(x, z).

    X is a core that is fitted to more of K than the landmarks and cut where its error on probes is least, which for
    kernels of low rank is W^+ (`nystrom.fitted_map`).

    Parameters
    ----------
    kernel : Kernel, optional
        By default SNE with a bandwidth from the data.
    n_landmarks : int, (int, int) or "auto", default 100
    oversampling : "auto" or int, default "auto"
        Rows and columns beside the landmarks to which the core is fitted too; "auto" is as many again.
    n_probes : int, default 100
        Further rows and columns that judge the core; 0 for none.
    landmarks : as in `KSVD`
    random_state : int, RandomState or None

    Attributes
    ----------
    maps_ : nystrom.FeatureMap
    row_landmarks_, column_landmarks_ : row numbers of X and of Z

    Examples
    --------
    >>> from ask_dask.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = AsymmetricNystroem(RBF(3.0), n_landmarks=100, random_state=0).fit(X)
    >>> K, found = RBF(3.0)(X, X), model.transform(X) @ model.transform_target(X).T
    >>> bool(np.linalg.norm(found - K) < 1e-4 * np.linalg.norm(K))
    True
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_landmarks: Any = 100,
        *,
        oversampling: Any = "auto",
        n_probes: int = 100,
        landmarks: Any = "uniform",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.oversampling = oversampling
        self.n_probes = n_probes
        self.landmarks = landmarks
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None, *, Z: Any = None) -> "AsymmetricNystroem":
        """Choose landmarks among the sources X (N, d) and the targets Z (M, d), by default X."""
        self.seed_ = check_seed(self.random_state)
        same, X = Z is None or Z is X, check_rows(self, X, reset=True)
        Z = X if same else check_rows(self, Z)
        pairs = Pairs.of(self.kernel, X, Z, self.seed_)
        n, m = two_sets.counts(self.n_landmarks, self.landmarks, pairs)
        chosen = two_sets.choose(self.landmarks, pairs, (n, m), self.n_probes, self.oversampling, self.seed_)
        basis = pairs.basis(chosen.rows, chosen.columns)
        core = basis.core()
        self.maps_ = nystrom.fitted_map(chosen.fitted(core), n, m, nystrom.resolution(X.dtype), chosen.judge(core))
        self._at, self.kernel_ = basis.at.prefix(n, m), pairs.kernel
        self.row_landmarks_, self.column_landmarks_ = chosen.rows[:n], chosen.columns[:m]
        return self

    @property
    def _n_features_out(self) -> int:
        return self.maps_.source.shape[1]

    def transform(self, X: Any) -> Any:
        """psi_s of sources, (n, r)."""
        return self._features(X, "source")

    def transform_target(self, Z: Any) -> Any:
        """psi_t of targets, (n, r)."""
        return self._features(Z, "target")

    def _features(self, points: Any, role: str) -> Any:
        check_is_fitted(self)
        points, coefficients = check_rows(self, points), getattr(self.maps_, role)
        zero = np.zeros(coefficients.shape[1])
        function = partial(blocks.features, columns=getattr(self._at, role), coefficients=coefficients, offsets=zero)
        return blocks.map_rows(points, function, len(zero), "features")

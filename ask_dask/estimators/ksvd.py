"""KSVD as a scikit-learn estimator: singular vectors of a kernel matrix, exact or from landmarks."""

import warnings
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ask_dask import blocks, budget, compute, nystrom
from ask_dask.basis import Basis
from ask_dask.errors import BudgetError, InputError
from ask_dask.estimators import leading, two_sets
from ask_dask.estimators.compat import Compatibility, compatible
from ask_dask.estimators.inputs import check_rows, check_seed
from ask_dask.estimators.learned import learned
from ask_dask.estimators.parameters import WithKernel
from ask_dask.estimators.reference import exact_error
from ask_dask.estimators.saved import save
from ask_dask.estimators.two_sets import Pairs, Sampled
from ask_dask.fit.plan import limit
from ask_dask.kernels import Kernel
from ask_dask.kernels.base import Block
from ask_dask.solve.vectors import Error, SingularVectors, signed
from ask_dask.sparse import row_bytes

PARTS = (8, 4, 2)
"""The first landmarks are judged by themselves up to this part of them too."""
PATH = ("row_landmarks", "column_landmarks", *(field.name for field in fields(Error)))


class KSVD(ClassNamePrefixFeaturesOutMixin, TransformerMixin, WithKernel):
    """Singular vectors of an asymmetric kernel matrix K = k(X, Z): exact, or from sampled rows and columns.

    Tao, Tonin et al., Learning in Feature Spaces via Coupled Covariances (CCE): kernel singular value decomposition,
    and the asymmetric Nystrom method, eq. (9).

    Parameters
    ----------
    kernel : Kernel, optional
        By default SNE with a bandwidth from the data.
    n_components : int, default 10
        Singular vectors; fewer are found where the rank is less, and, which a ConvergenceWarning tells, where the
        landmarks are fewer or the probes leave less of the core.
    n_landmarks : None, "auto", int or (int, int), default None
        Row and column landmarks; "auto" is 1000 or every point, None is exact, from the whole kernel matrix.
    method : {"orthonormal", "scaled"}, default "orthonormal"
        On landmarks: the exact decomposition of C X R, X being W^+ or better (`nystrom.fitted_map`), or the vectors of
        eq. (9), scaled to unit length.
    oversampling : "auto" or int, default "auto"
        Rows and columns beside the landmarks to which the core is fitted too, at the cost of no pass; "auto" is as many
        again.
    center : bool, default False
        Decompose (I - 11'/N) K (I - 11'/M), which is not formed.
    tol : float, optional
        On landmarks: double their number until n_components are found and the estimated error is not above it, or all
        points are landmarks; of given landmarks, or where more do not fit, a ConvergenceWarning tells what is unmet.
        Exact: residual of "iterated" and "arpack", by default 1e-8, of float32 points 1e-6.
    n_probes : int, default 100
        Further rows and columns that judge the core, and from which the error is estimated; 0 for none. Without them
        W^+ can amplify what the landmarks do not explain to any size, of a matrix that is not of low rank.
    landmarks : {"uniform", "kmeans", "leverage", "cross", "greedy", "coverage"} or (rows, columns), default "uniform"
        The choice (`landmarks.choose`), or two arrays of row numbers of X and of Z.
    compat : {None, "pinv", "pinv_rows", "pca", "axes", "random", "learned"}, default None
        Of a data matrix: how its rows and columns become points of one space; None takes a square one as it is.
        "learned" descends on the loss of a linear model of y (`estimators.learned`): of RBF and SNE, in memory.
    compat_dim : int, optional
        Dimension of the random projections, both made sparse and on the fly; by default the smaller of N and M, dense.
    solver : {"auto", "dense", "arpack", "iterated"}, default "auto"
        Of the exact problem; "auto" is dense where both sides have at most 5,000 points, else arpack for sparse kernels
        and block iteration for others.
    max_iter : int, default 200
    compare_fewer : bool, default False
        On landmarks: estimate the error of fewer of them too, from the same passes over the data.
    compare_exact : bool, default False
        On landmarks: also decompose exactly, and record how far the vectors are from it in `exact_error_`.
    memory : str or int, optional
        Budget, such as "2GiB"; by default what the machine allows.
    random_state : int, RandomState or None

    Attributes
    ----------
    singular_values_ : (r,) float64, descending
    left_singular_vectors_, right_singular_vectors_ : dask arrays (N, r) and (M, r), not computed yet
        The entry of each left vector that is largest in size, among its rows or among the row landmarks, is positive,
        and the right one has the sign that goes along.
    row_landmarks_, column_landmarks_ : row numbers of X and of Z
    error_ : Error or None
        On landmarks: estimated distance of K V from U S and of K'U from V S, with standard errors, two of which hold
        the true one in some 95 % (`Error`); exact of a side whose points all are landmarks. None of an exact
        fit, without two probes, or where all points are landmarks.
    landmark_error_ : dict of lists: row_landmarks, column_landmarks, left, right, left_deviation, right_deviation
        Estimated errors of every count that was tried, fewest first: those of `tol`, and with `compare_fewer` an
        eighth, a fourth and half of the first, as far as these are more than n_components.
    exact_error_ : dict or None
        eta, and left_angle and right_angle, the sines of the largest principal angles to the exact subspaces.
    shape_ : (int, int)
        N and M.
    compat_losses_ : list of float
        Of compat="learned": the loss on rows left out at the start and after each round; that of the least is kept.
    residuals_ : list of float
        Of the iterations of an exact fit.
    seed_ : int

    Examples
    --------
    >>> from ask_dask.kernels import SNE
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> exact = KSVD(SNE(3.0), n_components=3).fit(X, Z=X)
    >>> sampled = KSVD(SNE(3.0), n_components=3, n_landmarks=100, random_state=0).fit(X, Z=X)
    >>> np.allclose(sampled.singular_values_, exact.singular_values_, rtol=0.05)
    True
    >>> sampled.error_.largest < 0.05, exact.transform(X).shape
    (True, (300, 3))
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 10,
        n_landmarks: Any = None,
        *,
        method: str = "orthonormal",
        oversampling: Any = "auto",
        center: bool = False,
        tol: float | None = None,
        n_probes: int = 100,
        landmarks: Any = "uniform",
        compat: str | None = None,
        compat_dim: int | None = None,
        solver: str = "auto",
        max_iter: int = 200,
        compare_fewer: bool = False,
        compare_exact: bool = False,
        memory: str | int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.method = method
        self.oversampling = oversampling
        self.center = center
        self.tol = tol
        self.n_probes = n_probes
        self.landmarks = landmarks
        self.compat = compat
        self.compat_dim = compat_dim
        self.solver = solver
        self.max_iter = max_iter
        self.compare_fewer = compare_fewer
        self.compare_exact = compare_exact
        self.memory = memory
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None, *, Z: Any = None) -> "KSVD":
        """Decompose k(X, Z).

        Parameters
        ----------
        X : numpy, scipy.sparse, dask or zarr, (N, d)
            Sources. Without Z a data matrix (N, M) whose rows are the sources and whose columns are the targets, or, of
            a kernel over numbered points, the numbers of both.
        y : (N,) labels or values, of compat="learned"; else ignored
        Z : the same kinds, (M, d), optional
            Targets.

        Raises
        ------
        InputError
            A parameter, NaN or infinity in X or Z, different numbers of features, rows and columns of a data matrix
            that are not compatible.
        BudgetError
            The plan does not fit the memory.
        """
        two_sets.check_parameters(self)
        self.seed_ = check_seed(self.random_state)
        X, Z = self._sets(X, Z, y)
        pairs = Pairs.of(self.kernel, X, Z, self.seed_)
        self.landmark_error_: dict[str, list[Any]] = {name: [] for name in PATH}
        if self.n_landmarks is None:
            self._fit_exact(pairs)
        else:
            self._fit_landmarks(pairs)
        self._training: tuple[Any, Any] = ((pairs.X, self._functions["source"]), (pairs.Z, self._functions["target"]))
        self.shape_, self.kernel_, self.n_components_ = (pairs.n, pairs.m), pairs.kernel, len(self.singular_values_)
        compared = self.compare_exact and self.n_landmarks is not None
        self.exact_error_ = exact_error(self, pairs) if compared else None
        return self

    def _sets(self, X: Any, Z: Any, y: Any) -> tuple[Any, Any]:
        """Sources and targets; one object where they are the same."""
        same, X = Z is X, check_rows(self, X, reset=True)
        self._compat: Compatibility | None = None  # that of an earlier fit is no longer true
        self.compat_losses_: list[float] = []
        if Z is not None:
            return X, X if same else check_rows(self, Z)
        if getattr(self.kernel, "shape", None):
            return X, X
        if self.compat_dim is not None and self.compat != "random":
            raise InputError(f"compat_dim is of compat='random': leave it out with {self.compat!r}.")
        if self.compat == "learned":
            if self.kernel is None:
                raise InputError("compat='learned' needs a kernel with its bandwidth: give RBF or SNE.")
            X, Z, self._compat, self.compat_losses_ = learned(
                X, y, self.kernel, self.n_components, self.center, limit(self.memory)
            )
        else:
            X, Z, self._compat = compatible(X, self.compat, self.compat_dim, self.seed_)
        return X, Z

    def _fit_exact(self, pairs: Pairs) -> None:
        basis = pairs.basis(np.arange(pairs.n), np.arange(pairs.m))
        found = leading.of(basis, self, limit(self.memory))
        if found.residuals and found.residuals[-1] > leading.tolerance(basis, self):
            warnings.warn(f"After {self.max_iter} iterations the residual is {found.residuals[-1]:.2g}: raise max_iter "
                          "or tol, or use solver='arpack'.", ConvergenceWarning, stacklevel=3)  # fmt: skip
        kept = found.values > nystrom.resolution(np.float64) * found.values.max(initial=0)
        U, s, V = found.U[:, kept], found.values[kept], found.V[:, kept]
        self.residuals_: list[float] = found.residuals
        self.error_: Error | None = None
        offsets = np.zeros((2, len(s)))
        vectors = SingularVectors(V / s, U / s, offsets, s)
        if self.center:
            offsets = np.stack([two_sets.means(pairs, basis, vectors, side) for side in ("source", "target")])
        self._keep(basis, SingularVectors(V / s, U / s, offsets, s), U, pairs.n, pairs.m)

    def _fit_landmarks(self, pairs: Pairs) -> None:
        self.residuals_ = []
        n, m = two_sets.counts(self.n_landmarks, self.landmarks, pairs)
        while unmet := self._fit_counts(pairs, n, m):
            if self.tol is None or not isinstance(self.landmarks, str):
                unmet += " Give more landmarks."
                break
            n, m = min(2 * n, pairs.n), min(2 * m, pairs.m)
            try:
                self._check_memory(pairs, n, m)
            except BudgetError as refused:
                unmet += f" More landmarks do not fit: {refused}"
                break
        if unmet:
            warnings.warn(unmet, ConvergenceWarning, stacklevel=3)

    def _unmet(self, vectors: SingularVectors, pairs: Pairs, n: int, m: int) -> str:
        """What singular vectors of n and m landmarks lack of what was asked for, in words; nothing where all points
        are landmarks, or where the core has no more components."""
        found, error = len(vectors.values), self.error_
        if (n, m) == (pairs.n, pairs.m):
            return ""
        if found < min(self.n_components, pairs.n, pairs.m) and (vectors.left_out or found == min(n, m)):
            return f"Found {found} of {self.n_components} components, all that {n} and {m} landmarks tell from noise."
        if self.tol is not None and (error is None or error.largest > self.tol):
            known = "cannot be estimated" if error is None else f"is estimated as {error.largest:.2g}"
            return f"The error of {n} and {m} landmarks {known}, and tol={self.tol:g} was asked for."
        return ""

    def _check_memory(self, pairs: Pairs, n: int, m: int) -> None:
        workers, more = compute.workers(), self.n_probes

        def plan(size: int) -> budget.Phases:
            return budget.vectors_plan(
                size + more, max(pairs.n, pairs.m), row_bytes(pairs.X), pairs.X.dtype.itemsize, workers
            )

        budget.check(plan, max(n, m), limit(self.memory), "n_landmarks")

    def _fit_counts(self, pairs: Pairs, n: int, m: int) -> str:
        """On n row and m column landmarks: one pass over X, one over Z, the rest is small. What is unmet, in words."""
        self._check_memory(pairs, n, m)
        chosen = two_sets.choose(self.landmarks, pairs, (n, m), self.n_probes, self.oversampling, self.seed_)
        basis = pairs.basis(chosen.rows, chosen.columns)
        sampled = Sampled(chosen, basis.core(), *pairs.grams(basis, *chosen.in_pass))
        for part in self._fewer(n, m):
            self._judged(sampled.first(n // part, m // part), pairs)
        vectors = self._judged(sampled, pairs)
        self._keep(basis, vectors, sampled.core[:n, :m] @ vectors.source - vectors.offsets[0], n, m)
        self.row_landmarks_, self.column_landmarks_ = chosen.rows[:n], chosen.columns[:m]
        return self._unmet(vectors, pairs, n, m)

    def _fewer(self, n: int, m: int) -> list[int]:
        """Parts of the first landmarks that are judged too, fewest first."""
        nested = isinstance(self.landmarks, str) and self.landmarks != "kmeans"
        wanted = self.compare_fewer and nested and not self.landmark_error_["row_landmarks"]
        return [part for part in PARTS if min(n, m) // part > self.n_components] if wanted else []

    def _judged(self, sampled: Sampled, pairs: Pairs) -> SingularVectors:
        """Its singular vectors, whose estimated error is kept."""
        vectors = sampled.vectors(self.method, self.n_components, self.center, nystrom.resolution(pairs.X.dtype))
        self.error_ = sampled.error(vectors, self.center)
        if self.error_ is not None:
            n, m = sampled.chosen.n_landmarks
            for name, value in ({"row_landmarks": n, "column_landmarks": m} | asdict(self.error_)).items():
                self.landmark_error_[name].append(value)
        return vectors

    def _keep(self, basis: Basis, vectors: SingularVectors, U: np.ndarray, n: int, m: int) -> None:
        self._bind(basis, signed(vectors, U), n, m)
        self.singular_values_ = vectors.values
        self.row_landmarks_, self.column_landmarks_ = np.arange(n), np.arange(m)

    @property
    def left_singular_vectors_(self) -> da.Array:
        """U, (N, r), a lazy dask array."""
        return blocks.lazy_rows(*self.left_, self.n_components_, self.n_landmarks_[1])

    @property
    def right_singular_vectors_(self) -> da.Array:
        """V, (M, r), a lazy dask array."""
        return blocks.lazy_rows(*self.right_, self.n_components_, self.n_landmarks_[0])

    @property
    def left_(self) -> tuple[Any, Callable[[Block], np.ndarray]]:
        """The training sources, or their rows of U in a store, and what gives the rows of U of a block of such."""
        check_is_fitted(self)
        return self._training[0]

    @property
    def right_(self) -> tuple[Any, Callable[[Block], np.ndarray]]:
        """The training targets, or their rows of V in a store, and what gives the rows of V of a block of such."""
        check_is_fitted(self)
        return self._training[1]

    def save(self, path: str | Path, overwrite: bool = False, **facts: Any) -> None:
        """Write an embedding store: U and V as `left` and `right`, and what `ask_dask.load` needs for new points."""
        check_is_fitted(self)
        save(self, path, overwrite, facts)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def transform(self, X: Any) -> Any:
        """Scores k(x, Z) V of sources, centred as in training: (n, r); U S for the training rows.

        Of a data matrix X holds rows, (n, M).
        """
        return self._scores(X, "source")

    def transform_target(self, Z: Any) -> Any:
        """Scores k(X, z)'U of targets, centred as in training: (n, r); V S for the training columns.

        Of a data matrix Z holds a column in each row, (n, N).
        """
        return self._scores(Z, "target")

    def _scores(self, points: Any, side: str) -> Any:
        points = two_sets.checked(self, points, side)
        scores = partial(two_sets.scored, function=self._functions[side], values=self.singular_values_)
        return blocks.map_rows(points, scores, self.n_components_, "scores")

    def _bind(self, basis: Basis, vectors: SingularVectors, n: int, m: int) -> None:
        """What gives rows of U and V of any points, from the kernel at the first n and m of its landmarks."""
        self.basis_, self.vectors_, self.n_landmarks_, at = basis, vectors, (n, m), basis.at.prefix(n, m)
        self._functions: dict[str, Callable[[Block], np.ndarray]] = {
            side: partial(blocks.features, columns=getattr(at, side), coefficients=getattr(vectors, side), offsets=own)
            for side, own in zip(("source", "target"), vectors.offsets, strict=True)
        }

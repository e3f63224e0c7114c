"""The two interfaces: a Kernel is a formula, a LandmarkKernel is that formula at chosen landmarks.

A data-normalised kernel such as SNE depends on all targets; its LandmarkKernel carries what it needs of them, so
that every block of rows is computed alone. Nothing here takes an entry for its mirror image unless the kernel says
that it is symmetric.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, partial, wraps
from typing import Any, ClassVar, Protocol

import numpy as np

from ask_dask import compute
from ask_dask.errors import InputError
from ask_dask.kernels.points import as_floats

DIAGONAL = 64
"""Rows whose kernel matrix is evaluated to get its diagonal, of a kernel that has no shorter way."""

Block = Any
"""Rows of X: an ndarray or scipy.sparse CSR matrix, shape (n, d)."""


class Columns(Protocol):
    """What a pass over rows needs of a kernel at landmarks."""

    def both(self, X: Block) -> tuple[np.ndarray, np.ndarray]:
        """C = k(X, Z_J) and R' = k(X_I, X)', both (n, m); the same array where the kernel is symmetric and I = J."""


class LandmarkKernel(Columns, Protocol):
    """A kernel at row landmarks x_i, i in I, and column landmarks z_j, j in J."""

    def source(self, X: Block) -> np.ndarray:
        """C alone: X in the source role, shape (n, |J|)."""

    def target(self, X: Block) -> np.ndarray:
        """R' alone: X in the target role, shape (n, |I|)."""

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        """k(x_i, z_j) of some row and some column landmarks, a block of the core matrix W."""

    def prefix(self, n: int, m: int | None = None) -> "LandmarkKernel":
        """The same kernel at the first n row and m (by default n) column landmarks; normalisers stay those of all."""


def products(kernel: LandmarkKernel, X: Block, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C source and R' target, (n, q) float64 each, by the kernel's own `products` where it has a shorter way.

    Parameters
    ----------
    X : (n, d) block
    source, target : (|J|, q) and (|I|, q) float64
        Where the target's are none, (0, q), C source stands for both.
    """
    if not len(target):
        found = compute.product(kernel.source(X), source)
        return found, found
    if hasattr(kernel, "products"):
        return kernel.products(X, source, target)
    C, R = kernel.both(X)
    return compute.product(C, source), compute.product(R, target)


class Kernel(ABC):
    """A kernel function on blocks of points, with `+`, `*` and scaling."""

    symmetric: ClassVar[bool] = False
    """k(x, z) = k(z, x) for all x, z: then one Gram matrix serves both roles."""
    needs_targets: bool = False
    """Evaluating it at landmarks needs every training point (an exact normaliser)."""
    relative: bool = False
    """k(x, z) depends on the other training targets too: a row that is held out must be left out of them."""
    shape: tuple[int, int] | None = None
    """Of a kernel over points without coordinates: how many sources and targets; X holds their numbers, (n, 1)."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Have each kernel's own `__call__` take points of any numeric dtype and type (`as_floats`)."""
        super().__init_subclass__(**options)
        if "__call__" in vars(cls):
            setattr(cls, "__call__", _of_floats(cls.__call__))  # noqa: B010 - mypy refuses an assignment

    @abstractmethod
    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        """Return the kernel block with X in the source and Z in the target role.

        Parameters
        ----------
        X, Z : (n, d) and (m, d) blocks of numbers
            Those that are not float32 or float64 become float64; see `as_floats`.

        Returns
        -------
        (n, m) array in the dtype of X
        """

    def to(self, Z: Block) -> Callable[[Block], np.ndarray]:
        """Return the function X -> k(X, Z) for many blocks of float rows: what depends on Z alone is done once."""
        return partial(_to, self, Z)

    def diagonal(self, X: Block) -> np.ndarray:
        """Return k(x, x) of each row of X (n, d), (n,) float64.

        Raises
        ------
        InputError
            k(x, x) depends on other points too.
        """
        if self.relative:
            raise InputError(
                f"{type(self).__name__} depends on all points, so that k(x, x) is not known of a row alone."
            )
        blocks = (X[start : start + DIAGONAL] for start in range(0, X.shape[0], DIAGONAL))
        return np.concatenate([np.zeros(0), *(np.diagonal(self(block, block)) for block in blocks)])

    def sparse(self, X: Block, Z: Block) -> Any:
        """k(X, Z) as a scipy.sparse matrix where most of it is 0 and known to be, else None."""
        return None

    def at(self, rows: Block, columns: Block, n_targets: int, targets: Block | None = None) -> LandmarkKernel:
        """The kernel at landmarks.

        Parameters
        ----------
        rows, columns : (n, d) and (m, d) blocks
            Row landmarks X_I (sources) and column landmarks Z_J (targets); one object where I = J.
        n_targets : int
            Number M of training targets that the column landmarks stand for.
        targets : (M, d) block, optional
            All training targets, where `needs_targets`.
        """
        return _Pointwise(self, rows, columns)

    def __add__(self, other: Any) -> "Kernel":
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> "Kernel":
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(float(other), self) if isinstance(other, int | float) else NotImplemented

    __rmul__ = __mul__

    def __deepcopy__(self, memo: dict[int, Any]) -> "Kernel":
        return self  # immutable, and its arrays may be large

    def __sklearn_clone__(self) -> "Kernel":
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; those of kernels inside as `left__bandwidth`, for searches.

        >>> from ask_dask.kernels import RBF
        >>> (2 * RBF(3.0)).get_params()
        {'factor': 2.0, 'kernel': RBF(bandwidth=3.0), 'kernel__bandwidth': 3.0}
        """
        own: dict[str, Any] = {}
        if is_dataclass(self):
            own = {field.name: getattr(self, field.name) for field in fields(self)}
        inside = {
            f"{name}__{key}": value
            for name, kernel in own.items()
            if deep and isinstance(kernel, Kernel)
            for key, value in kernel.get_params().items()
        }
        return own | inside

    def replaced(self, **parameters: Any) -> "Kernel":
        """Return a kernel with other parameters, named as in `get_params`.

        Raises
        ------
        InputError
            The kernel has no such parameter.

        Examples
        --------
        >>> from ask_dask.kernels import RBF
        >>> (2 * RBF(3.0)).replaced(factor=5.0, kernel__bandwidth=1.0)
        Scaled(factor=5.0, kernel=RBF(bandwidth=1.0))
        """
        known, inside = self.get_params(deep=False), [name for name in parameters if "__" in name]
        own = {name: value for name, value in parameters.items() if name not in inside}
        for name in (*own, *(name.split("__")[0] for name in inside)):
            if name not in known:
                raise InputError(f"{type(self).__name__} has no parameter {name}: it has {', '.join(known) or 'none'}.")
        changed = {**known, **own}
        for name in inside:
            first, rest = name.split("__", 1)
            if not isinstance(changed[first], Kernel):
                raise InputError(f"{first} of {type(self).__name__} is not a kernel: {name} cannot be set.")
            changed[first] = changed[first].replaced(**{rest: parameters[name]})
        return type(self)(**changed)

    def to_dict(self) -> dict[str, Any]:
        """Values from which `kernel_from_dict` makes an equal kernel: JSON ones, and arrays where it has any.

        Raises
        ------
        InputError
            A user's own kernel that is no dataclass.
        """
        if not is_dataclass(self):
            raise InputError(f"{type(self).__name__} cannot be kept: make it a dataclass, whose fields are its values.")
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values = {name: v.to_dict() if isinstance(v, Kernel) else v for name, v in values.items()}
        return {"name": type(self).__name__, **values}


def _of_floats(function: Callable[[Any, Block, Block], np.ndarray]) -> Callable[[Any, Block, Block], np.ndarray]:
    @wraps(function)
    def call(kernel: Kernel, X: Block, Z: Block) -> np.ndarray:
        if kernel.shape is not None:  # numbers of points
            return function(kernel, X, Z)
        points = as_floats(X)
        return function(kernel, points, points if Z is X else as_floats(Z))

    return call


def _to(kernel: Kernel, Z: Block, X: Block) -> np.ndarray:
    return kernel(X, Z)


def kernel_from_dict(spec: dict[str, Any]) -> Kernel:
    """The kernel that `Kernel.to_dict` described.

    Raises
    ------
    InputError
        Unknown kernel name or parameters.
    """
    known = {cls.__name__: cls for cls in subclasses(Kernel) if not cls.__name__.startswith("_")}
    values = dict(spec)
    name = values.pop("name", None)
    if name not in known:
        raise InputError(f"There is no kernel named {name!r}: use one of {', '.join(sorted(known))}.")
    values = {key: kernel_from_dict(v) if isinstance(v, dict) else v for key, v in values.items()}
    try:
        return known[name](**values)
    except TypeError as error:
        allowed = ", ".join(field.name for field in fields(known[name])) or "none"
        raise InputError(f"Kernel {name} has no such parameters ({error}): it takes {allowed}.") from error


def subclasses(cls: type) -> list[Any]:
    """Return the classes that are made from a class, at any depth."""
    children: list[Any] = cls.__subclasses__()
    return children + [found for child in children for found in subclasses(child)]


SIZES = (1e-100, 1e100)
"""Bandwidths and weights, whose squares and inverses float64 can hold."""


def require_positive(kernel: Any, **values: float) -> None:
    """Raise InputError for a kernel parameter that is not a finite number above zero, or beyond all measure."""
    for name, value in values.items():
        if not (isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0):
            raise InputError(f"{type(kernel).__name__}: {name} is {value!r} and must be a number above 0.")
        if not SIZES[0] <= value <= SIZES[1]:
            raise InputError(f"{type(kernel).__name__}: {name} is {value!r} and must be from 1e-100 to 1e100.")


@dataclass(frozen=True)
class _Pointwise:
    """A kernel of x and z alone, at landmarks."""

    kernel: Kernel
    rows: Block
    columns: Block

    def both(self, X: Block) -> tuple[np.ndarray, np.ndarray]:
        C = self.source(X)
        return C, C if self.kernel.symmetric and self.rows is self.columns else self.target(X)

    def source(self, X: Block) -> np.ndarray:
        return self._to_columns(X)

    @cached_property
    def _to_columns(self) -> Callable[[Block], np.ndarray]:
        return self.kernel.to(self.columns)

    def target(self, X: Block) -> np.ndarray:
        return self.kernel(X, self.rows) if self.kernel.symmetric else self.kernel(self.rows, X).T

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        return self.kernel(self.rows[rows], self.columns[columns])

    @property
    def sparse(self) -> Any:
        """The core matrix where it is sparse, else None."""
        return self.kernel.sparse(self.rows, self.columns)

    def prefix(self, n: int, m: int | None = None) -> "_Pointwise":
        rows, m = self.rows[:n], m or n
        return _Pointwise(self.kernel, rows, rows if self.rows is self.columns and m == n else self.columns[:m])


class _Of(Kernel):
    """An elementwise function of one kernel, in the field `kernel`."""

    kernel: Kernel

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.kernel.symmetric

    @property
    def needs_targets(self) -> bool:  # type: ignore[override]
        return self.kernel.needs_targets

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return self.kernel.relative

    @property
    def shape(self) -> tuple[int, int] | None:  # type: ignore[override]
        return self.kernel.shape

    @abstractmethod
    def _value(self, K: np.ndarray) -> np.ndarray:
        """The function of a block of kernel values."""

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        return self._value(self.kernel(X, Z))

    def diagonal(self, X: Block) -> np.ndarray:
        return self._value(self.kernel.diagonal(X))

    def at(self, rows: Block, columns: Block, n_targets: int, targets: Block | None = None) -> LandmarkKernel:
        return _Mapped(self._value, self.kernel.at(rows, columns, n_targets, targets))


@dataclass(frozen=True)
class Scaled(_Of):
    """factor * k(x, z)."""

    factor: float
    kernel: Kernel

    def __post_init__(self) -> None:
        require_positive(self, factor=self.factor)

    def _value(self, K: np.ndarray) -> np.ndarray:
        return self.factor * K


@dataclass(frozen=True)
class ExpNegative(_Of):
    """exp(-scale * k(x, z)), such as of a matrix of divergences.

    >>> from ask_dask.kernels import ExpNegative, Precomputed
    >>> D = np.array([[0.0, 1.0], [3.0, 0.0]])
    >>> ExpNegative(Precomputed(D), scale=2.0)(np.array([[0]]), np.array([[0], [1]])).round(4)
    array([[1.    , 0.1353]])
    """

    kernel: Kernel
    scale: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, scale=self.scale)

    def _value(self, K: np.ndarray) -> np.ndarray:
        return np.exp(-self.scale * K)


@dataclass(frozen=True)
class _Pair(Kernel):
    left: Kernel
    right: Kernel
    _join: ClassVar[Callable]

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.left.symmetric and self.right.symmetric

    @property
    def needs_targets(self) -> bool:  # type: ignore[override]
        return self.left.needs_targets or self.right.needs_targets

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return self.left.relative or self.right.relative

    @property
    def shape(self) -> tuple[int, int] | None:  # type: ignore[override]
        return self.left.shape or self.right.shape

    def __call__(self, X: Block, Z: Block) -> np.ndarray:
        return type(self)._join(self.left(X, Z), self.right(X, Z))

    def diagonal(self, X: Block) -> np.ndarray:
        return type(self)._join(self.left.diagonal(X), self.right.diagonal(X))

    def at(self, rows: Block, columns: Block, n_targets: int, targets: Block | None = None) -> LandmarkKernel:
        parts = [kernel.at(rows, columns, n_targets, targets) for kernel in (self.left, self.right)]
        return _Mapped(type(self)._join, *parts)


class Sum(_Pair):
    """k1(x, z) + k2(x, z)."""

    _join = staticmethod(np.add)


class Product(_Pair):
    """k1(x, z) * k2(x, z)."""

    _join = staticmethod(np.multiply)


class _Mapped:
    """An elementwise function of one or two LandmarkKernels."""

    def __init__(self, function: Callable, *parts: LandmarkKernel) -> None:
        self.function, self.parts = function, parts

    def both(self, X: Block) -> tuple[np.ndarray, np.ndarray]:
        pairs = [part.both(X) for part in self.parts]
        C = self.function(*(C for C, _ in pairs))
        return C, C if all(C is R for C, R in pairs) else self.function(*(R for _, R in pairs))

    def source(self, X: Block) -> np.ndarray:
        return self.function(*(part.source(X) for part in self.parts))

    def target(self, X: Block) -> np.ndarray:
        return self.function(*(part.target(X) for part in self.parts))

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        return self.function(*(part.tile(rows, columns) for part in self.parts))

    def prefix(self, n: int, m: int | None = None) -> "_Mapped":
        return _Mapped(self.function, *(part.prefix(n, m) for part in self.parts))

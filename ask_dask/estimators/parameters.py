"""Parameters of estimators, also those of the kernel inside, such as `kernel__bandwidth` in a search."""

from typing import Any, Self

from sklearn.base import BaseEstimator

from ask_dask.errors import InputError
from ask_dask.kernels import Kernel


class WithKernel(BaseEstimator):
    """An estimator whose parameter `kernel` is a `Kernel`, which is immutable: a changed one takes its place."""

    kernel: Kernel | None

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator and, as `kernel__name`, of its kernel.

        Raises
        ------
        InputError
            A parameter of the kernel where the kernel is None or has no such parameter.
        ValueError
            This estimator has no such parameter.

        Examples
        --------
        >>> from ask_dask import AsKLSClassifier
        >>> from ask_dask.kernels import SNE
        >>> AsKLSClassifier(SNE(2.0)).set_params(kernel__bandwidth=3.0).kernel
        SNE(bandwidth=3.0, normaliser='landmarks')
        """
        prefix = "kernel__"
        inside = {name.removeprefix(prefix): params.pop(name) for name in list(params) if name.startswith(prefix)}
        super().set_params(**params)
        if inside:
            if not isinstance(self.kernel, Kernel):
                raise InputError(
                    f"kernel={self.kernel!r} has no {', '.join(inside)}: set kernel first, as to SNE(2.0)."
                )
            self.kernel = self.kernel.replaced(**inside)
        return self


def names_of(model: Any) -> list[str] | None:
    """Return the names of the features that a model was fitted with, None without any."""
    return list(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None

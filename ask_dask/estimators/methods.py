"""The catalogue of methods: what the commands, stores and reports need to know of each."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Method:
    """The declaration of a method.

    Attributes
    ----------
    name : str
        As the command line and job files name it.
    estimator : class
        A subclass of `OneRole`. Its parameters are the options; its `block_outputs` are what predictions hold.
    command : {"fit", "embed"}
        The command that fits it: "fit" learns labels, "embed" needs none.
    """

    name: str
    estimator: Any
    command: Literal["fit", "embed"]


CATALOGUE: dict[str, Method] = {}
"""Methods by name. The file of each method declares it."""


def declare(method: Method) -> None:
    """Add a method to the catalogue."""
    CATALOGUE[method.name] = method


def method_of(estimator: str) -> Method | None:
    """Return the method whose estimator has a class name."""
    return next((method for method in CATALOGUE.values() if method.estimator.__name__ == estimator), None)

"""The steps of methods of the catalogue: their options are the parameters of their estimators."""

import inspect
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import zarr
from cyclopts import Group, Parameter
from docstring_parser import parse
from pydantic import BeforeValidator, Field, create_model

from ask_dask import store
from ask_dask.estimators.fitted import LandmarkEstimator
from ask_dask.estimators.methods import CATALOGUE, Method
from ask_dask.estimators.ridge import KernelRidge
from ask_dask.steps.fitting import Fitting
from ask_dask.steps.options import List, Seed


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


LANDMARKS = Literal["uniform", "stratified", "kmeans", "leverage", "cross", "greedy", "coverage"]

OFTEN: dict[str, Any] = {
    "n_landmarks": Annotated[list[int] | None, *List],
    "landmarks": LANDMARKS,
    "cv": Annotated[int | str | None, BeforeValidator(_number)],
    "class_weight": Literal["balanced"] | None,
}
"""Parameters of many estimators, which take more in Python than an option can say."""

ELSEWHERE = ("kernel", "checkpoint", "memory", "random_state")
"""Parameters that other options of a step give."""

OfMethod = Parameter(group=Group("Method", sort_key=2))


class MethodStep(Fitting):
    """A dataset store -> a model of a method of the catalogue."""

    of: ClassVar[Method]
    usual_kernel: ClassVar[str] = "rbf"
    seed: Seed = 0

    def _estimator(self, data: zarr.Group) -> LandmarkEstimator:
        given = {name: getattr(self, name) for name in parameters(self.of.estimator)}
        given = {name: "auto" if name == "n_landmarks" and value is None else value for name, value in given.items()}
        return self.of.estimator(
            kernel=self.shaped_kernel(data),
            checkpoint=store.checkpoint_of(self.to),
            memory=self.memory,
            random_state=self.seed,
            **given,
        )


@cache
def step_of(name: str) -> type[MethodStep]:
    """Return the step of a method of the catalogue, with an option for each parameter of its estimator."""
    method = CATALOGUE[name]
    summary = (inspect.getdoc(method.estimator) or "").partition("\n")[0]
    options: dict[str, Any] = {
        key: (Annotated[kind, OfMethod, Field(description=said)], default)
        for key, (kind, default, said) in parameters(method.estimator).items()
    }
    hidden = Parameter(show=False, parse=False)
    options["do"] = (Annotated[Literal[method.command], hidden], method.command)
    options["method"] = (Annotated[Literal[name], hidden], name)
    made = create_model(f"{method.estimator.__name__}Step", __base__=MethodStep, __doc__=summary, **options)
    made.of, made.title, made.labelled = method, method.command, method.command == "fit"
    return made


def parameters(estimator: Any) -> dict[str, tuple[Any, Any, str]]:
    """Return the type, default and description of each parameter of an estimator that is an option of its own."""
    hints, said = get_type_hints(estimator.__init__), descriptions(estimator)
    found = {}
    for name, parameter in inspect.signature(estimator.__init__).parameters.items():
        if name == "self" or name in ELSEWHERE:
            continue
        kind, default = OFTEN.get(name) or option_type(hints[name]), parameter.default
        default = list(default) if isinstance(default, tuple) else None if default == "auto" else default
        found[name] = (kind, default, said.get(name, ""))
    return found


def option_type(hint: Any) -> Any:
    """Return the type of the option of a parameter: one that takes a number or several is a list, with commas.

    >>> option_type(float | Sequence[float]) == Annotated[list[float], *List]
    True
    >>> option_type(int | None)
    int | None
    """
    several = [part for part in (hint, *get_args(hint)) if get_origin(part) is Sequence]
    return Annotated[list[get_args(several[0])[0]], *List] if several else hint  # type: ignore[misc]


def descriptions(estimator: Any) -> dict[str, str]:
    """Return the first sentence of each parameter of an estimator's docstring.

    One that is described "as in" another estimator has the sentence of `KernelRidge`.
    """
    found = {}
    for parameter in parse(inspect.getdoc(estimator) or "").params:
        for name in (parameter.arg_name or "").split(","):
            text = " ".join((parameter.description or "").split())
            found[name.strip()] = f"{text.partition('. ')[0].rstrip('.')}." if text else ""
    if estimator is not KernelRidge:
        found |= {name: text for name, text in descriptions(KernelRidge).items() if not found.get(name, "unknown")}
    return found

"""Names of options that have changed: the old ones work until the next minor version, and the new ones are told."""

import logging
from typing import Any

log = logging.getLogger("ask_dask")

RENAMED = {
    "fit": {"landmarks": "n_landmarks", "sampling": "landmarks", "folds": "cv"},
    "embed": {"landmarks": "n_landmarks", "sampling": "landmarks", "components": "n_components"},
}
"""New names of options by command. `landmarks` was a number, and is the way of choosing now."""


def renamed_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments of a command with the new names of its options.

    >>> renamed_arguments(["fit", "--landmarks", "9", "--sampling=kmeans", "--to", "m.zarr"])
    ['fit', '--n-landmarks', '9', '--landmarks=kmeans', '--to', 'm.zarr']
    """
    found = list(arguments)
    if arguments[1:2] and not arguments[1].startswith("-"):
        return found
    for place, argument in enumerate(arguments):
        name, equal, value = argument.partition("=")
        value = value if equal else "".join(arguments[place + 1 : place + 2])
        if name.startswith("--") and (new := _new(arguments[0], name[2:].replace("-", "_"), value)):
            found[place] = f"--{new.replace('_', '-')}{argument[len(name) :]}"
            _tell(name, f"--{new.replace('_', '-')}")
    return found


def renamed_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return a step of a job file with the new names of its options.

    >>> renamed_values({"do": "fit", "landmarks": [9], "folds": 3})
    {'do': 'fit', 'n_landmarks': [9], 'cv': 3}
    """
    found, command = {}, str(values.get("do"))
    usual = values.get("method") in (None, "askls", "orthonormal", "scaled")  # others never had the old names
    for name, value in values.items():
        new = _new(command, name, value) if usual else None
        found[new or name] = value
        if new:
            _tell(name, new)
    return found


def _new(command: str, name: str, value: Any) -> str | None:
    """Return the new name of an option; None where it has one."""
    new = RENAMED.get(command, {}).get(name)
    first = str(value).strip("[( ")[:1]
    return None if name == "landmarks" and not first.isdecimal() else new


def _tell(old: str, new: str) -> None:
    log.warning("%s is now %s; the old name works until the next minor version.", old, new)

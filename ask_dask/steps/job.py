"""A list of steps: read from a TOML file, run in order, skipped when complete."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ask_dask import store
from ask_dask.errors import AskDaskError, InputError, StoreError
from ask_dask.steps.each import Predict, Report, Score
from ask_dask.steps.embed import Embed
from ask_dask.steps.fit import Fit
from ask_dask.steps.ingest import INGESTS
from ask_dask.steps.make import Make
from ask_dask.steps.options import Step
from ask_dask.steps.renamed import renamed_values

STEPS: dict[str, type[Step]] = {
    "make": Make,
    "fit": Fit,
    "embed": Embed,
    "predict": Predict,
    "score": Score,
    "report": Report,
}
"""The steps by their `do`, but for ingest and other methods, which have one each."""


class _Job(BaseModel):
    model_config = ConfigDict(extra="forbid")
    step: Annotated[list[dict[str, Any]], Field(min_length=1)]


def read_job(path: Path) -> list[Step]:
    """The steps of a TOML file, here or at a URL, checked; relative paths are taken from the file's folder.

    Raises
    ------
    InputError
        No such file, not TOML, or a step with a wrong or missing option: names the step and the option.
    StoreError
        The storage of its URL cannot be reached.
    """
    path = store.located(path)
    try:
        found = _Job(**tomllib.loads(store.read_bytes(path).decode()))
    except StoreError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'no such file'}.") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ValidationError):
            raise InputError(f"{path}: {complaint(error)}.") from error
        raise InputError(f"{path} cannot be read as TOML: {error}.") from error
    made = []
    for number, given in enumerate(found.step, 1):
        values = renamed_values(given)
        try:
            made.append(placed(kind_of(values)(**values), path.parent))
        except (ValidationError, InputError) as error:
            said = f"{complaint(error)}." if isinstance(error, ValidationError) else error
            raise InputError(f"{path}, step {number} ({values.get('do', 'no do')}): {said}") from error
    return made


def kind_of(values: dict[str, Any]) -> type[Step]:
    """Return the class of a step: by its `do`, and by the `format` that it ingests or the `method` that it fits.

    Raises
    ------
    InputError
        One of these is missing or unknown.
    """
    do, name = values.get("do"), values.get("method")
    kinds = ["make", "ingest", *(title for title in STEPS if title != "make")]
    _require("do", do, kinds)
    if do == "ingest":
        _require("format", values.get("format"), list(INGESTS))
        return INGESTS[values["format"]]
    if do not in ("fit", "embed") or name is None:
        return STEPS[str(do)]
    from ask_dask.steps.methods import CATALOGUE, step_of  # estimators take half of the time that a command loads

    known = [method.name for method in CATALOGUE.values() if method.command == do]
    if name in known:
        return step_of(name)
    if do == "fit":
        _require("method", name, ["askls", *known])
    return STEPS[do]


def _require(option: str, value: Any, known: list[str]) -> None:
    if value is None:
        raise InputError(f"{option} is missing.")
    if value not in known:
        raise InputError(f"{option}: is one of {', '.join(known)} (given {value!r}).")


def complaint(error: ValidationError, prefix: str = "") -> str:
    """The first complaint of pydantic, with the option it is about; of what is misspelt, not that it is missing."""
    found = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    option = next((str(part) for part in found["loc"] if isinstance(part, str)), "do")
    option = prefix + (option.replace("_", "-") if prefix else option)
    if found["type"] == "extra_forbidden":
        return f"{option}: there is no such option here"
    if found["type"] == "missing":
        return f"{option} is missing"
    said = found["msg"].removeprefix("Value error, ")
    return f"{option}: {said[:1].lower()}{said[1:]} (given {found['input']!r})"


def run_job(
    steps: list[Step],
    overwrite: bool,
    say: Callable[[str], None],
    told: Callable[[dict[str, Any]], None] = lambda result: None,
) -> list[dict[str, Any]]:
    """Run the steps in order, skipping each whose output is complete and has the same recipe.

    `told` gets the result of each that was run, as it ends: one after it may fail, or be stopped.
    """
    done = []
    for number, step in enumerate(steps, 1):
        name = f"step {number} of {len(steps)}, {step.title}"
        try:
            made = step.made()
            if made is not None and made == json.loads(json.dumps(step.recipe())):
                say(f"{name}: skipped, {getattr(step, 'to', '')} is complete")
                done.append({"step": step.title, "skipped": True})
                continue
            if made is not None and not (overwrite or getattr(step, "overwrite", False)):
                raise StoreError(
                    f"{getattr(step, 'to', '')} was made with other parameters or from other inputs: pass "
                    "--overwrite to make it again, or name another place."
                )
            if overwrite:  # a checkpoint too, where the output was never finished
                step = step.model_copy(update={"overwrite": True})  # noqa: PLW2901
            say(f"{name}: started")
            done.append({"step": step.title, "skipped": False} | step.carried_out())
            told(done[-1])
        except AskDaskError as error:
            raise type(error)(f"{name}: {error}") from error
    return done


def placed(step: Step, folder: Path) -> Step:
    """The step with its relative paths taken from a folder, here or at a URL; URLs stay."""

    def place(path: Any) -> Any:
        if isinstance(path, list):
            return [place(part) for part in path]
        if path is None or isinstance(whole := store.located(path), store.Url) or whole.is_absolute():
            return path
        found = folder / path
        return found if isinstance(path, Path) else getattr(found, "url", str(found))

    return step.model_copy(
        update={name: place(getattr(step, name)) for name in step.paths if name in type(step).model_fields}
    )

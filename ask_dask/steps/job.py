"""A list of steps: read from a TOML file, run in order, skipped when complete."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ask_dask import store
from ask_dask.errors import AskDaskError, InputError, StoreError
from ask_dask.steps.each import Predict, Report, Score
from ask_dask.steps.embed import Embed
from ask_dask.steps.fit import Fit
from ask_dask.steps.ingest import AnyIngest
from ask_dask.steps.make import Make
from ask_dask.steps.options import Step

AnyStep = Annotated[Make | AnyIngest | Fit | Embed | Predict | Score | Report, Field(discriminator="do")]
"""A step by its `do`, and an ingest step by its `format` too."""


TITLES = ("make", "ingest", "fit", "embed", "predict", "score", "report")


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
    adapter: TypeAdapter[Any] = TypeAdapter(AnyStep)
    made = []
    for number, values in enumerate(found.step, 1):
        try:
            method = method_step(values)
            made.append(placed(method(**values) if method else adapter.validate_python(values), path.parent))
        except (ValidationError, InputError) as error:
            said = f"{complaint(error)}." if isinstance(error, ValidationError) else error
            raise InputError(f"{path}, step {number} ({values.get('do', 'no do')}): {said}") from error
    return made


def method_step(values: dict[str, Any]) -> type[Step] | None:
    """Return the kind of step that fits the method which a step names; None where it names none, or the usual one."""
    do, name = values.get("do"), values.get("method")
    if do not in ("fit", "embed") or name is None:
        return None
    from ask_dask.steps.methods import CATALOGUE, step_of  # estimators take half of the time that a command loads

    method = CATALOGUE.get(name)
    if method is None or method.command != do:
        known = [own.name for own in CATALOGUE.values() if own.command == do]
        if do == "fit" and name != "askls":
            raise InputError(f"method={name!r}: is one of {', '.join(['askls', *known])}.")
        return None
    return step_of(name)


def complaint(error: ValidationError, prefix: str = "") -> str:
    """The first complaint of pydantic, with the option it is about; of what is misspelt, not that it is missing."""
    found = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    if found["type"].startswith("union_tag"):
        return _wrong_kind(found)
    option = _option(found["loc"])
    option = prefix + (option.replace("_", "-") if prefix else option)
    if found["type"] == "extra_forbidden":
        return f"{option}: there is no such option here"
    if found["type"] == "missing":
        return f"{option} is missing"
    said = found["msg"].removeprefix("Value error, ")
    return f"{option}: {said[:1].lower()}{said[1:]} (given {found['input']!r})"


def _wrong_kind(found: Any) -> str:
    """That `do`, or an ingest step's `format`, is missing or unknown."""
    option = found["ctx"]["discriminator"].strip("'")
    if found["type"] == "union_tag_not_found":
        return f"{option} is missing"
    known = found["ctx"]["expected_tags"].replace("'", "")
    return f"{option}: is one of {known} (given {found['input'][option]!r})"


def _option(place: tuple[Any, ...]) -> str:
    """The option at a place in a step: what comes after the tags of the step's kind."""
    tags = 2 if place[:1] == ("ingest",) else 1 if place[:1] in {(title,) for title in TITLES} else 0
    return next((str(part) for part in place[tags:] if isinstance(part, str)), "do")


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

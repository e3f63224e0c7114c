"""A list of steps: read from plain values, run in order, skipped when complete."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ask_dask.errors import AskDaskError, StoreError
from ask_dask.steps.each import Fit, Ingest, Predict, Report, Score
from ask_dask.steps.options import PATHS, Step

AnyStep = Annotated[Ingest | Fit | Predict | Score | Report, Field(discriminator="do")]


TITLES = tuple(step.title for step in (Ingest, Fit, Predict, Score, Report))


def run_job(steps: list[Step], overwrite: bool, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Run the steps in order, skipping each whose output is complete and has the same recipe."""
    done = []
    for number, step in enumerate(steps, 1):
        name = f"step {number} of {len(steps)}, {step.title}"
        try:
            made = step.made()
            if made is not None and made == json.loads(json.dumps(step.recipe())):
                say(f"{name}: skipped, {getattr(step, 'to', '')} is complete")
                done.append({"step": step.title, "skipped": True})
                continue
            if made is not None:
                if not (overwrite or getattr(step, "overwrite", False)):
                    raise StoreError(
                        f"{getattr(step, 'to', '')} was made with other parameters or from other inputs: pass "
                        "--overwrite to make it again, or name another place."
                    )
                step = step.model_copy(update={"overwrite": True})  # noqa: PLW2901
            say(f"{name}: started")
            done.append({"step": step.title, "skipped": False} | step.run())
        except AskDaskError as error:
            raise type(error)(f"{name}: {error}") from error
    return done


def placed(step: Step, folder: Path) -> Step:
    """The step with its relative paths taken from a folder; URLs stay."""

    def place(path: Any) -> Any:
        if isinstance(path, list):
            return [place(part) for part in path]
        return (
            path
            if path is None or "://" in str(path)
            else type(path)(folder / path)
            if isinstance(path, str)
            else folder / path
        )

    return step.model_copy(
        update={name: place(getattr(step, name)) for name in PATHS if name in type(step).model_fields}
    )

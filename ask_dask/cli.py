"""`ask-dask ...`: arguments in, exit code and one clear line out.

Exit codes: 0 done, 1 something the user can put right (one line on stderr), 130 interrupted (SIGINT, SIGTERM).
"""

import json
import logging
import os
import signal
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ask_dask import demo as demonstration
from ask_dask import steps
from ask_dask.budget import size
from ask_dask.cluster import running_on
from ask_dask.compute import progress_shown
from ask_dask.errors import AskDaskError, InputError, ResonanceWarning

app = App(
    name="ask-dask",
    help="Learning with asymmetric kernels, out of core: raw click logs to models, predictions and a report.",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)


@Parameter(name="*")
@dataclass(frozen=True)
class Run:
    """How to run and what to print."""

    cluster: Annotated[
        str, Parameter(help="threads, processes, a scheduler's address (tcp://host:8786) or its scheduler file.")
    ] = "threads"
    workers: Annotated[int | None, Parameter(help="Threads or processes; default: one for each core.")] = None
    json: Annotated[bool, Parameter(negative="", help="Print the result as JSON.")] = False
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="", help="Say more on stderr.")] = False
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", help="No progress.")] = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Logging, progress and a place to compute."""
        log = logging.getLogger("ask_dask")  # not the root: dask's own loggers then stay silent
        log.handlers = [logging.StreamHandler(sys.stderr)]
        log.setLevel(logging.DEBUG if self.verbose else logging.WARNING)
        with progress_shown(not self.quiet), running_on(self.cluster, self.workers):
            yield

    def say(self, line: str) -> None:
        """A line of progress."""
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def show(self, result: Any, words: Callable[[Any], str]) -> None:
        """The result on stdout, for a machine or in words."""
        try:
            print(json.dumps(result) if self.json else words(result), flush=True)
        except BrokenPipeError:  # the reader has seen enough, as in `ask-dask info ... | head -1`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.command
def ingest(
    format: Literal["criteo", "avazu"],
    /,
    *files: str,
    to: Annotated[Path, Parameter(help="The store to make.")],
    encoding: Annotated[steps.Encoding | None, Parameter(name="*")] = None,
    memory: steps.Memory = None,
    overwrite: steps.Overwrite = False,
    run: Run = Run(),
) -> None:
    """Turn raw click logs into a dataset store.

    Files may be plain or compressed, paths or URLs. Bad rows are set aside with file, line and reason.

    Parameters
    ----------
    format
        criteo: label, I1..I13, C1..C26, tab separated. avazu: CSV with its header.
    files
        The files, in order.
    """
    chosen = (encoding or steps.Encoding()).model_dump()
    _do(steps.Ingest(format=format, files=list(files), to=to, memory=memory, overwrite=overwrite, **chosen), run)


@app.command
def fit(*, step: Annotated[steps.Fit, Parameter(name="*")], run: Run = Run()) -> None:
    """Fit AsK-LS on landmarks; gamma and the landmark count are chosen on held-out rows."""
    _do(step, run)


@app.command
def predict(*, step: Annotated[steps.Predict, Parameter(name="*")], run: Run = Run()) -> None:
    """Predict the rows of a dataset store, or of raw files through the model's own encoder."""
    _do(step, run)


@app.command
def score(*, step: Annotated[steps.Score, Parameter(name="*")], run: Run = Run()) -> None:
    """Score predictions against labels: AUROC, log loss, accuracy, micro and macro F1."""
    _do(step, run)


@app.command
def report(*, step: Annotated[steps.Report, Parameter(name="*")], run: Run = Run()) -> None:
    """Write one self-contained HTML page about a model."""
    _do(step, run)


@app.command
def info(store: Path, /, *, run: Run = Run()) -> None:
    """Say what a store is: schema, arrays, kernel, who made it from what, bytes.

    Parameters
    ----------
    store
        Any store.
    """
    run.show(steps.info(store), lambda found: "\n".join(_lines(found)))


@app.command(name="run")
def run_job(
    job: Path,
    /,
    *,
    overwrite: steps.Overwrite = False,
    run: Run = Run(),
) -> None:
    """Run the steps of a TOML file, skipping each whose output is already complete.

    Parameters
    ----------
    job
        A TOML file of [[step]] tables, each with do = "ingest", "fit", "predict", "score" or "report" and that
        command's options; paths are relative to the file.
    """
    with run.running():
        results = steps.run_job(read_job(job), overwrite, run.say)
    run.show(results, lambda found: "\n".join(_words(result) for result in found if not result["skipped"]))


@app.command
def demo(
    *,
    to: Annotated[Path, Parameter(help="Folder for everything it makes.")] = Path("ask-dask-demo"),
    rows: Annotated[int, Parameter(help="Rows of text to make, a fifth of them for testing.")] = 300_000,
    run: Run = Run(),
) -> None:
    """Make Criteo-format text and run the whole job on it: ingest, fit, predict, score, report."""
    with run.running():
        job = demonstration.make(to, rows)
        run.say(f"The job, as a file: {job} (again with: ask-dask run {job})")
        results = steps.run_job(read_job(job), False, run.say)
    run.show(results, lambda found: "\n".join(_words(result) for result in found if not result["skipped"]))


class _Job(BaseModel):
    model_config = ConfigDict(extra="forbid")
    step: Annotated[list[dict[str, Any]], Field(min_length=1)]


def read_job(path: Path) -> list[steps.Step]:
    """The steps of a TOML file, checked; relative paths are taken from the file's folder.

    Raises
    ------
    InputError
        No such file, not TOML, or a step with a wrong or missing option: names the step and the option.
    """
    try:
        found = _Job(**tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}.") from error
    except ValidationError as error:
        raise InputError(f"{path}: {_first(error)}.") from error
    adapter: TypeAdapter[Any] = TypeAdapter(steps.AnyStep)
    made = []
    for number, values in enumerate(found.step, 1):
        try:
            made.append(steps.placed(adapter.validate_python(values), path.parent))
        except ValidationError as error:
            raise InputError(f"{path}, step {number} ({values.get('do', 'no do')}): {_first(error)}.") from error
    return made


def _do(step: steps.Step, run: Run) -> None:
    with run.running():
        result = step.run()
    run.show(result | {"step": step.title}, _words)


def _words(result: dict[str, Any]) -> str:
    """A result in one or a few lines."""
    where = f"{result.get('path', '')}: "
    if result["step"] == "ingest":
        rejected = result["rejected"]["count"]
        return (
            f"{where}{result['n_rows']:,} rows x {result['n_features']} features, {rejected:,} rejected{_cost(result)}"
        )
    if result["step"] == "fit":
        held_out = result["held_out"]
        return (
            f"{where}gamma {result['gamma']:g}, {result['n_landmarks']} landmarks, held-out AUROC "
            f"{held_out['auroc']:.4f}, log loss {held_out['log_loss']:.4f}{_cost(result)}"
        )
    if result["step"] == "predict":
        return f"{where}{result['arrays']['score']['shape'][0]:,} rows{_cost(result)}"
    if result["step"] == "score":
        metrics = ("n", "auroc", "log_loss", "accuracy", "f1_micro", "f1_macro")
        return "\n".join(f"{name:<9} {_value(result[name])}" for name in metrics)
    return f"{where}{size(result['bytes'])}"


def _cost(result: dict[str, Any]) -> str:
    done = result.get("steps", [])
    return (
        f" ({sum(s['seconds'] for s in done):.1f} s in all, peak {size(max(s['peak_bytes'] for s in done))})"
        if done
        else ""
    )


def _value(value: Any) -> str:
    return "undefined" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.6f}"


def _lines(found: dict[str, Any], indent: str = "") -> Iterator[str]:
    for key, value in found.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{indent}{key}:"
            for item in value:
                yield indent + "  " + ", ".join(f"{k} {v}" for k, v in item.items())
        else:
            yield f"{indent}{key}: {size(value) if key == 'bytes' else value}"


def _first(error: ValidationError, prefix: str = "") -> str:
    """The first complaint of pydantic, with the option it is about."""
    found = error.errors()[0]
    option = next((part for part in found["loc"] if isinstance(part, str) and part not in steps.TITLES), "do")
    option = prefix + (option.replace("_", "-") if prefix else option)
    if found["type"] == "extra_forbidden":
        return f"{option}: there is no such option here"
    if found["type"] in ("missing", "union_tag_not_found"):
        return f"{option} is missing"
    if found["type"] == "union_tag_invalid":
        return f"do: is one of {', '.join(steps.TITLES)} (given {found['input']['do']!r})"
    said = found["msg"].removeprefix("Value error, ")
    return f"{option}: {said[:1].lower()}{said[1:]} (given {found['input']!r})"


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, ResonanceWarning):
        print(f"Warning: {message}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> None:
    """The entry point: runs a command and exits."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit ends a job as Ctrl-C does: cleanly
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        cause = error.__cause__
        more = " Separate several values with commas." if isinstance(error, UnusedCliTokensError) else ""
        _stop(f"{_first(cause, '--')}." if isinstance(cause, ValidationError) else f"{error}{more}")
    except ValidationError as error:
        _stop(f"{_first(error, '--')}.")
    except AskDaskError as error:
        _stop(str(error))
    except OSError as error:
        _stop(f"{error.filename or 'A file'}: {error.strerror or error}.")
    except KeyboardInterrupt:
        print("ask-dask: interrupted; complete stores are kept, and the same command starts again.", file=sys.stderr)
        sys.exit(130)
    sys.exit(0)


def _stop(message: str) -> None:
    print(f"ask-dask: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(1)

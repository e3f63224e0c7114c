"""The commands."""

import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError
from pydantic import ValidationError

from ask_dask import demo as demonstration
from ask_dask import steps
from ask_dask.cli.app import app
from ask_dask.cli.cluster import cluster
from ask_dask.cli.codes import WRONG
from ask_dask.cli.ingest import add_formats, ingest
from ask_dask.cli.log import LOG
from ask_dask.cli.make import make
from ask_dask.cli.run import AS_USUAL, Run, run_step, run_steps
from ask_dask.cli.words import in_lines, standing, verified
from ask_dask.errors import InputError, PrecisionWarning, ResonanceWarning
from ask_dask.steps.kernel import add_own_kernels
from ask_dask.steps.renamed import renamed_arguments

app.command(make)
app.command(ingest)
app.command(cluster)


fit_app, embed_app = App(name="fit"), App(name="embed")
app.command(fit_app)
app.command(embed_app)


@fit_app.default
def fit(*, step: Annotated[steps.Fit, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Fit AsK-LS on landmarks, or exactly; gamma and the landmark count are chosen on held-out rows."""
    run_step(step, run)


@embed_app.default
def embed(*, step: Annotated[steps.Embed, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Embed rows, or the rows and columns of a data matrix: singular vectors of a kernel matrix (KSVD), into zarr."""
    run_step(step, run)


@app.command
def predict(*, step: Annotated[steps.Predict, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Predict the rows of a dataset store, or of raw files through the model's own encoder."""
    run_step(step, run)


@app.command
def score(*, step: Annotated[steps.Score, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Score predictions against labels: AUROC, log loss, accuracy and F1; of a regression R2, RMSE and MAE."""
    run_step(step, run)


@app.command
def report(*, step: Annotated[steps.Report, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Write one self-contained HTML page about a model or an embedding."""
    run_step(step, run)


@app.command
def info(store: Path, /, *, run: Run = AS_USUAL) -> None:
    """Say what a store is: schema, arrays, kernel, who made it from what, bytes.

    Parameters
    ----------
    store
        Any store.
    """
    with run.running():
        found = steps.info(store)
    run.show(found, lambda found: "\n".join(in_lines(found)))


@app.command
def verify(store: Path, /, *, run: Run = AS_USUAL) -> None:
    """Read all of a store, and list what is damaged; the exit code is 1 if anything is.

    Parameters
    ----------
    store
        Any store.
    """
    with run.running():
        found = steps.verify(store)
    run.show(found, verified)
    if found["problems"]:
        sys.exit(WRONG)


@app.command
def status(store: Path, /, *, run: Run = AS_USUAL) -> None:
    """Say how far the job is that writes a store, or was when it stopped, and what going on would cost.

    On object storage it takes 15 seconds to see that a job is dead.

    Parameters
    ----------
    store
        The place that the job was given with --to.
    """
    with run.running():
        found = steps.status(store)
    run.show(found, standing)


@app.command(name="run")
def run_job(
    job: Path,
    /,
    *,
    overwrite: steps.Overwrite = False,
    run: Run = AS_USUAL,
) -> None:
    """Run the steps of a TOML file, skipping each whose output is already complete.

    Parameters
    ----------
    job
        A TOML file, here or at a URL, of [[step]] tables, each with do = "make", "ingest", "fit", "embed", "predict",
        "score" or "report" and that command's options, ingest with format = "criteo" (or another) and files; paths are
        relative to the file.
    """
    with run.running():
        run_steps(steps.read_job(job), overwrite, run)


@app.command
def demo(
    *,
    to: Annotated[Path, Parameter(help="Folder for everything it makes.")] = Path("ask-dask-demo"),
    rows: Annotated[int, Parameter(help="Rows of text to make, a fifth of them for testing.")] = 300_000,
    run: Run = AS_USUAL,
) -> None:
    """Make Criteo-format text and run the whole job on it: ingest, fit, predict, score, report."""
    with run.running():
        job = demonstration.make(to, rows)
        run.say(f"The job, as a file: {job} (again with: ask-dask run {job})")
        run_steps(steps.read_job(job), False, run)


def execute(arguments: list[str] | None) -> None:
    """Run the command that these arguments (by default the program's own) name; an InputError says what is wrong."""
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    arguments = _used(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] in (["fit"], ["embed"]):
        from ask_dask.cli.methods import add_methods  # only here: estimators take half of the time to load

        add_methods({"fit": fit_app, "embed": embed_app})
        arguments = _of_method(arguments, {"fit": ("askls", fit_app), "embed": ("ksvd", embed_app)}[arguments[0]])
        arguments = renamed_arguments(arguments)
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        if isinstance(error.__cause__, ValidationError):
            raise InputError(f"{steps.complaint(error.__cause__, '--')}.") from error
        more = " Separate several values with commas." if isinstance(error, UnusedCliTokensError) else ""
        raise InputError(f"{error}{more}") from error
    except ValidationError as error:
        raise InputError(f"{steps.complaint(error, '--')}.") from error


def _of_method(arguments: list[str], known: tuple[str, App]) -> list[str]:
    """Return the arguments of a command without the name of its usual method; raise InputError for an unknown name."""
    (usual, methods), name = known, next(iter(arguments[1:]), "-")
    if name == usual:
        return [arguments[0], *arguments[2:]]
    if not name.startswith("-") and name not in methods:
        names = ", ".join([usual, *sorted(key for key in methods if not key.startswith("-"))])
        raise InputError(f"There is no method {name!r} of {arguments[0]}: use one of {names}.")
    return arguments


def _used(arguments: list[str]) -> list[str]:
    """Import the modules that --use names, for the methods, kernels and formats they declare, and return the rest."""
    left, wanted, given = [], [], iter(arguments)
    for argument in given:
        name, equal, value = argument.partition("=")
        if name != "--use":
            left.append(argument)
            continue
        wanted += (value if equal else next(given, "")).split(",")
    for name in wanted:
        if not name:
            raise InputError("--use needs a Python file or a module that can be imported.")
        path = Path(name)
        if path.suffix == ".py":
            sys.path.insert(0, str(path.parent.absolute()))
        try:
            import_module(path.stem if path.suffix == ".py" else name)
        except ImportError as error:
            raise InputError(f"--use {name}: {error}. Give a Python file, or a module that can be imported.") from error
    if wanted:
        add_own_kernels()
        add_formats()
    return left


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    from sklearn.exceptions import ConvergenceWarning

    if issubclass(category, ResonanceWarning | PrecisionWarning | ConvergenceWarning):
        LOG.warning("Warning: %s", message)

"""`ask-dask ...`: arguments in, exit code and one clear line out.

Exit codes: 0 done, 1 something the user can put right (one line on stderr), 130 interrupted (SIGINT, SIGTERM).
"""

import json
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError
from pydantic import ValidationError
from sklearn.exceptions import ConvergenceWarning

from ask_dask import demo as demonstration
from ask_dask import steps
from ask_dask.budget import size
from ask_dask.cluster import running_on
from ask_dask.compute import progress_shown
from ask_dask.errors import AskDaskError, ResonanceWarning
from ask_dask.report.words import METRICS

app = App(
    name="ask-dask",
    help="Learning with asymmetric kernels, out of core: raw files to models, predictions and a report.",
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


ingest = App(
    name="ingest",
    help="Turn raw files into a dataset store. Files may be plain or compressed, paths or URLs.",
)
app.command(ingest)


@ingest.command
def criteo(*files: str, options: Annotated[steps.LogOptions, Parameter(name="*")], run: Run = Run()) -> None:
    """Click logs: label, I1..I13, C1..C26, tab separated, without a header.

    Bad rows are set aside with file, line and reason.

    Parameters
    ----------
    files
        The files, in order.
    """
    _do(steps.Ingest(format="criteo", files=list(files), **options.model_dump()), run)


@ingest.command
def avazu(*files: str, options: Annotated[steps.LogOptions, Parameter(name="*")], run: Run = Run()) -> None:
    """Click logs: CSV with the header of Avazu.

    Bad rows are set aside with file, line and reason.

    Parameters
    ----------
    files
        The files, in order.
    """
    _do(steps.Ingest(format="avazu", files=list(files), **options.model_dump()), run)


@ingest.command
def graph(*files: str, options: Annotated[steps.GraphOptions, Parameter(name="*")], run: Run = Run()) -> None:
    """A directed graph: a line "a b" is an edge a -> b, a third column its weight.

    Columns are separated by tabs, commas or spaces; lines that start with # or % are comments. An edge that is there
    twice counts once, or with the sum of its weights. The rows of the store are the labelled nodes, or all without
    labels.

    Parameters
    ----------
    files
        The edge lists.
    """
    _do(steps.IngestGraph(files=list(files), **options.model_dump()), run)


@ingest.command
def table(*files: str, options: Annotated[steps.TableOptions, Parameter(name="*")], run: Run = Run()) -> None:
    """Tables of numbers: Parquet, or text with a header, separated by commas, tabs or semicolons.

    Every column is a feature, but for labels, the weight and those dropped.

    Parameters
    ----------
    files
        The files, in order, with the same columns.
    """
    _do(steps.IngestTable(files=list(files), **options.model_dump()), run)


@ingest.command
def svmlight(*files: str, options: Annotated[steps.SvmlightOptions, Parameter(name="*")], run: Run = Run()) -> None:
    """Sparse rows as SVMLight and LIBSVM write them: a line is a label and index:value pairs, indices ascending.

    qid:number is ignored, and so is what follows a #. The rows stay sparse in the store; fit and predict read them so.

    Parameters
    ----------
    files
        The files, in order.
    """
    _do(steps.IngestSvmlight(files=list(files), **options.model_dump()), run)


@ingest.command
def samples(*files: str, options: Annotated[steps.SampleOptions, Parameter(name="*")], run: Run = Run()) -> None:
    """Samples of points: a line is an item's id and the coordinates of one of its points.

    Each item becomes a Gaussian mixture, and the store holds the divergence between each two of them.

    Parameters
    ----------
    files
        The files, in order.
    """
    _do(steps.IngestSamples(files=list(files), **options.model_dump()), run)


@app.command
def fit(*, step: Annotated[steps.Fit, Parameter(name="*")], run: Run = Run()) -> None:
    """Fit AsK-LS on landmarks, or exactly; gamma and the landmark count are chosen on held-out rows."""
    _do(step, run)


@app.command
def embed(*, step: Annotated[steps.Embed, Parameter(name="*")], run: Run = Run()) -> None:
    """Embed rows, or the rows and columns of a data matrix: singular vectors of a kernel matrix (KSVD), into zarr."""
    _do(step, run)


@app.command
def predict(*, step: Annotated[steps.Predict, Parameter(name="*")], run: Run = Run()) -> None:
    """Predict the rows of a dataset store, or of raw files through the model's own encoder."""
    _do(step, run)


@app.command
def score(*, step: Annotated[steps.Score, Parameter(name="*")], run: Run = Run()) -> None:
    """Score predictions against labels: AUROC, log loss, accuracy and F1; of a regression R2, RMSE and MAE."""
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
        A TOML file of [[step]] tables, each with do = "ingest", "fit", "embed", "predict", "score" or "report" and that
        command's options, ingest with format = "criteo" (or another) and files; paths are relative to the file.
    """
    with run.running():
        results = steps.run_job(steps.read_job(job), overwrite, run.say)
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
        results = steps.run_job(steps.read_job(job), False, run.say)
    run.show(results, lambda found: "\n".join(_words(result) for result in found if not result["skipped"]))


def _do(step: steps.Step, run: Run) -> None:
    with run.running():
        result = step.run()
    run.show(result | {"step": step.title}, _words)


def _words(result: dict[str, Any]) -> str:
    """A result in one or a few lines."""
    where = f"{result.get('path', '')}: "
    if result["step"] == "ingest":
        return f"{where}{_ingested(result)}{_cost(result)}"
    if result["step"] == "fit":
        size_of = "every row" if result["solver"]["name"] != "landmarks" else f"{result['n_landmarks']} landmarks"
        shown = [f"{METRICS[name]} {_short(result['held_out'][name])}" for name in HELD_OUT[result["task"]]]
        return f"{where}gamma {result['gamma']:g}, {size_of}, held-out {', '.join(shown)}{_cost(result)}"
    if result["step"] == "embed":
        rows, error = result["arrays"]["left"]["shape"][0], result["error"]
        near = "" if error is None else f", estimated error {max(error['left'], error['right']):.2g}"
        return f"{where}{result['n_components']} components of {rows:,} rows{near}{_cost(result)}"
    if result["step"] == "predict":
        return f"{where}{result['arrays']['score']['shape'][0]:,} rows{_cost(result)}"
    if result["step"] == "score":
        return "\n".join(f"{name:<9} {_value(result[name])}" for name in ("n", *METRICS) if name in result)
    return f"{where}{size(result['bytes'])}"


HELD_OUT = {
    "classification": ("auroc", "log_loss", "f1_micro", "f1_macro"),
    "multilabel": ("auroc", "f1_micro", "f1_macro"),
    "regression": ("r2", "rmse"),
}
"""What a fit says of itself in its one line."""


def _short(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _ingested(result: dict[str, Any]) -> str:
    rows = f"{result['n_rows']:,}"
    if result["format"] == "graph":
        counted = (
            ("nodes", "n_nodes"),
            ("edges", "n_edges"),
            ("duplicates", "duplicate_edges"),
            ("self loops", "self_loops"),
        )
        parts = [f"{result[key]:,} {name}" for name, key in counted]
        return ", ".join([*parts, f"{rows} labelled" if "y" in result["arrays"] else "no labels"])
    rejected = f", {result['rejected']['count']:,} rejected" if "rejected" in result else ""
    return f"{rows} rows x {result['n_features']} features{rejected}"


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
            yield f"{indent}{key}: {size(value) if key == 'bytes' else _listed(value)}"


def _listed(value: Any) -> Any:
    """A long list, such as residuals, as its first and last items."""
    if not (isinstance(value, list) and len(value) > MOST_LISTED):
        return value
    return f"[{', '.join(map(repr, value[:3]))}, ..., {value[-1]!r}] ({len(value)} in all)"


MOST_LISTED = 10


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, ResonanceWarning | ConvergenceWarning):
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
        _stop(f"{steps.complaint(cause, '--')}." if isinstance(cause, ValidationError) else f"{error}{more}")
    except ValidationError as error:
        _stop(f"{steps.complaint(error, '--')}.")
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

"""`ask-dask ingest FORMAT ...`: a command for each format."""

from typing import Annotated

from cyclopts import App, Parameter

from ask_dask import steps
from ask_dask.cli.run import AS_USUAL, Run, run_step

ingest = App(
    name="ingest",
    help="Turn raw files into a dataset store. Files may be plain or compressed, paths or URLs.",
)


@ingest.command
def criteo(*files: str, options: Annotated[steps.LogOptions, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Click logs: label, I1..I13, C1..C26, tab separated, without a header.

    Bad rows are set aside with file, line and reason.

    Parameters
    ----------
    files
        The files, in order.
    """
    run_step(steps.Ingest(format="criteo", files=list(files), **options.model_dump()), run)


@ingest.command
def avazu(*files: str, options: Annotated[steps.LogOptions, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Click logs: CSV with the header of Avazu.

    Bad rows are set aside with file, line and reason.

    Parameters
    ----------
    files
        The files, in order.
    """
    run_step(steps.Ingest(format="avazu", files=list(files), **options.model_dump()), run)


@ingest.command
def graph(*files: str, options: Annotated[steps.GraphOptions, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """A directed graph: a line "a b" is an edge a -> b, a third column its weight.

    Columns are separated by tabs, commas or spaces; lines that start with # or % are comments. An edge that is there
    twice counts once, or with the sum of its weights. The rows of the store are the labelled nodes, or all without
    labels.

    Parameters
    ----------
    files
        The edge lists.
    """
    run_step(steps.IngestGraph(files=list(files), **options.model_dump()), run)


@ingest.command
def table(*files: str, options: Annotated[steps.TableOptions, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Tables of numbers: Parquet, or text with a header, separated by commas, tabs or semicolons.

    Every column is a feature, but for labels, the weight and those dropped.

    Parameters
    ----------
    files
        The files, in order, with the same columns.
    """
    run_step(steps.IngestTable(files=list(files), **options.model_dump()), run)


@ingest.command
def svmlight(*files: str, options: Annotated[steps.SvmlightOptions, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Sparse rows as SVMLight and LIBSVM write them: a line is a label and index:value pairs, indices ascending.

    qid:number is ignored, and so is what follows a #. The rows stay sparse in the store; fit and predict read them so.

    Parameters
    ----------
    files
        The files, in order.
    """
    run_step(steps.IngestSvmlight(files=list(files), **options.model_dump()), run)


@ingest.command
def samples(*files: str, options: Annotated[steps.SampleOptions, Parameter(name="*")], run: Run = AS_USUAL) -> None:
    """Samples of points: a line is an item's id and the coordinates of one of its points.

    Each item becomes a Gaussian mixture, and the store holds the divergence between each two of them.

    Parameters
    ----------
    files
        The files, in order.
    """
    run_step(steps.IngestSamples(files=list(files), **options.model_dump()), run)

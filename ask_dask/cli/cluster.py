"""`ask-dask cluster ...`: what a job on many machines needs before it starts."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ask_dask.cli.app import app
from ask_dask.cluster import job_script, make_certificates
from ask_dask.errors import InputError

cluster = App(name="cluster", help="Job scripts and certificates for running on many machines.")


@cluster.command
def script(
    queue: Literal["slurm"],
    /,
    *command: str,
    nodes: Annotated[int, Parameter(help="Machines.")] = 2,
    cores: Annotated[int, Parameter(help="Cores of each machine, each a worker.")] = 8,
    memory: Annotated[str, Parameter(help="Memory of each machine.")] = "16GiB",
    time: Annotated[str, Parameter(help="Time limit, as SLURM takes it.")] = "04:00:00",
    prologue: Annotated[str, Parameter(help="A line of shell to run first, such as one that activates Python.")] = "",
) -> None:
    """Print a job script that starts a scheduler, workers and a command in one allocation; nothing is submitted.

    For example: ask-dask cluster script slurm --nodes 4 -- fit --data data.zarr --to model.zarr

    Parameters
    ----------
    queue
        The queueing system.
    command
        After --, a command of ask-dask and its options; by default: run job.toml
    """
    words = command or ("run", "job.toml")
    _check(words)
    print(job_script(words, nodes, cores, memory, time, prologue), end="")


@cluster.command
def certificates(folder: Path, /) -> None:
    """Make certificates of an authority of their own: who has them may join a cluster that was started with them.

    Parameters
    ----------
    folder
        Where ca.pem, cert.pem and key.pem go; for --tls, and for the options --tls-... of dask scheduler and worker.
    """
    make_certificates(folder)
    print(f"{folder}: ca.pem, cert.pem and key.pem, valid for a year; keep key.pem secret")


def _check(command: tuple[str, ...]) -> None:
    """Refuse, before hours in a queue, a command that would be refused after them."""

    given = sorted({word.split("=")[0] for word in command} & {"--cluster", "--tls", "--host", "--workers"})
    if given:
        raise InputError(f"The script itself gives {given[0]} to the command: leave it out.")
    if command[0].startswith("-") or command[0] not in set(app) - {"cluster"}:
        raise InputError(f"There is no command {command[0]!r}: give one of ask-dask, such as run job.toml")
    app.parse_args(list(command), exit_on_error=False, print_error=False)

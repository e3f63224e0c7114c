"""The job script of SLURM that starts a scheduler, workers and a command in one allocation."""

import re
import shlex
from collections.abc import Sequence

from dask.utils import parse_bytes

from ask_dask.errors import InputError, mask

FOR_WORKERS = 0.8
"""Share of a node's memory that its workers may take; on the first node the scheduler and the job have the rest."""
TIME = r"\d+(-\d+(:\d\d){0,2}|(:\d\d){0,2})"
"""Walltime as SLURM takes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours and so on."""


def job_script(
    command: Sequence[str] = ("run", "job.toml"),
    nodes: int = 2,
    cores: int = 8,
    memory: str = "16GiB",
    time: str = "04:00:00",
    prologue: str = "",
) -> str:
    """Text for sbatch.

    Before its time is over, or when it is pre-empted with notice, the command is told (SIGTERM), writes its checkpoint
    and ends with exit code 2; the script then puts the job back into the queue, where the same command goes on.

    Parameters
    ----------
    command : sequence of str
        A command of `ask-dask` and its options.
    nodes, cores : int
        Machines, and on each the workers of one thread.
    memory : str
        Of each machine.
    time : str
        As SLURM takes it.
    prologue : str
        A line of shell to run first, such as "module load python && source .venv/bin/activate".

    Raises
    ------
    InputError
        A number is not positive, memory or time is not written as it must be, or a URL in the command holds a secret.

    Examples
    --------
    >>> print(job_script(("fit", "--data", "a b.zarr"), nodes=4, cores=16, memory="64GiB")[:211])
    #!/usr/bin/env bash
    #SBATCH --job-name=ask-dask
    #SBATCH --nodes=4
    #SBATCH --ntasks-per-node=1
    #SBATCH --cpus-per-task=16
    #SBATCH --mem=65536M
    #SBATCH --time=04:00:00
    #SBATCH --signal=B:TERM@120
    #SBATCH --requeue
    """
    if nodes < 1 or cores < 1:
        raise InputError(f"nodes={nodes} and cores={cores} must be 1 or more.")
    if not re.fullmatch(TIME, time):
        raise InputError(f"time={time!r} must be as SLURM takes it: minutes, hours:minutes:seconds or days-hours.")
    try:
        mebibytes = int(parse_bytes(memory)) >> 20
    except ValueError as error:
        raise InputError(f"memory={memory!r} must be a size such as 16GiB.") from error
    each = int(mebibytes * FOR_WORKERS / cores)
    if each < 1:
        raise InputError(f"memory={memory!r} is too little for {cores} workers: give a size such as 16GiB.")
    for word in command:
        if mask(word) != word:
            raise InputError(f"The script would keep the secret of {word}: give credentials in environment variables.")
    return HEAD.format(
        nodes=nodes, cores=cores, memory=mebibytes, time=time, job=shlex.join(["ask-dask", *command]), each=each,
        prologue=prologue or "# source .venv/bin/activate",
    ) + BODY  # fmt: skip


HEAD = """\
#!/usr/bin/env bash
#SBATCH --job-name=ask-dask
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task={cores}
#SBATCH --mem={memory}M
#SBATCH --time={time}
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
# A scheduler, workers and the job in one allocation. Submit it from a folder that all nodes share.
set -euo pipefail

{prologue}
command=({job})
each=(--nworkers {cores} --nthreads 1 --memory-limit {each}MiB) # on each node

"""
BODY = """\
folder=$(mktemp -d "$PWD/.ask-dask-$SLURM_JOB_ID.XXXXXX") # only its owner may read it
log=$SLURM_JOB_NAME-$SLURM_JOB_ID.dask.log
clean() {
  trap '' TERM
  jobs -p | xargs -r kill 2>/dev/null || true
  wait
  rm -rf "$folder"
}
trap clean EXIT

ask-dask cluster certificates "$folder/tls" >/dev/null
with=(--tls-ca-file "$folder/tls/ca.pem" --tls-cert "$folder/tls/cert.pem" --tls-key "$folder/tls/key.pem"
  --protocol tls --scheduler-file "$folder/scheduler.json" --no-dashboard --dashboard-address 127.0.0.1:0)
DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=10 dask scheduler --port 0 "${with[@]}" >>"$log" 2>&1 &
scheduler=$!
until [ -s "$folder/scheduler.json" ]; do
  kill -0 "$scheduler" 2>/dev/null || { echo "The scheduler did not start: see $log" >&2; exit 1; }
  sleep 0.2
done

# They may start within five minutes: imports from a folder that many nodes share take a while.
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" dask worker "${with[@]}" "${each[@]}" --death-timeout 300 >>"$log" 2>&1 &
workers=$!
"${command[@]}" --cluster "$folder/scheduler.json" --tls "$folder/tls" &
job=$!
told=
trap 'told=yes; kill -TERM "$job" 2>/dev/null || true' TERM
while kill -0 "$job" 2>/dev/null; do
  wait -n || true # until one of them ends, or a signal comes
  for other in "$scheduler" "$workers"; do
    kill -0 "$other" 2>/dev/null || kill -TERM "$job" 2>/dev/null || true
  done
done
code=0
wait "$job" || code=$?
{ kill -0 "$scheduler" && kill -0 "$workers"; } 2>/dev/null ||
  echo "The scheduler or the workers ended before the job: see $log" >&2
trap - EXIT
clean
# Told to end and not cancelled: the same command goes on when its turn comes again.
if [ "$code" = 2 ] && [ -n "$told" ] && [ "$(squeue -h -j "$SLURM_JOB_ID" -o %T)" = RUNNING ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""

"""SLURM for real on this machine: munge, the controller and one node, of Debian's slurm-wlm, from a folder."""

import os
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager

CONF = """\
ClusterName=tried
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
MpiDefault=none
SchedulerParameters=batch_sched_delay=0,sched_interval=2
KillWait=10
OverTimeLimit=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=6000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def missing():
    """What SLURM needs and this machine lacks."""
    needed = [name for name in ("munged", "slurmctld", "slurmd", "sbatch", "srun") if not shutil.which(name, path=PATH)]
    return needed + ([] if os.getuid() == 0 else ["root"])


PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


@contextmanager
def slurm(folder):
    """SLURM runs inside; what it is used with: the environment of commands."""
    host, ports = socket.gethostname().split(".")[0], _free_ports(2)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=host, ports=ports, folder=folder, cpus=os.cpu_count()))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    env = os.environ | {"SLURM_CONF": str(conf), "PATH": PATH}
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    with ExitStack() as stack:
        for command in (
            ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files],
            ["slurmctld", "-D", "-c", "-f", conf],
            ["slurmd", "-D", "-c", "-f", conf],
        ):
            log = stack.enter_context(open(folder / f"{command[0]}.out", "w", encoding="utf-8"))
            process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(_end, process)
        until(lambda: "idle" in said(env, "sinfo", "-h", "-o", "%T"), 30)
        yield env


def said(env, *command):
    """What a command prints."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=30)
    return done.stdout + done.stderr


def until(true, seconds):
    """Wait for it."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.3)


def _free_ports(count):
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]


def _end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

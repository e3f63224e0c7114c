"""The files of cluster/: scripts parse, manifests and Compose follow their schemas, nightly lines run."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from commands import refused

from ask_dask.cluster import job_script
from ask_dask.errors import InputError

FILES = Path(__file__).parents[1] / "cluster"
MANIFESTS = {path.stem: path for path in (FILES / "kubernetes").glob("*.yaml")}


def checked(*command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def tool(name):
    """The path of a program beside this Python or anywhere."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return found or pytest.skip(f"{name} is not installed")


def test_the_job_script_is_the_one_that_is_printed(ask, tmp_path):
    code, out, err = ask("cluster", "script", "slurm")
    assert (code, err) == (0, "") and out == (FILES / "slurm.sbatch").read_text(encoding="utf-8") == job_script()
    checked("bash", "-n", FILES / "slurm.sbatch")
    checked(tool("shellcheck"), FILES / "slurm.sbatch")


def test_the_job_script_has_what_is_asked_for(ask):
    size = ("--nodes", 3, "--cores", 4, "--memory", "10GiB", "--time", "1-12", "--prologue", "module load python")
    code, out, _ = ask("cluster", "script", "slurm", *size, "--", "fit", "--data", "a b.zarr", "--to", "m.zarr")
    lines = out.splitlines()
    asked = ("--nodes=3", "--cpus-per-task=4", "--mem=10240M", "--time=1-12", "--signal=B:TERM@120", "--requeue")
    assert code == 0 and {f"#SBATCH {option}" for option in asked} <= set(lines)
    assert "command=(ask-dask fit --data 'a b.zarr' --to m.zarr)" in lines
    assert lines.index("module load python") < lines.index("command=(ask-dask fit --data 'a b.zarr' --to m.zarr)")
    assert "each=(--nworkers 4 --nthreads 1 --memory-limit 2048MiB) # on each node" in lines


@pytest.mark.parametrize(
    "words, said",
    [
        (["--", "fit", "--data", "d.zarr", "--to", "m.zarr", "--gamme", "1"], "Unknown option: --gamme"),
        (["--", "fit", "--data", "d.zarr"], "--to"),
        (
            ["--", "fit", "--data", "d.zarr", "--to", "m.zarr", "--cluster=tcp://a:1"],
            "The script itself gives --cluster",
        ),
        (["--", "fly"], "There is no command 'fly'"),
        (["--", "cluster", "certificates", "tls"], "There is no command 'cluster'"),
        (["--nodes", "0"], "nodes=0 and cores=8 must be 1 or more"),
        (["--memory", "much"], "memory='much' must be a size such as 16GiB"),
        (["--memory", "1MiB"], "memory='1MiB' is too little for 8 workers"),
        (["--time", "1 hour"], "time='1 hour' must be as SLURM takes it"),
    ],
)
def test_a_script_of_a_wrong_command_is_not_printed(ask, words, said):
    assert refused(ask("cluster", "script", "slurm", *words), said)


@pytest.mark.parametrize("time", ["30", "30:00", "4:00:00", "1-12", "1-12:30", "1-12:30:00"])
def test_times_as_slurm_takes_them(time):
    assert f"#SBATCH --time={time}\n" in job_script(time=time)


@pytest.mark.parametrize("time", ["", "1:2", "-5", "1-", "1h", "4:00:00\nrm -rf /"])
def test_times_that_slurm_does_not_take(time):
    with pytest.raises(InputError, match="must be as SLURM takes it"):
        job_script(time=time)


def test_jobqueue_knows_every_option():
    known = pytest.importorskip("dask_jobqueue").__path__[0]
    known = yaml.safe_load((Path(known) / "jobqueue.yaml").read_text(encoding="utf-8"))["jobqueue"]["slurm"]
    ours = yaml.safe_load((FILES / "jobqueue.yaml").read_text(encoding="utf-8"))["jobqueue"]["slurm"]
    assert set(ours) <= set(known) and ours["cores"] == ours["processes"]


def test_compose_follows_the_schema_of_compose():
    checked(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", FILES / "compose.yaml")
    services = yaml.safe_load((FILES / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert not any("ports" in service or "network_mode" in service for service in services.values())


def test_the_image_copies_what_is_there():
    text = (FILES / "Containerfile").read_text(encoding="utf-8")
    assert "pip install --no-cache-dir '/src[s3]'" in text  # its data may be on object storage
    named = [word for words in re.findall(r"^COPY (.*) \S+$", text, re.M) for word in words.split()]
    assert {"pyproject.toml", "ask_dask"} <= set(named) and all((FILES.parent / name).exists() for name in named)


def resources(name):
    """Manifests as Kubernetes itself knows them: of dask's kinds, their pods and services."""
    found = yaml.safe_load(MANIFESTS[name].read_text(encoding="utf-8"))
    if not found["kind"].startswith("Dask"):
        return [found]
    spec = found["spec"]
    cluster = spec["cluster"]["spec"] if found["kind"] == "DaskJob" else spec
    pods = [cluster["worker"]["spec"], cluster["scheduler"]["spec"], *([spec["job"]["spec"]] if "job" in spec else [])]
    named = {"metadata": {"name": found["metadata"]["name"]}, "apiVersion": "v1"}
    service = {"kind": "Service", "spec": cluster["scheduler"]["service"]}
    return [named | {"kind": "Pod", "spec": pod} for pod in pods] + [named | service]


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_follow_the_schemas_of_kubernetes(name):
    validate = pytest.importorskip("kubernetes_validate").validate
    for resource in resources(name):
        validate(resource, "1.31", strict=True)


@pytest.mark.parametrize("name", ["daskcluster", "daskjob"])
def test_dasks_kinds_follow_the_schemas_of_its_operator(name):
    """Of `pip install --no-deps dask-kubernetes`: its own dependencies are many, and not needed."""
    if not importlib.util.find_spec("dask_kubernetes"):
        pytest.skip("dask-kubernetes is not installed")
    import jsonschema

    folder = Path(importlib.util.find_spec("dask_kubernetes").origin).parent
    (file,) = folder.glob(f"operator/deployment/helm/*/crds/{name}.yaml")
    (version,) = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)["spec"]["versions"]
    schema = closed(version["schema"]["openAPIV3Schema"])
    manifest = yaml.safe_load(MANIFESTS[name].read_text(encoding="utf-8"))
    manifest = {"spec": manifest["spec"]}  # the rest is of every kind
    jsonschema.validate(manifest, schema)


def closed(schema):
    """A schema in which unknown names are errors, as `kubectl apply` has it."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(part) for name, part in schema.items()}
    known = isinstance(schema.get("properties"), dict) and "type" in schema
    return {"additionalProperties": False} | made if known else made


def test_tls_and_loopback_in_every_file():
    """Whatever starts a scheduler or a worker gives it certificates, and keeps its HTTP server at home."""
    for path in (FILES / "compose.yaml", *(MANIFESTS[name] for name in ("daskcluster", "daskjob"))):
        text = path.read_text(encoding="utf-8")
        for option in ("--tls-ca-file", "--tls-cert", "--tls-key", "--no-dashboard", "--dashboard-address"):
            assert len(re.findall(rf"{option}\b", text)) == 2, (path, option)
        assert len(re.findall(r"--dashboard-address[ =]127\.0\.0\.1:0", text)) == 2 and "tcp://" not in text


@pytest.fixture
def home(tmp_path):
    """A home folder in which ~/nightly has a job, its data, and this environment's command."""
    folder = tmp_path / "nightly"
    (folder / ".venv" / "bin").mkdir(parents=True)
    program = f"#!/bin/sh\nexec '{sys.executable}' -c 'from ask_dask.cli import main; main()' \"$@\"\n"
    (folder / ".venv" / "bin" / "ask-dask").write_text(program)
    (folder / ".venv" / "bin" / "ask-dask").chmod(0o755)
    (folder / "job.toml").write_text(
        '[[step]]\ndo = "ingest"\nformat = "table"\nfiles = ["t.csv"]\nlabel = ["y"]\nto = "data.zarr"\n'
    )
    night(folder, 0)
    return tmp_path


def night(folder, number):
    X = np.random.default_rng(number).random((50, 2)).round(4)
    (folder / "t.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{int(a > b)}\n" for a, b in X))


def assert_runs_every_night(home, run):
    """The first night makes the store, the next leaves it, and that after new data makes it again."""
    seen = []
    for changed in (False, False, True):
        if changed:
            night(home / "nightly", 1)
        run()
        seen.append((home / "nightly" / "data.zarr" / "zarr.json").read_text())
    assert seen[0] == seen[1] != seen[2]


def python_path():
    return {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}


def test_the_line_of_cron_runs(home):
    (text,) = (line for line in (FILES / "nightly" / "crontab").read_text().splitlines() if not line.startswith("#"))
    minute, hour, *days, command = text.split(" ", 5)
    assert 0 <= int(minute) < 60 and 0 <= int(hour) < 24 and days == ["*"] * 3 and "%" not in command
    bare = {"HOME": str(home), "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"} | python_path()
    assert_runs_every_night(home, lambda: checked("/bin/sh", "-c", command, env=bare))
    assert (home / "nightly" / "nightly.log").exists()
    (home / "nightly" / "job.toml").write_text("[[step]]\n")  # cron mails what is printed
    mail = subprocess.run(["/bin/sh", "-c", command], env=bare, capture_output=True, text=True, check=False).stdout
    assert mail.startswith("ask-dask: job.toml, step 1") and mail.count("\n") == 1


def test_cron_takes_the_crontab():
    """With Debian's `crontab -n`, which checks and does not install."""
    crontab = shutil.which("crontab")
    if not crontab or "-n" not in subprocess.run([crontab, "-h"], capture_output=True, text=True, check=False).stderr:
        pytest.skip("there is no crontab -n")
    checked(crontab, "-n", FILES / "nightly" / "crontab")


def test_the_service_of_systemd_runs(home):
    text = (FILES / "nightly" / "ask-dask.service").read_text().replace("%h", str(home))
    settings = dict(re.findall(r"^(\w+)=(.*)$", text, re.M))
    bare = {"HOME": str(home), "PATH": "/usr/bin:/bin"} | python_path()

    def run():
        command = shlex.split(settings["ExecStart"])
        subprocess.run(command, cwd=settings["WorkingDirectory"], env=bare, check=True, timeout=300)

    assert_runs_every_night(home, run)


def test_systemd_takes_the_timer_and_the_service(home, tmp_path):
    for name in ("ask-dask.service", "ask-dask.timer"):
        shutil.copy(FILES / "nightly" / name, tmp_path / name)
    analyze = tool("systemd-analyze")
    env = os.environ | {"HOME": str(home), "XDG_RUNTIME_DIR": str(tmp_path)}
    said = checked(analyze, "--user", "verify", tmp_path / "ask-dask.timer", tmp_path / "ask-dask.service", env=env)
    assert "ask-dask" not in said, said
    (when,) = re.findall(r"^OnCalendar=(.*)$", (tmp_path / "ask-dask.timer").read_text(), re.M)
    assert "02:15:00" in checked(analyze, "calendar", when)

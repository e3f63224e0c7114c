"""The examples of README.md run from top to bottom and print what the page shows; every option it names exists."""

import doctest
import glob
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest
from conftest import DATA

from ask_dask.cli import main
from ask_dask.cli.commands import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.M | re.S)
COMMANDS = [name for name in app if not name.startswith("-")]
GROUPS = ("make", "ingest", "cluster")
"""These have commands of their own, with their options."""
WITHIN = [f"{group} {name}" for group in GROUPS for name in app[group] if not name.startswith("-")]
PAGES = ["", *(name for name in COMMANDS if name not in GROUPS), *WITHIN]


def shell(command, folder):
    """What a command prints, in a shell where `ask-dask` and `python` are those of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path, "COLUMNS": "200", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{command}\nended with {done.returncode}:\n{done.stdout}"
    assert "Traceback" not in done.stdout, f"{command}\n{done.stdout}"
    return done.stdout


def ran(command, folder, ask):
    """What a command prints: `ask-dask` alone in this process, which spares seconds of loading, the rest in a shell."""
    words = shlex.split(command, comments=True)
    if words[0] != "ask-dask" or not {"|", ">", "&&"}.isdisjoint(words):
        return shell(command, folder)
    code, out, err = ask(*(found for word in words[1:] for found in sorted(glob.glob(word, root_dir=folder)) or [word]))
    assert code == 0, f"{command}\nended with {code}:\n{out}{err}"
    return out + err


def console(text):
    """(command, lines shown after it) of a console block; commands start with `$ ` and may go on after a backslash."""
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.M)[1:]:
        command, *shown = part.splitlines()
        yield command, [line for line in shown if line.strip()]


def masked(line):
    """A line with every number, and the unit of a size or time, made the same."""
    number = re.sub(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?([kKMGT]i?B|B|ms|s|min)\b)?", "#", line)
    return " ".join(number.split())


def python(text, namespace):
    """Run a python block; one written as a session (>>>) must also print what it shows."""
    if ">>>" not in text:
        exec(compile(text, "README.md", "exec"), namespace)
        return
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    test = doctest.DocTest(doctest.DocTestParser().get_examples(text), namespace, "README.md", "README.md", 0, text)
    result = doctest.DocTestRunner(optionflags=options).run(test, clear_globs=False)
    assert result.failed == 0, text


def test_the_examples_run_from_top_to_bottom(tmp_path, monkeypatch, ask):
    """In one folder and, for python, one namespace; a toml block is the file that its first line names.

    The sh blocks install the project and are not run here: `.ci/run` installs it. Blocks about the Cora graph are run
    where the real data are.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    if (DATA / "cora").is_dir():
        shutil.copytree(DATA / "cora", tmp_path / "cora")
    namespace = {"__name__": "__main__"}
    for language, text in FENCE.findall(README):
        if language == "toml":
            name = re.match(r"# (\S+\.toml)\b", text)
            assert name, f"the first line of a toml block must name its file, as in `# job.toml`:\n{text}"
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
        elif language == "python":
            python(text, namespace)
        elif language == "console" and ("cora/" not in text or (tmp_path / "cora").is_dir()):
            for command, shown in console(text):
                said = ran(command, tmp_path, ask)
                printed = iter([masked(line) for line in said.splitlines()])
                for line in shown:
                    assert masked(line) in printed, f"{command}\nprinted\n{said}\nbut not, in this order:\n{line}"
        elif language != "console":
            assert language == "sh" and "pip install" in text, f"this {language} block is not run by any test:\n{text}"


@cache
def help_of(command):
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as ended:
            main([*command.split(), "--help"])
    assert (ended.value.code, err.getvalue()) == (0, "")
    return out.getvalue()


def options(text):
    """Every --option in a text."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


@pytest.mark.parametrize("command", PAGES)
def test_help_has_every_option_that_the_readme_gives_a_command(command):
    text = help_of(command)
    assert f"ask-dask {command}".strip() in text
    used = re.findall(rf"ask-dask {command}\b((?:(?! -- )[^`\n#|;&])*)", README.replace("\\\n", " ")) if command else []
    assert options(" ".join(used)) <= options(text) | {"--help"}


def test_the_readme_names_only_what_exists():
    assert set(re.findall(r"(?:\$ |`)ask-dask ([a-z]+)", README)) <= set(COMMANDS)
    known = set().union(*(options(help_of(command)) for command in PAGES))
    own = re.sub(r"(?m)^ +python pipelines/.*$|`--only \w+`", "", README)  # pipelines have options of their own
    assert options(own) <= known
    files = set(re.findall(r"(?<![\w./-])(?:pipelines|tests|cluster|\.ci)/[\w./-]*\w", README))
    assert {file for file in files if not (ROOT / file).exists()} == set()


def test_the_installed_command_has_help(tmp_path):
    printed = shell("ask-dask --help", tmp_path)
    assert all(command in printed for command in COMMANDS)

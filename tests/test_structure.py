"""The shape of the repository: rooms and one-way imports, no pickles, docstrings, one version."""

import ast
import graphlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ask_dask

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ask_dask"
ROOMS = (
    "errors", "budget", "store", "sparse", "compute", "encode", "kernels", "ingest", "landmarks", "blocks", "nystrom",
    "basis", "moments", "solve", "score", "fit", "estimators", "report", "cluster", "steps", "demo", "cli",
)  # fmt: skip
"""Each room imports only itself and rooms before it."""
TOP = {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "ask_dask", "pipelines", "tests", "cluster"}
PICKLES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def names(path):
    """The dotted name of a module in parts, without `ask_dask`: ("kernels", "base")."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imported(path):
    """Line number and dotted name of everything a file imports, at any depth; relative names made absolute."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ("ask_dask", *path.relative_to(PACKAGE).parent.parts)
            above = package[: len(package) + 1 - node.level] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path):
    room = names(path)[0]
    assert room in ROOMS, f"{path} is in no room: rooms are {', '.join(ROOMS)}"
    for line, name in imported(path):
        package, *rest = name.split(".")
        if package == "ask_dask":
            other = rest[0] if rest else "ask_dask itself"
            assert other in ROOMS, f"{path}:{line} imports {name}: import from the room that has it"
            assert ROOMS.index(other) <= ROOMS.index(room), f"{path}:{line} imports {other}, a later room"


def test_no_files_import_one_another():
    """Not around any number of corners, nor where an import waits until a function is called."""
    modules = {names(path): path for path in FILES if path.name != "__init__.py"}
    graph = {path: set() for path in modules.values()}
    for path, found in graph.items():
        for _, name in imported(path):
            package, *parts = name.split(".")
            inside = [tuple(parts), tuple(parts[:-1])] if package == "ask_dask" else []
            found |= {modules[known] for known in inside if known in modules}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(str(path.relative_to(PACKAGE)) for path in error.args[1]))


def test_every_room_is_there_and_in_the_readme():
    assert {names(path)[0] for path in FILES} == set(ROOMS)
    rooms = (PACKAGE / "README.md").read_text(encoding="utf-8").partition("## The central types")[0]
    cells = re.findall(r"^\| (`.*?) \|", rooms, re.M)
    assert tuple(re.findall(r"`(\w+)(?:\.py|/)`", " ".join(cells))) == ROOMS


def test_the_top_level_holds_nothing_else():
    git = shutil.which("git")
    listed = git and subprocess.run(
        [git, "-c", "safe.directory=*", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if not listed or listed.returncode:
        pytest.skip("this is not a git checkout")
    found = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in found if not name.startswith(".")} <= TOP


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_pickled(path):
    for line, name in imported(path):
        assert not PICKLES & set(name.split(".")), f"{path}:{line} imports {name}"
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant) and node.value.value is False, f"{path}:{node.lineno}"


WITHOUT_DASK = ("kernels", "nystrom", "basis", "moments", "solve", "landmarks", "score")


@pytest.mark.parametrize("path", [p for p in FILES if names(p)[0] in WITHOUT_DASK], ids=lambda path: path.name)
def test_mathematics_is_numpy(path):
    """Tasks are made and run by `compute`; whoever sums and solves sees arrays."""
    assert not {name.split(".")[0] for _, name in imported(path)} & {"dask", "distributed"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_stored_arrays_are_opened_by_one_room(path):
    """Only `store` looks at what a stranger's array claims before it is read."""
    opening = [node.attr for node in ast.walk(ast.parse(path.read_text()))
               if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "zarr"
               and node.attr.startswith(("open", "load", "consolidate"))]  # fmt: skip
    assert not opening or path.parent == PACKAGE / "store"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_everything_public_has_a_docstring(path):
    tree = TREES[path]
    public = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
    ]
    for node in (tree, *public):
        assert ast.get_docstring(node), f"{path}:{getattr(node, 'lineno', 1)} has no docstring"


def test_the_version_is_that_of_the_installed_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == importlib.metadata.version("ask_dask")


def test_every_room_is_there_when_it_is_asked_for():
    """Before anything else is loaded; all of `__all__` too."""
    program = f"import ask_dask\nfor name in {[*ROOMS, *ask_dask.__all__]!r}: getattr(ask_dask, name)"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert set(ask_dask.__all__) < set(dir(ask_dask))
    with pytest.raises(AttributeError, match="module 'ask_dask' has no attribute 'nothing'"):
        _ = ask_dask.nothing


def test_what_is_mutated_and_the_tests_that_run_are_there():
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    named = [*found["source_paths"], *found["only_mutate"], *found["pytest_add_cli_args_test_selection"]]
    assert [pattern for pattern in named if not list(ROOT.glob(pattern))] == []

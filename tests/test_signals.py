"""Ctrl-C, SIGTERM and SIGHUP wherever they come."""

import os
import signal
import subprocess
import sys

import pytest
from commands import STOPPED, interrupted
from machines import program

from ask_dask.store.signals import undisturbed

BOTH = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(params=BOTH)
def number(request):
    """A signal, which raises InterruptedError."""

    def told(*_):
        raise InterruptedError

    former = signal.signal(request.param, told)
    yield request.param
    signal.signal(request.param, former)


def test_a_signal_waits_for_the_end(number):
    done = []
    with pytest.raises(InterruptedError), undisturbed():
        with undisturbed():
            os.kill(os.getpid(), number)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    with pytest.raises(InterruptedError):
        os.kill(os.getpid(), number)


def test_the_second_does_not_wait(number):
    done = []
    with pytest.raises(InterruptedError), undisturbed():
        os.kill(os.getpid(), number)
        done.append("first")
        os.kill(os.getpid(), number)
        done.append("second")
    assert done == ["first"]


SWALLOWED = """
import os, sys, time
from ask_dask.cli import commands, main
class Ends:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(0.01)
class HalfMade:
    def __del__(self):
        self.missing
def app(*_, **__):
    half_made = HalfMade()
    Ends()
    time.sleep(60)
commands.app = app
main()
"""
"""The command, and a signal at a place where nothing can be raised; an object that it leaves half made."""


LOADING = """
import os, sys
from ask_dask.cli import main
class Finder:
    def find_spec(name, *_):
        if name == sys.argv[2]:
            os.kill(os.getpid(), int(sys.argv[1]))
sys.meta_path.insert(0, Finder)
main()
"""
"""The command, told to stop when it loads a module."""


@pytest.mark.parametrize("number", BOTH)
@pytest.mark.parametrize("module", ["ask_dask.cli.log", "ask_dask.cli.commands", "numpy", "scipy"])
def test_while_the_command_loads(number, module):
    process = subprocess.Popen([sys.executable, "-c", LOADING, str(int(number)), module],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert interrupted(process, number, sent=True)


@pytest.mark.parametrize("number", BOTH)
def test_one_that_cannot_be_raised_comes_again(tmp_path, number):
    code = 130 if number == signal.SIGINT else 2
    assert program(tmp_path, SWALLOWED, int(number)).ended() == (code, "", STOPPED)


def test_a_terminal_that_closes_does_not_end_what_nohup_started(tmp_path):
    """SIGHUP is ignored from the start then, and stays so."""
    code = "import os, signal, time; from ask_dask.cli import commands, main\n"
    code += "def app(*_, **__):\n    os.kill(os.getpid(), signal.SIGHUP); time.sleep(0.3)\ncommands.app = app; main()"
    program = [sys.executable, "-c", code]
    how = {"capture_output": True, "cwd": tmp_path, "stdin": subprocess.DEVNULL}
    quiet, told = (subprocess.run(line, check=False, **how) for line in (["nohup", *program], program))
    assert (quiet.returncode, told.returncode) == (0, 2)

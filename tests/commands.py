"""What the tests of the command line share: how a command ends that is refused or interrupted, and what it leaves."""

import os
import signal
import sys

STOPPED = "ask-dask: stopped; complete stores and checkpoints are kept: the same command goes on.\n"

COMMAND = [sys.executable, "-c", "from ask_dask.cli import main; main()"]
"""The command in a process of its own."""


def hidden(folder):
    """Names of hidden files and folders, at any depth."""
    found = (name for _, folders, files in os.walk(folder) for name in (*folders, *files))
    return [name for name in found if name.startswith(".")]


def refused(result, message):
    """Exit code 1, nothing on stdout, one line on stderr."""
    code, out, err = result
    assert (code, out) == (1, "") and err.count("\n") == 1 and err.startswith("ask-dask: "), result
    assert message in err, err
    return True


def interrupted(process, number, sent=False):
    """Send the signal, once: exit code 2 of SIGTERM and SIGHUP, 130 of SIGINT, one line on stderr."""
    if not sent:
        process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130 if number == signal.SIGINT else 2, "")
    assert err == STOPPED, err
    return True

"""The streams, signals and last lines of a process; each test starts a separate process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from firmwright.errors import UserError
from firmwright.process import describe

FAULT = """
import sys
from firmwright.process import tell_end
try:
    {}["missing"]
except Exception as error:
    sys.exit(tell_end(error))
"""


def run(program: str, script: str = '"$@"', **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program through a shell script."""
    return subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-c", program],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_fault_is_one_line_that_names_a_log(tmp_path: Path) -> None:
    done = run(FAULT, XDG_CACHE_HOME=str(tmp_path))
    log = tmp_path / "firmwright/fault.log"
    assert done.returncode == 1
    assert done.stderr == (
        f"KeyError: 'missing': this is a fault of firmwright; please report it with {log}\n"
    )
    assert log.read_text().startswith("Traceback (most recent call last)")


def test_a_fault_with_debug_has_its_traceback(tmp_path: Path) -> None:
    begin = "from firmwright.run_log import Request, begin; begin(Request(debug=True))"
    done = run(begin + FAULT, XDG_CACHE_HOME=str(tmp_path))
    line, trace = done.stderr.split("\n", 1)
    assert line.endswith(f"please report it with {tmp_path}/firmwright/fault.log")
    assert trace.strip() == (tmp_path / "firmwright/fault.log").read_text().strip()


def test_a_fault_that_no_log_can_have_is_shown_whole() -> None:
    done = run(FAULT, XDG_CACHE_HOME="/dev/null/x")
    line, *others = done.stderr.splitlines()
    assert line.endswith("please report it (/dev/null/x/firmwright/fault.log cannot be written: "
                         "Not a directory)")  # fmt: skip
    assert others[0] == "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("x.yaml:1:1: a mistake"), "x.yaml:1:1: a mistake"),
        (MemoryError("3 GiB"), "out of memory: 3 GiB"),
        (RuntimeError("can't start new thread"), "out of memory: can't start new thread"),
        (OSError(28, "No space left on device", "x"), "x: No space left on device"),
        (BrokenPipeError(), ""),
    ],
)
def test_a_line_names_the_cause(error: Exception, line: str) -> None:
    assert describe(error) == line


OUTPUT = "from firmwright.process import open_streams; open_streams(); print('text', flush=True)"


def test_closed_streams_are_opened_before_a_file_gets_their_number(tmp_path: Path) -> None:
    program = f"{OUTPUT}; print(open({str(tmp_path / 'x')!r}, 'w').fileno() > 2)"
    done = run(program, '"$@" <&- 2>&-')
    assert (done.returncode, done.stdout) == (0, "text\nTrue\n")


def test_an_error_of_standard_output_names_it_each_time() -> None:
    program = """
import sys
from firmwright.process import open_streams, tell_end
open_streams()
try:
    try:
        print("text", flush=True)
    except OSError:
        sys.stdout.flush()
except OSError as error:
    sys.exit(tell_end(error))
"""
    done = run(program, '"$@" >/dev/full')
    assert (done.returncode, done.stderr) == (1, "standard output: No space left on device\n")


SIGNALED = """
import os, signal
from firmwright.process import catch_signals
catch_signals("; all is kept")
os.kill(os.getpid(), signal.{name})
print("goes on")
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_process_with_a_line(name: str) -> None:
    done = run(SIGNALED.format(name=name))
    assert done.returncode == 128 + signal.Signals[name]
    assert (done.stdout, done.stderr) == ("", f"ended by {name}; all is kept\n")


def test_after_nohup_a_process_goes_on() -> None:
    done = run(SIGNALED.format(name="SIGHUP"), "trap '' HUP; \"$@\"")
    assert (done.returncode, done.stdout) == (0, "goes on\n")


@pytest.mark.parametrize("command", ["list", "info build", "help"])
def test_doit_says_that_its_output_is_full(command: str, tmp_path: Path) -> None:
    (tmp_path / "dodo.py").write_text("from firmwright.tasks.dodo import *\n")
    done = subprocess.run(
        ["bash", "-c", f'"$@" {command} >/dev/full', "bash", sys.executable, "-m", "doit"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "standard output: No space left on device\n")

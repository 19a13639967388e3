"""If any process of a build is killed, all its processes end, and no process waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firmwright.cli import make_parser, to_doit_arguments

PROGRAM = """
import os, sys, time
from pathlib import Path
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain
from firmwright.pipeline.runners import install_runners

def stay(name):
    Path(name, "new").write_text(str(os.getpid()))
    Path(name, "new").rename(Path(name, "pid"))
    time.sleep(600)

def task_stay():
    for name in "ab":
        yield {"name": name, "actions": [(stay, [name])]}

install_runners()
sys.exit(DoitMain(ModuleTaskLoader({"task_stay": task_stay})).run(["run", "-n", "2"]))
"""


@contextmanager
def build(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Start two stages that last; yield the main process and the numbers of its workers."""
    for name in "ab":
        (folder / name).mkdir()
    program = folder / "program.py"  # in a file: doit reads the lines of a task's code
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, program], cwd=folder, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            files = [folder / name / "pid" for name in "ab"]
            while not all(file.exists() for file in files):
                assert process.poll() is None
                time.sleep(0.02)
            yield process, [int(file.read_text()) for file in files]
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_main_process(number: signal.Signals, tmp_path: Path) -> None:
    with build(tmp_path) as (process, _):
        process.send_signal(number)
        process.communicate(timeout=60)  # until no process has the pipe open
    assert process.returncode == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_build_ends_with_a_worker(number: signal.Signals, tmp_path: Path) -> None:
    with build(tmp_path) as (process, workers):
        os.kill(workers[0], number)
        printed, _ = process.communicate(timeout=60)
    hint = ": probably out of memory" if number == signal.SIGKILL else ""
    assert process.returncode == 1
    assert printed.splitlines()[-1] == (
        f"a process of the build ended with {number.name}{hint}; finished stages are kept"
    )


def test_one_job_needs_no_worker() -> None:
    """A crash of a model's code then ends the command itself."""
    for words, expected in ((["build", "x.yaml"], False), (["build", "x.yaml", "-n", "2"], True)):
        assert ("-n" in to_doit_arguments(make_parser().parse_args(words))) is expected

"""A program gets its input and returns its output, even if it does not read all input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from firmwright import progress
from firmwright.emulator.native_process import run_process
from firmwright.progress import BYTES, Progress

GIVEN = bytes(range(256)) * 4096
ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"


@pytest.fixture
def heard() -> Iterator[list[Progress]]:
    reports: list[Progress] = []
    progress.listen(reports.append)
    yield reports
    progress.listen(None)


def test_all_of_the_input_arrives_and_is_reported(heard: list[Progress]) -> None:
    done = run_process([sys.executable, "-c", ECHO], GIVEN, 60)
    assert (done.returncode, done.stdout) == (0, GIVEN)
    assert (heard[-1].unit, heard[-1].done, heard[-1].total) == (BYTES, len(GIVEN), len(GIVEN))


def test_a_program_may_end_before_its_input() -> None:
    done = run_process([sys.executable, "-c", "raise SystemExit(3)"], GIVEN, 60)
    assert (done.returncode, done.stdout) == (3, b"")


def test_a_program_finds_the_interpreter_of_the_build() -> None:
    show = "import os; print(os.environ['FIRMWRIGHT_PYTHON'], end='')"
    done = run_process([sys.executable, "-c", show], b"", 60)
    assert done.stdout.decode() == sys.executable


def test_a_program_that_hangs_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_process([sys.executable, "-c", "import time; time.sleep(600)"], GIVEN, 0.5)

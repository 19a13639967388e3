"""The list of rejected cases is right: a sample of ``tests.conformance.run --check``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_case_of_each_operator_has_the_outcome_of_the_list() -> None:
    command = [sys.executable, "-m", "tests.conformance.run", "--sample"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

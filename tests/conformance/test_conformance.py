"""The page of results is true."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("run.py")


def test_the_page_is_what_a_run_gives() -> None:
    done = subprocess.run([sys.executable, PROGRAM, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

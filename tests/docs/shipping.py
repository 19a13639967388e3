"""Runs the page about registries with a separate registry: ``python -m tests.docs.shipping``.

It writes the current output of the commands into the page.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.e2e.conftest import ROOT, Repository, new_repository
from tests.e2e.registry import run_registry

from .tutorial import follow

PAGE = ROOT / "docs" / "howto" / "ship-a-bundle.md"
SHOWN = "localhost:5000"
"""The registry in the page; the test uses a free port."""


def follow_page(folder: Path) -> str:
    """Return the page with the output of its commands."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    made = new_repository(folder / "maker").folder
    environment = {**os.environ, "PATH": programs, "COLUMNS": "80", "NO_PROXY": "127.0.0.1"}
    with run_registry(folder / "registry") as running:
        text = PAGE.read_text(encoding="utf-8").replace(SHOWN, running.host)
        done = follow(text, Repository(made, environment), folder)
        return done.replace(running.host, SHOWN)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        PAGE.write_text(follow_page(Path(scratch)), encoding="utf-8")

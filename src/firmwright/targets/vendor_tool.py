"""Runs a vendor's tool with a few environment variables, and keeps its whole output."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from firmwright.errors import UserError, to_printable
from firmwright.toolchain.compilers import run_captured

LOG_LINES = 12
"""The number of final log lines in the message about a failed tool."""


def run_vendor_tool(
    command: Sequence[str],
    folder: Path,
    passed: Sequence[str],
    added: Mapping[str, str],
    log: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a tool in a folder. ``stdout`` of the result also contains the tool's error output.

    The tool gets the environment variables of ``passed`` that are set, and all variables of
    ``added``. The output is also stored in ``log``. Raises UserError if the program cannot be
    started.
    """
    kept = {name: os.environ[name] for name in passed if name in os.environ}
    try:
        done = run_captured(command, folder, kept | {**added})
    except OSError as error:
        raise UserError(
            f"{command[0]} does not run: {error.strerror or error}; check its path and permissions"
        ) from None
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(to_printable(done.stdout), encoding="utf-8")
    return done


def describe_failure(tool: str, problem: str, output: str, log: Path | None = None) -> str:
    """Return a message with the end of a failed tool's output, which is stored in ``log``."""
    location = f"its log, {log}, ends with" if log else "it said"
    end = [f"  {line}" for line in output.splitlines()[-LOG_LINES:]]
    return "\n".join([f"{tool}: {problem}; {location}:", *end])

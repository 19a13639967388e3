"""Collects the records that a command of doit prints with ``--json``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from firmwright.ir.records import format_record
from firmwright.report.outcomes import CheckedLocks, Outcomes, TaskInfo

SCHEMAS = {
    Outcomes: "outcomes.schema.json",
    CheckedLocks: "locks.schema.json",
    TaskInfo: "task_info.schema.json",
}
"""The schema of each output."""


class _AnswerState:
    collected: list[Any] | None = None


def add(*records: Any) -> bool:
    """Keep records for the output. Return False if the command prints text."""
    if _AnswerState.collected is None:
        return False
    _AnswerState.collected += records
    return True


def are_wanted() -> bool:
    return _AnswerState.collected is not None


def print_json(run: Callable[[], int], join: Callable[..., Any]) -> int:
    """Run a command with its text on stderr, and print its records as JSON on stdout.

    ``join`` makes the output from the records. A command that fails before its tasks run prints no
    JSON. Return the exit code of ``run``.
    """
    _AnswerState.collected = []
    try:
        with redirect_stdout(sys.stderr):
            code = run()
        if _AnswerState.collected:
            output = join(_AnswerState.collected)
            print(format_record(output, SCHEMAS[type(output)]), end="")
    finally:
        _AnswerState.collected = None
    return code

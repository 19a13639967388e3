"""The options of the commands that run or list the tasks of recipes, for argparse."""

from __future__ import annotations

import argparse
from typing import Any

from firmwright.pipeline.command_line import SCHEDULER, UPDATE


def parse_jobs(text: str) -> str:
    """Return a number of jobs as text. Rejects 0 and less, because doit would skip the build."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, found {text!r}")
    return text


Options = dict[tuple[str, ...], dict[str, Any]]

SHOWN_OPTIONS: Options = {
    ("-v", "--verbose"): {
        "action": "store_true",
        "help": "print why each stage runs, and the command line of each program",
    },
    ("--debug",): {"action": "store_true", "help": "print the traceback of a fault of firmwright"},
    ("--log",): {"metavar": "FILE", "help": "write the output of -v and tracebacks to a file"},
}
"""Options of the commands that run stages in this process."""
BUILD_OPTIONS: Options = {
    **SHOWN_OPTIONS,
    ("-n", "--jobs"): {"type": parse_jobs, "help": "maximum number of parallel stages"},
    ("--profile",): {"action": "store_true", "help": "print the time of each stage"},
    ("--why",): {"action": "store_true", "help": "print why each stage runs"},
    ("-q", "--quiet"): {"action": "store_true", "help": "print errors only"},
}
JSON_OPTION: Options = {("--json",): {"action": "store_true", "help": "print JSON"}}
COMMAND_OPTIONS: dict[str, Options] = {
    "build": {
        **BUILD_OPTIONS,
        **JSON_OPTION,
        ("--dry-run",): {
            "action": "store_true",
            "help": "print the stages that would run, each with the reason, without running them",
        },
    },
    "graph": {
        ("--format",): {
            "choices": ("text", "mermaid", "svg"),
            "default": "text",
            "help": "text (default), mermaid or svg",
        }
    },
    "list": JSON_OPTION,
    "watch": BUILD_OPTIONS,
    "tune": {
        **SHOWN_OPTIONS,
        ("-n", "--jobs"): {"type": parse_jobs, "help": "maximum number of parallel trials"},
        (f"--{SCHEDULER}",): {
            "help": "run the trials on a dask cluster; the scheduler's address, tcp://…"
        },
    },
    "search": {
        **SHOWN_OPTIONS,
        ("-n", "--jobs"): {"type": parse_jobs, "help": "maximum number of parallel measurements"},
    },
    "export": SHOWN_OPTIONS,
    "explain": {
        **SHOWN_OPTIONS,
        ("--json",): {"action": "store_true", "help": "print JSON; for one recipe and platform"},
        ("--layer",): {
            "metavar": "LAYER",
            "help": "show the layer with this name, or number in the report, from the model to "
            "the lines of C",
        },
    },
    "lock": {
        **JSON_OPTION,
        ("--check",): {"action": "store_true", "help": "check the digests without writing"},
        (f"--{UPDATE}",): {"metavar": "KEY", "help": "update the digests of a key, such as model"},
    },
    "info": {
        **JSON_OPTION,
        ("--task",): {"default": "bundle", "help": "the name of the stage (default: bundle)"},
    },
}
"""The options of single commands for argparse."""
EXCLUSIVE = {"lock": ("--check", f"--{UPDATE}"), "build": ("--json", "--dry-run")}
"""The options of which a command accepts at most one."""

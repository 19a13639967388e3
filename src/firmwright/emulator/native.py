"""Runs the firmware of a platform with an operating system as an ordinary process."""

from __future__ import annotations

import platform as host
import subprocess
from collections.abc import Sequence

from firmwright.emulator.execution import EXIT_NO_FEATURE, EXIT_NO_INPUT, Execution, Run, time_limit
from firmwright.emulator.native_process import run_process
from firmwright.errors import UserError, describe_exit


def run_natively(run: Run) -> Execution:
    return run_program(run, (), f"native {host.machine()}")


def run_program(run: Run, launcher: Sequence[str], emulator: str) -> Execution:
    """Run the program, or ``launcher`` with the program as its last argument, to its exit."""
    path = run.firmware.path
    limit = time_limit(run.budget)
    try:
        process = run_process([*launcher, path.resolve()], run.console_input, limit)
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"{path}: the program did not exit within {limit} seconds; check custom code for an "
            "endless loop"
        ) from error
    except OSError as error:
        raise UserError(
            f"{path}: cannot run the program: {error.strerror}; choose a platform that this "
            "machine runs"
        ) from error
    if process.returncode < 0:
        name = describe_exit(process.returncode)
        raise UserError(f"{path}: the program was ended by the signal {name}; run it in a debugger")
    if process.returncode == EXIT_NO_INPUT:
        raise UserError(
            f"{path}: waiting for console input, but no input is left; check a changed main.c"
        )
    if process.returncode == EXIT_NO_FEATURE:
        raise UserError(
            f"{path}: {emulator} lacks a feature of platform {run.platform.name} "
            f"({', '.join(run.platform.features)}); choose a platform without it"
        )
    return Execution(
        emulator=emulator,
        exit_code=process.returncode,
        console=process.stdout,
    )

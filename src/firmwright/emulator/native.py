"""Runs the firmware of a host platform: an ordinary process."""

from __future__ import annotations

import platform as host
import signal
import subprocess

from firmwright.emulator.execution import EXIT_NO_INPUT, Execution, Run, time_limit
from firmwright.errors import UserError


def run_natively(run: Run) -> Execution:
    """Run the program on this machine; instructions are not counted."""
    path = run.firmware.path
    limit = time_limit(run.budget)
    try:
        process = subprocess.run(
            [path.resolve()], input=run.console_input, stdout=subprocess.PIPE, timeout=limit
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{path}: the program did not exit within {limit} seconds") from error
    except OSError as error:
        raise UserError(f"{path}: cannot run the program: {error.strerror}") from error
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise UserError(f"{path}: the program was ended by the signal {name}")
    if process.returncode == EXIT_NO_INPUT:
        raise UserError(f"{path}: waiting for console input, of which there is no more")
    return Execution(
        emulator=f"native {host.machine()}",
        exit_code=process.returncode,
        console=process.stdout,
        instructions=None,
        by_symbol={},
    )

"""Runs the firmware of a platform with an operating system as an ordinary process."""

from __future__ import annotations

import os
import platform as host
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

from firmwright.child import INTERPRETER
from firmwright.emulator.execution import EXIT_NO_FEATURE, EXIT_NO_INPUT, Execution, Run, time_limit
from firmwright.errors import UserError, describe_exit
from firmwright.progress import BYTES, report


def run_natively(run: Run) -> Execution:
    """Run the program on this machine; instructions are not counted."""
    return run_program(run, (), f"native {host.machine()}")


def run_program(run: Run, launcher: Sequence[str], emulator: str) -> Execution:
    """Run the program, or ``launcher`` with the program as its last argument, to its exit."""
    path = run.firmware.path
    limit = time_limit(run.budget)
    try:
        process = run_process([*launcher, path.resolve()], run.console_input, limit)
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"{path}: the program did not exit within {limit} seconds; check custom code for a "
            "loop without an end"
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


CHUNK = 4096
"""The number of bytes that one write passes to the program."""


def run_process(
    command: Sequence[str | Path], given: bytes, limit: float, stderr: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a program with this input. Raises TimeoutExpired after ``limit`` seconds.

    ``stderr`` is the argument of this name of :class:`subprocess.Popen`. The environment variable
    ``FIRMWRIGHT_PYTHON`` has the path of this interpreter, for simulators that are Python packages.
    """
    environment = {**os.environ, "FIRMWRIGHT_PYTHON": INTERPRETER}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment
    ) as process:
        # The process must not have this stream, because communicate() would close it.
        stdin, process.stdin = process.stdin, None
        assert stdin is not None
        feeder = Thread(target=feed, args=(stdin, given), daemon=True)
        feeder.start()
        try:
            output, errors = process.communicate(timeout=limit)
        except BaseException:
            process.kill()
            raise
        feeder.join()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def feed(stream: IO[bytes], given: bytes) -> None:
    """Write all bytes to the stream; ignore a stream that the program has closed."""
    with suppress(BrokenPipeError), stream:
        for start in range(0, len(given), CHUNK):
            stream.write(given[start : start + CHUNK])
            report(BYTES, min(start + CHUNK, len(given)), len(given))

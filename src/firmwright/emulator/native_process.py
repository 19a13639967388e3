"""Runs a program that reads its samples from standard input, and reports the progress in bytes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

from firmwright.child import INTERPRETER
from firmwright.progress import BYTES, report

CHUNK = 4096
"""The number of bytes per write to the program."""


def run_process(
    command: Sequence[str | Path], given: bytes, limit: float, stderr: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a program with this input. Raises TimeoutExpired after ``limit`` seconds.

    The environment variable ``FIRMWRIGHT_PYTHON`` has the path of this interpreter, for simulators
    that are Python packages.
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
    """Write all bytes to the stream, and ignore an error if the program closed the stream."""
    with suppress(BrokenPipeError), stream:
        for start in range(0, len(given), CHUNK):
            stream.write(given[start : start + CHUNK])
            report(BYTES, min(start + CHUNK, len(given)), len(given))

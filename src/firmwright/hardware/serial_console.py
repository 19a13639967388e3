"""Exchanges data with a firmware over a serial line, which may be noisy, slow or silent."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from firmwright.errors import UserError
from firmwright.hardware.access import SerialPort

if TYPE_CHECKING:
    from serial import Serial

DONE = b"@done"
ENDS = (b"@status", b"@trap")
"""The start of the line that a firmware prints if it ends early."""
ANSWER = re.compile(rb"@output \d+ \d+ (?:[0-9a-f]{2})*|@cycles \d+ \d+ \d+")
"""A line that answers a sample (``templates/application/main.c.j2``)."""


class SerialConsole:
    """An open port. Raises UserError if the port cannot be opened or the connection breaks."""

    def __init__(self, port: SerialPort, patience: float) -> None:
        self._port, self._patience = port, patience
        self._line: Serial = open_port(port)
        self._rest = b""

    def __enter__(self) -> SerialConsole:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.close()

    def exchange(self, samples: Sequence[Sequence[bytes]], outputs: Sequence[int]) -> list[bytes]:
        """Send the parts of each sample one by one. Return the lines of the answers.

        Each part is sent after the answer to the previous part, because the firmware would lose
        earlier bytes. ``outputs`` has the number of lines in the answer to each part. Lines of an
        answer begin with ``@``. All other lines are noise. Raises UserError if the board stops
        answering.
        """
        lines: list[bytes] = []
        self._line.reset_input_buffer()
        self._write(len(samples).to_bytes(4, "little"))
        for number, sample in enumerate(samples):
            for part, answers in zip(sample, outputs, strict=True):
                self._write(part)
                for _ in range(answers):
                    lines.append(self._read_answer(f"sample {number}"))
                    if lines[-1].startswith(ENDS):
                        return lines
        while not lines[-1].startswith((DONE, *ENDS)):
            lines.append(self._read_answer("the last sample"))
        return lines

    def _read_answer(self, what: str) -> bytes:
        """Return the next line of an answer. Raises UserError if the line contains noise."""
        while not (line := self._read_line(what)).startswith(b"@"):
            pass
        if line.startswith((b"@output", b"@cycles")) and not ANSWER.fullmatch(line):
            raise UserError(
                f"{self._port.port}: noise in the answer to {what}: {line[:60]!r}; check the "
                "cable and `baud`"
            )
        return line

    def _read_line(self, what: str) -> bytes:
        deadline = time.monotonic() + self._patience
        while b"\n" not in self._rest:
            if time.monotonic() > deadline:
                half = f"; it began with {self._rest[:40]!r}" if self._rest else ""
                raise UserError(
                    f"{self._port.port}: no answer to {what} in {self._patience:g} s{half}; "
                    "check the board, the cable and `baud`, or raise `patience`"
                )
            self._rest += self._read()
        line, _, self._rest = self._rest.partition(b"\n")
        return line.strip(b"\r\0 ")

    def _read(self) -> bytes:
        from serial import SerialException

        try:
            return bytes(self._line.read(max(1, self._line.in_waiting)))
        except (OSError, SerialException) as error:
            raise UserError(
                f"{self._port.port}: the connection was lost: {error}; check the cable"
            ) from None

    def _write(self, data: bytes) -> None:
        from serial import SerialException

        try:
            self._line.write(data)
        except (OSError, SerialException) as error:
            raise UserError(f"{self._port.port}: cannot write: {error}") from None


def open_port(port: SerialPort) -> Serial:
    try:
        from serial import SerialException, serial_for_url
    except ImportError:
        raise UserError(
            "a serial console needs pyserial: pip install 'firmwright[boards]'"
        ) from None
    try:
        return serial_for_url(port.port, port.baud, timeout=0.2)
    except (OSError, ValueError, SerialException) as error:
        raise UserError(
            f"{port.port}: cannot be opened: {error}; check the port's name and its permissions"
        ) from None

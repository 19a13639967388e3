"""Emulates any chip with a Cortex-M whose console is a debugger, with Arm semihosting.

The operations are from Arm's Semihosting for AArch32 and AArch64. The chip has the memories of the
platform, and no other devices.
"""

from __future__ import annotations

from collections.abc import Callable

from firmwright.emulator.console import Console
from firmwright.emulator.cortex_m import CortexM
from firmwright.emulator.execution import Run
from firmwright.emulator.machine import Stop

_OPEN = 0x01
_WRITE = 0x05
_READ = 0x06
_CONSOLE = 1


class CortexMDebugger(CortexM):
    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        super().__init__(run, console, stop)
        self.operations = {_OPEN: lambda: _CONSOLE, _WRITE: self._write, _READ: self._read}

    def _write(self) -> int:
        """Write to the console, and return 0, the number of bytes that were not written."""
        _, address, length = self.read_words(3)
        for byte in self.engine.mem_read(address, length):
            self.console.write(byte)
        return 0

    def _read(self) -> int:
        """Read from the console, and return the number of requested bytes that are not
        available."""
        _, address, length = self.read_words(3)
        data = bytearray()
        while len(data) < length and self.console.has_input:
            data.append(self.console.read())
        self.engine.mem_write(address, bytes(data))
        return length - len(data)

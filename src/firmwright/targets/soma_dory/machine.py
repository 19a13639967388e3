"""DIANA as far as firmware sees it: the core and console of ``virt``, accelerator and clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firmwright.emulator.console import Console
from firmwright.emulator.execution import Run
from firmwright.emulator.machine import Stop
from firmwright.emulator.qemu_virt_rv32 import QemuVirtRv32
from firmwright.targets.soma_dory.emulated_device import SomaDevice

_CLOCK = 0x1A500000
_CLOCK_SIZE = 0x1000


class Diana(QemuVirtRv32):
    """The machine, and the state of its devices."""

    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        super().__init__(run, console, stop)
        self.accelerator = SomaDevice(self.engine, run, stop)
        self.engine.mmio_map(_CLOCK, _CLOCK_SIZE, self._read_clock, None, None, None)

    def _read_clock(self, _engine: Any, offset: int, _size: int, _data: Any) -> int:
        """One cycle an instruction, and what the accelerator's jobs take, for the core waits."""
        now = self.count_instructions() + self.accelerator.cycles
        return now >> 32 if offset & 4 else now & 0xFFFFFFFF

"""DIANA as far as firmware sees it: the core and console of ``virt``, and the accelerator."""

from __future__ import annotations

from collections.abc import Callable

from firmwright.emulator.console import Console
from firmwright.emulator.execution import Run
from firmwright.emulator.machines.machine import Stop
from firmwright.emulator.machines.qemu_virt_rv32 import QemuVirtRv32
from firmwright.emulator.soma_device import SomaDevice


class Diana(QemuVirtRv32):
    """The machine, and the state of its devices."""

    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        super().__init__(run, console, stop)
        self.accelerator = SomaDevice(self.engine, run, stop)

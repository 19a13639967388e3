"""The machines that the unicorn emulator can stand in for, one module a board."""

from __future__ import annotations

from firmwright.emulator.machines.diana import Diana
from firmwright.emulator.machines.machine import Machine, Stop
from firmwright.emulator.machines.mps2_an386 import Mps2An386
from firmwright.emulator.machines.qemu_virt_rv32 import QemuVirtRv32

# Keys are the folders of templates/boards/.
MACHINES: dict[str, type[Machine]] = {
    "diana": Diana,
    "mps2-an386": Mps2An386,
    "qemu-virt-rv32": QemuVirtRv32,
}

__all__ = ["MACHINES", "Machine", "Stop"]

"""The machines that the unicorn emulator can stand in for, one module a board."""

from __future__ import annotations

from collections.abc import Iterable
from pkgutil import resolve_name

from firmwright.emulator.machines.machine import Machine, Stop
from firmwright.emulator.machines.mps2_an386 import Mps2An386
from firmwright.emulator.machines.qemu_virt_rv32 import QemuVirtRv32
from firmwright.targets import load_target, target_names

__all__ = ["Machine", "Stop", "find_machines"]

# Keys are the folders of templates/boards/.
MACHINES: dict[str, type[Machine]] = {
    "mps2-an386": Mps2An386,
    "qemu-virt-rv32": QemuVirtRv32,
}


def find_machines(accelerators: Iterable[str]) -> dict[str, type[Machine]]:
    """Return the machines by board, with those that a platform's accelerators bring along."""
    installed = sorted({*accelerators} & {*target_names()})
    return MACHINES | {
        board: resolve_name(reference)
        for name in installed
        for board, reference in load_target(name).machines.items()
    }

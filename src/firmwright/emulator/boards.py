"""The boards that unicorn emulates, each by its machine."""

from __future__ import annotations

from collections.abc import Iterable
from pkgutil import resolve_name

from firmwright.emulator.machine import Machine
from firmwright.emulator.mps2_an386 import Mps2An386
from firmwright.emulator.qemu_virt_rv32 import QemuVirtRv32
from firmwright.targets import load_target, target_names

MACHINES: dict[str, type[Machine]] = {
    "mps2-an386": Mps2An386,
    "qemu-virt-rv32": QemuVirtRv32,
}
"""Machines by board; a board is a folder of ``templates/boards``."""


def find_machines(accelerators: Iterable[str]) -> dict[str, type[Machine]]:
    """Return the machines by board, with those of a platform's accelerators."""
    installed = sorted({*accelerators} & {*target_names()})
    return MACHINES | {
        board: resolve_name(reference)
        for name in installed
        for board, reference in load_target(name).machines.items()
    }

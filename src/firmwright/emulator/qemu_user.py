"""Runs a Linux program of another processor in QEMU's user mode: its system calls are ours."""

from __future__ import annotations

from firmwright.emulator.execution import Execution, Run
from firmwright.emulator.native import run_program
from firmwright.emulator.qemu import find_qemu, read_qemu_version


def run_in_qemu_user(run: Run) -> Execution:
    """Run the program in QEMU; instructions are not counted."""
    qemu, program = find_qemu(run.platform)
    return run_program(run, (program, *qemu.arguments), f"qemu-user {read_qemu_version(program)}")

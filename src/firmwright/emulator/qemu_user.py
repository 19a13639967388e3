"""Runs a Linux program of another processor in QEMU's user mode: its system calls are ours."""

from __future__ import annotations

from firmwright.emulator.execution import Execution, Run
from firmwright.emulator.native import run_program
from firmwright.emulator.qemu import qemu_program, qemu_version


def run_in_qemu_user(run: Run) -> Execution:
    """Run the program in QEMU; instructions are not counted."""
    qemu, program = qemu_program(run.platform)
    return run_program(run, (program, *qemu.arguments), f"qemu-user {qemu_version(program)}")

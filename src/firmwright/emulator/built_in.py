"""Defines the built-in emulators: this machine, the package unicorn, and the programs of QEMU.

An up-to-date build does not need the modules that run firmware. Therefore they are imported late.
"""

from __future__ import annotations

from shutil import which

from firmwright.emulator.execution import Emulator, Execution, Run
from firmwright.plugins import read_version
from firmwright.toolchain import Platform
from firmwright.toolchain.opened_files import OpenedFiles


class Native(Emulator):
    """This machine, for programs of its operating system."""

    def run(self, run: Run, /) -> Execution:
        from firmwright.emulator.native import run_natively

        return run_natively(run)


class Unicorn(Emulator):
    """The package unicorn, with firmwright's machine for each board."""

    def run(self, run: Run, /) -> Execution:
        from firmwright.emulator.unicorn_emulator import run_in_unicorn

        return run_in_unicorn(run)

    def find_version(self, _platform: Platform, /) -> str:
        return read_version("unicorn")

    def find_files(self, _platform: Platform, /) -> OpenedFiles:
        return OpenedFiles((), facts=(read_version("unicorn"),))

    def counts_instructions(self, _platform: Platform, /) -> bool:
        return True

    def counts_cycles(self, platform: Platform, /) -> bool:
        return platform.cycles is not None


class QemuUser(Emulator):
    """QEMU for programs of Linux, which counts instructions only of programs with symbols."""

    def run(self, run: Run, /) -> Execution:
        from firmwright.emulator.qemu import run_in_qemu_user

        return run_in_qemu_user(run)

    def find_version(self, platform: Platform, /) -> str:
        from firmwright.emulator.qemu import find_qemu, read_qemu_version

        return read_qemu_version(find_qemu(platform)[1])

    def explain_unusable(self, platform: Platform, /) -> str:
        if platform.qemu is None or which(platform.qemu.program):
            return ""
        from firmwright.emulator.qemu import explain_missing_qemu

        return explain_missing_qemu(platform.qemu, platform)

    def find_files(self, platform: Platform, /) -> OpenedFiles | None:
        program = which(platform.qemu.program) if platform.qemu else None
        return OpenedFiles((program,)) if program else None


class Qemu(QemuUser):
    """QEMU for firmware, which counts instructions if it has plugins."""

    def run(self, run: Run, /) -> Execution:
        from firmwright.emulator.qemu import run_in_qemu

        return run_in_qemu(run)

    def counts_instructions(self, platform: Platform, /) -> bool:
        program = which(platform.qemu.program) if platform.qemu else None
        from firmwright.emulator.qemu import takes_plugins

        return program is not None and takes_plugins(program)


NATIVE, QEMU, QEMU_USER, UNICORN = Native(), Qemu(), QemuUser(), Unicorn()

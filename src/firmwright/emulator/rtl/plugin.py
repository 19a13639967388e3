"""Defines the emulators: their requirements, and the platforms that they support."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from shutil import which

from firmwright.emulator.execution import Emulator, Execution, Run
from firmwright.emulator.rtl import cores
from firmwright.emulator.rtl.cores import IN_UNICORN, RtlCore
from firmwright.emulator.rtl.simulator import ask, list_rtl, read_verilator_version
from firmwright.errors import UserError
from firmwright.toolchain import Platform
from firmwright.toolchain.boards import load_board
from firmwright.toolchain.opened_files import OpenedFiles

PROGRAMS = ("verilator", "g++", "make")
"""The programs that build the simulator. Their Debian packages have equal names."""

MACHINE = "qemu-virt-rv32"
"""The machine whose devices the simulator has, by its name in descriptions of boards."""


class RtlEmulator(Emulator):
    """The RTL of a core in Verilator, with the devices of QEMU's machine ``virt``."""

    def __init__(self, core: RtlCore) -> None:
        self.core = core

    def run(self, run: Run, /) -> Execution:
        """Run the firmware in unicorn, which explains every fault, and then on the RTL.

        If unicorn does not support the architecture, only the RTL runs the firmware.
        """
        if unusable := self.explain_unusable(run.platform):
            raise UserError(unusable)
        from firmwright.emulator.rtl.simulation import simulate
        from firmwright.emulator.unicorn_emulator import run_in_unicorn

        known = run_in_unicorn(run) if run.platform.architecture in IN_UNICORN else None
        return simulate(self.core, run, known, self.find_version(run.platform))

    def find_version(self, platform: Platform, /) -> str:
        if unusable := self.explain_unusable(platform):
            raise UserError(unusable)
        ask("g++", "--version")  # raises an error if the compiler does not work
        return f"{version(self.core.package)}, Verilator {read_verilator_version()}"

    def explain_unusable(self, platform: Platform, /) -> str:
        wrong = find_other_core(self.core, platform)
        if wrong:
            return f"platform {platform.name}: the emulator '{self.core.emulator}' {wrong}"
        try:
            version(self.core.package)
        except PackageNotFoundError:
            return (
                f"the package {self.core.package} is not installed; install it: "
                "python -m pip install 'firmwright[rtl]'"
            )
        missing = [program for program in PROGRAMS if which(program) is None]
        if not missing:
            return ""
        listed = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        return f"{listed}; install the programs: apt-get install {' '.join(missing)}"

    def find_files(self, platform: Platform, /) -> OpenedFiles | None:
        if self.explain_unusable(platform):
            return None
        programs = ("verilator", "verilator_bin", "g++")
        files = [path for path in map(which, programs) if path is not None]
        rtl = map(str, list_rtl(self.core))
        facts = (version(self.core.package), version("unicorn"))
        return OpenedFiles((*files, *rtl), facts=facts)

    def counts_instructions(self, _platform: Platform, /) -> bool:
        return True

    def counts_cycles(self, _platform: Platform, /) -> bool:
        return True


def find_other_core(core: RtlCore, platform: Platform) -> str:
    """Return the reason why a platform's core or devices are not supported, or ''."""
    if platform.architecture not in core.parameters:
        known = ", ".join(f"'{name}'" for name in core.parameters)
        return f"runs {known}, not '{platform.architecture}'; choose another emulator"
    if load_board(platform.board).machine != MACHINE:
        return (
            f"has the devices of the machine '{MACHINE}', which the board '{platform.board}' does "
            "not name; choose another emulator"
        )
    if platform.accelerators:
        return f"has no {' or '.join(platform.accelerators)}; choose another emulator"
    return ""


CV32E40P, IBEX, PICORV32 = (
    RtlEmulator(core) for core in (cores.CV32E40P, cores.IBEX, cores.PICORV32)
)

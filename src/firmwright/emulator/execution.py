"""Defines the interface of emulators: the run to execute, and its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firmwright.toolchain import Platform
from firmwright.toolchain.opened_files import OpenedFiles

if TYPE_CHECKING:
    from firmwright.emulator.loaded_firmware import Firmware

# Exit codes of the board code. The firmware's definitions are in templates/runtime/fw_hal.h.
EXIT_TRAP = 120
EXIT_NO_INPUT = 121
EXIT_NO_FEATURE = 122


@dataclass(frozen=True)
class Run:
    """One run of a firmware: the program, its input, and its limits."""

    firmware: Firmware
    platform: Platform
    console_input: bytes
    counted: str  # the function whose instructions are counted
    parts: tuple[str, ...]  # functions that ``counted`` calls, in order
    budget: int  # instructions, from start-up to exit


@dataclass(frozen=True)
class ClockCycles:
    """The clock cycles of the counted function, callees included, summed over all calls.

    ``source`` is the method that determines the cycles, such as ``by the table of Cortex-M4`` or
    ``in the RTL of CV32E40P``. ``by_part`` has the cycles of each part's calls. ``by_part`` may be
    empty only if the emulator does not count instructions. ``by_symbol`` divides ``total`` among
    the executed functions. ``stalls`` are the cycles in which no instruction retired, by kind. If
    the emulator does not provide ``by_symbol`` or ``stalls``, the mapping is empty.
    """

    source: str
    total: int
    by_part: tuple[int, ...] = ()
    by_symbol: Mapping[str, int] = field(default_factory=dict)
    stalls: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Execution:
    """The result of a run.

    ``instructions`` are the instructions between the entry into the counted function and its
    return, callees included, summed over all calls. ``instructions`` is None if the emulator cannot
    count. ``by_symbol`` divides this number among the executed functions. ``by_part`` has the
    instructions of each part's calls, callees included, in the order of the parts.

    ``cycles`` are the clock cycles of these instructions, or None if the emulator does not count
    cycles. ``notes`` are sentences for the user, such as the reason of a long start.
    """

    emulator: str  # with version, as in "unicorn 2.1.4"
    exit_code: int  # 0..255
    console: bytes
    instructions: int | None = None
    by_symbol: Mapping[str, int] = field(default_factory=dict)
    by_part: tuple[int, ...] = ()
    cycles: ClockCycles | None = None
    notes: tuple[str, ...] = ()


class Emulator(ABC):
    """A plug-in that runs firmware, registered in the entry-point group ``firmwright.emulators``.

    A build that names the emulator imports the plug-in's module, even if the build is up to date.
    Therefore the module should import other modules late.
    """

    @abstractmethod
    def run(self, run: Run, /) -> Execution:
        """Run the firmware to its exit.

        Raises UserError if the firmware causes a fault or does not exit, or if a program is
        missing.
        """

    def find_version(self, _platform: Platform, /) -> str | None:
        """Return the version for a lock, or None if this machine's processor is the emulator.

        Raises UserError if the emulator is not installed.
        """
        return None

    def explain_unusable(self, _platform: Platform, /) -> str:
        """Return the reason why the emulator cannot run the platform's firmware, and a remedy, or
        ''.

        This method does not start a program, because up-to-date builds also call it.
        """
        return ""

    def find_files(self, _platform: Platform, /) -> OpenedFiles | None:
        """Return the files and facts that affect results, or None if the emulator is missing."""
        return None

    def counts_instructions(self, _platform: Platform, /) -> bool:
        """Return whether the emulator counts the instructions of every firmware of the platform."""
        return False

    def counts_cycles(self, _platform: Platform, /) -> bool:
        """Return whether the emulator counts the clock cycles of every firmware of the platform."""
        return False


def time_limit(budget: int) -> int:
    """Return the seconds to wait for an emulator that cannot stop at a number of instructions.

    Every such emulator executes more than twenty million instructions per second. The limit
    includes one minute for the start.
    """
    return 60 + budget // 20_000_000

"""Defines the input and the result of every emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from firmwright.emulator.image import Firmware
from firmwright.toolchain import Platform

# Exit codes of the board code; the firmware's definitions are in templates/runtime/fw_hal.h.
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
    parts: tuple[str, ...]  # functions that it calls, in this order, each counted with callees
    budget: int  # instructions, from start-up to exit


@dataclass(frozen=True)
class Execution:
    """The result of a run.

    ``instructions`` are the instructions executed between the entry into the counted function and
    its return, callees included, summed over all calls. It is None if the emulator cannot count.
    ``by_symbol`` divides this number among the functions whose code was executed. ``by_part`` has
    the instructions of each part's calls, callees included, in the order of the parts.

    ``cycles`` are the clock cycles of these instructions by the platform's cycle table, and
    ``cycles_by_part`` the cycles of the parts. They are None, and empty, without a table or if the
    emulator cannot apply it.
    """

    emulator: str  # with version, as in "unicorn 2.1.4"
    exit_code: int  # 0..255
    console: bytes
    instructions: int | None = None
    by_symbol: Mapping[str, int] = field(default_factory=dict)
    by_part: tuple[int, ...] = ()
    cycles: int | None = None
    cycles_by_part: tuple[int, ...] = ()


class Emulator(Protocol):
    """A function that runs a firmware."""

    def __call__(self, run: Run) -> Execution:
        """Run the firmware to its exit.

        Raises UserError for a fault, a missing program, and a firmware that does not exit.
        """


def time_limit(budget: int) -> int:
    """Return the seconds to wait for an emulator that counts no instructions.

    Every such emulator executes more than twenty million instructions per second. One minute is for
    the start.
    """
    return 60 + budget // 20_000_000

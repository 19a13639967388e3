"""The input and the result of every emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from firmwright.emulator.image import Firmware
from firmwright.toolchain import Platform

# Exit codes of the board code; defined for the firmware in templates/runtime/fw_hal.h.
EXIT_TRAP = 120
EXIT_NO_INPUT = 121
EXIT_NO_FEATURE = 122


@dataclass(frozen=True)
class Run:
    """One run of a firmware: what to execute, on which input, within which limits."""

    firmware: Firmware
    platform: Platform
    console_input: bytes
    counted: str  # the function whose instructions are counted
    parts: tuple[str, ...]  # functions that it calls, in this order, each counted with callees
    budget: int  # instructions, from start-up to exit


@dataclass(frozen=True)
class Execution:
    """How a run went.

    ``instructions`` are those executed between entry into the counted function and its
    return, callees included, summed over all calls; None if the emulator cannot count.
    ``by_symbol`` splits the same number over the functions whose code was executed;
    ``by_part`` gives the share of each part's calls, callees included, in the order of the parts.
    """

    emulator: str  # with version, as in "unicorn 2.1.4"
    exit_code: int  # 0..255
    console: bytes
    instructions: int | None = None
    by_symbol: Mapping[str, int] = field(default_factory=dict)
    by_part: tuple[int, ...] = ()


class Emulator(Protocol):
    """Something that can run a firmware."""

    def __call__(self, run: Run) -> Execution:
        """Run it to its exit; raises UserError for a fault, a missing program, no exit."""


def time_limit(budget: int) -> int:
    """Return seconds to wait for an emulator that counts no instructions.

    Twenty million instructions a second is slower than any of them; a minute is for the start.
    """
    return 60 + budget // 20_000_000

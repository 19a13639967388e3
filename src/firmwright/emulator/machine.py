"""Defines a machine of the unicorn emulator: its processor, devices and reasons to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from firmwright.emulator.console import Console
from firmwright.emulator.execution import Run
from firmwright.emulator.typed_unicorn import Engine


@dataclass(frozen=True)
class Stop:
    """The reason why the machine stops: an exit code (0..255), or a description of a fault.

    ``address`` is the address of the instruction. ``address`` is None for an access to a device,
    because unicorn updates the program counter only after the stop.
    """

    exit_code: int = 0
    fault: str = ""
    address: int | None = None


class Machine(Protocol):
    """One board. Its devices call ``stop`` when the firmware ends or cannot continue."""

    thumb: bool
    program_counter: int  # unicorn's numbers of these registers
    stack_register: int
    link_register: int
    engine: Engine
    count_instructions: Callable[[], int]  # instructions since start-up, which the counter sets
    read_clock: Callable[[], int]  # cycles since start-up; 0 without a counter

    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        """Create the processor, and map the devices."""

    def reset(self, start: int) -> int:
        """Set the registers as after a reset, and return the address of the first instruction.

        ``start`` is the address of the vector table in flash, or the firmware's entry if the
        platform has no flash.
        """

    def explain_exception(self, number: int) -> Stop | None:
        """Return the reason to stop for the processor exception ``number`` of unicorn.

        The result is None if the machine handles the exception and continues.
        """

"""A machine of the unicorn emulator: a processor, its devices, its way to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from firmwright.emulator.console import Console
from firmwright.emulator.engine import Engine
from firmwright.emulator.execution import Run


@dataclass(frozen=True)
class Stop:
    """Why the machine stops: an exit code (0..255), or a fault in words.

    ``address`` is that of the instruction; None for an access to a device, in the middle of
    which unicorn does not know: its program counter is right once it has stopped.
    """

    exit_code: int = 0
    fault: str = ""
    address: int | None = None


class Machine(Protocol):
    """One board. ``stop`` is called by its devices when the firmware ends or can't go on."""

    thumb: bool
    program_counter: int  # unicorn's numbers of these registers
    stack_register: int
    link_register: int
    engine: Engine
    count_instructions: Callable[[], int]  # instructions since start-up; set by the counter

    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        """Create the processor and map the devices."""

    def reset(self, start: int) -> int:
        """Set the registers as after a reset; return the address where execution begins.

        ``start`` is the first address of flash; without one, the firmware's entry.
        """

    def explain_exception(self, number: int) -> Stop:
        """Return what the processor exception ``number`` of unicorn means."""

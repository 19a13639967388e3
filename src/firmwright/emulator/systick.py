"""Emulates SysTick, the timer of a Cortex-M core, as the Armv6-M reference manual describes it.

The emulated core has no asynchronous interrupts. Before the program reads the timer, the emulator
calls the handler once for each overflow since the last read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unicorn.arm_const import UC_ARM_REG_LR

from firmwright.emulator.typed_unicorn import Engine

SYSTICK_PAGE = 0xE000E000
_CONTROL, _RELOAD, _VALUE = 0x10, 0x14, 0x18
_ENABLED, _INTERRUPTS = 1, 2
_VECTOR = 15 * 4


class SysTick:
    """The timer and the other registers of its page, which are plain memory."""

    def __init__(self, engine: Engine, read_clock: Callable[[], int]) -> None:
        self._engine = engine
        self._read_clock = read_clock
        self._registers: dict[int, int] = {}
        self.vectors = 0  # the address of the vector table
        self._start = 0  # the clock at the start of the timer
        self._overflows = 0

    def read(self, _engine: Any, offset: int, _size: int, _data: Any) -> int:
        if offset != _VALUE or not self._registers.get(_CONTROL, 0) & _ENABLED:
            return self._registers.get(offset, 0)
        period = self._registers.get(_RELOAD, 0) + 1
        overflows, passed = divmod(self._read_clock() - self._start, period)
        while self._overflows < overflows:
            self._overflows += 1
            if self._registers[_CONTROL] & _INTERRUPTS:
                self._call_handler()
        return period - 1 - passed

    def write(self, _engine: Any, offset: int, _size: int, value: int, _data: Any) -> None:
        self._registers[offset] = 0 if offset == _VALUE else value
        if offset in (_CONTROL, _VALUE):
            self._start, self._overflows = self._read_clock(), 0

    def _call_handler(self) -> None:
        """Run the handler until it returns, here to the vector table, which contains no code."""
        state = self._engine.context_save()
        self._engine.reg_write(UC_ARM_REG_LR, self.vectors | 1)
        handler = int.from_bytes(self._engine.mem_read(self.vectors + _VECTOR, 4), "little")
        self._engine.emu_start(handler, self.vectors)
        self._engine.context_restore(state)

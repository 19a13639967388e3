"""Emulates Espressif's chips with one RISC-V core: UART0, watchdogs, and the counter of cycles.

The addresses are from the Technical Reference Manuals of the ESP32-C3 and the ESP32-C6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from unicorn.riscv_const import UC_RISCV_REG_PC, UC_RISCV_REG_ZERO

from firmwright.emulator.console import Console
from firmwright.emulator.execution import Run
from firmwright.emulator.machine import Stop
from firmwright.emulator.qemu_virt_rv32 import QemuVirtRv32

_PAGE = 0x1000

_UART = 0x60000000
_UART_FIFO = 0x00
_UART_STATUS = 0x1C

_TIMER_WATCHDOG = 0x48
_UPDATE = 1 << 22
"""The offset of TIMG_WDTCONFIG0_REG, and its bit WDT_CONF_UPDATE_EN."""

_ILLEGAL = 2
"""The trap of an instruction that unicorn does not know, such as an access to Espressif's CSRs."""

_EVENTS, _MODE, _COUNTER = 0x7E0, 0x7E1, 0x7E2
"""The CSRs mpcer, mpcmr and mpccr. The counter counts cycles if the lowest bits of both are 1."""

_CSRRW, _CSRRS = 0x1073, 0x2073
"""The opcodes of ``csrw`` and ``csrr``."""

_ENDED = 0xF1E00000
"""The upper bits of the register into which the program writes its exit code."""


class Esp32C3(QemuVirtRv32):
    """The ESP32-C3: a UART whose FIFO is never full, and registers without a function."""

    registers: ClassVar[tuple[int, ...]] = (0x60008000, 0x6001F000)
    """The pages of RTC_CNTL, which has the exit code at ``exit_code``, and of a timer group."""

    exit_code = 0x50

    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        super().__init__(run, console, stop)
        self._csrs = {_EVENTS: 0, _MODE: 0, _COUNTER: 0}

    def explain_exception(self, number: int) -> Stop | None:
        if number == _ILLEGAL and self._access_csr():
            return None
        return super().explain_exception(number)

    def _access_csr(self) -> bool:
        """Return whether the instruction is ``csrw`` or ``csrr`` of the counter; execute it."""
        address = self.engine.reg_read(UC_RISCV_REG_PC) - 4
        word = int.from_bytes(self.engine.mem_read(address, 4), "little")
        csr, source, opcode, result = word >> 20, word >> 15 & 31, word & 0x707F, word >> 7 & 31
        if csr not in self._csrs:
            return False
        if opcode == _CSRRW and result == 0:
            self._csrs[csr] = self.engine.reg_read(UC_RISCV_REG_ZERO + source)
        elif opcode == _CSRRS and source == 0:
            self.engine.reg_write(UC_RISCV_REG_ZERO + result, self._read_csr(csr))
        else:
            return False
        return True

    def _read_csr(self, csr: int) -> int:
        counts = self._csrs[_EVENTS] & self._csrs[_MODE] & 1
        return self.read_clock() & 0xFFFFFFFF if csr == _COUNTER and counts else self._csrs[csr]

    def map_devices(self) -> None:
        self.engine.mmio_map(_UART, _PAGE, self._read_port, None, self._write_port, None)
        first, *others = self.registers
        self.engine.mmio_map(first, _PAGE, self._read_nothing, None, self._write_exit_code, None)
        for page in others:
            self.engine.mmio_map(page, _PAGE, self._read_nothing, None, self._write_timer, None)

    def _read_port(self, _engine: Any, offset: int, _size: int, _data: Any) -> int:
        if offset == _UART_FIFO:
            return self.console.read()
        if offset != _UART_STATUS:
            return 0
        ready = self.console.poll()
        if self.console.is_exhausted:
            self.stop(Stop(fault="waiting for console input, but no input is left"))
        return int(ready)

    def _write_port(self, _engine: Any, offset: int, _size: int, value: int, _data: Any) -> None:
        if offset == _UART_FIFO:
            self.console.write(value & 0xFF)

    def _read_nothing(self, _engine: Any, _offset: int, _size: int, _data: Any) -> int:
        return 0

    def _write_timer(self, _engine: Any, offset: int, _size: int, value: int, _data: Any) -> None:
        """Stop at a configuration of the watchdog without WDT_CONF_UPDATE_EN."""
        if offset == _TIMER_WATCHDOG and not value & _UPDATE:
            self.stop(Stop(fault="the timer watchdog ignores a write without WDT_CONF_UPDATE_EN"))

    def _write_exit_code(
        self, _engine: Any, offset: int, _size: int, value: int, _data: Any
    ) -> None:
        if offset == self.exit_code and value & ~0xFF == _ENDED:
            self.stop(Stop(exit_code=value & 0xFF))


class Esp32C6(Esp32C3):
    """The ESP32-C6, whose registers of LP_AON and LP_WDT are in one page."""

    registers: ClassVar[tuple[int, ...]] = (0x600B1000, 0x60008000)
    exit_code = 0x00

"""Emulates Espressif's chips with one RISC-V core: UART0, and registers for the exit and watchdogs.

The addresses are from the Technical Reference Manuals of the ESP32-C3 and the ESP32-C6.
"""

from __future__ import annotations

from typing import Any, ClassVar

from firmwright.emulator.machine import Stop
from firmwright.emulator.qemu_virt_rv32 import QemuVirtRv32

_PAGE = 0x1000

_UART = 0x60000000
_UART_FIFO = 0x00
_UART_STATUS = 0x1C

_TIMER_WATCHDOG = 0x48
_UPDATE = 1 << 22
"""The offset of TIMG_WDTCONFIG0_REG, and its bit WDT_CONF_UPDATE_EN."""

_ENDED = 0xF1E00000
"""The upper bits of the register into which the program writes its exit code."""


class Esp32C3(QemuVirtRv32):
    """The ESP32-C3: a UART whose FIFO is never full, and registers without a function."""

    registers: ClassVar[tuple[int, ...]] = (0x60008000, 0x6001F000)
    """The pages of RTC_CNTL, which has the exit code at ``exit_code``, and of a timer group."""

    exit_code = 0x50

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

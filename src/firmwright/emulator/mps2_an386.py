"""Emulates Arm's MPS2 board with the AN386 image: a Cortex-M, a CMSDK UART, semihosting.

The firmware exits by semihosting. The addresses are from Arm's application note AN386.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firmwright.emulator.console import Console
from firmwright.emulator.cortex_m import CortexM
from firmwright.emulator.execution import Run
from firmwright.emulator.machine import Stop

_PAGE = 0x1000

_UART = 0x40004000
_UART_DATA = 0x00
_UART_STATE = 0x04
_UART_CONTROL = 0x08
_RECEIVE_FULL = 0x2
_TRANSMIT_ENABLE = 0x1
_RECEIVE_ENABLE = 0x2


class Mps2An386(CortexM):
    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        super().__init__(run, console, stop)
        self._uart_control = 0
        self.engine.mmio_map(_UART, _PAGE, self._read_uart, None, self._write_uart, None)

    def _read_uart(self, _engine: Any, offset: int, _size: int, _data: Any) -> int:
        receiving = bool(self._uart_control & _RECEIVE_ENABLE)
        if offset == _UART_STATE:
            ready = self.console.poll() and receiving
            if self.console.is_exhausted:
                self.stop(Stop(fault="waiting for console input, but no input is left"))
            return _RECEIVE_FULL if ready else 0
        if offset == _UART_DATA and receiving:
            return self.console.read()
        return self._uart_control if offset == _UART_CONTROL else 0

    def _write_uart(self, _engine: Any, offset: int, _size: int, value: int, _data: Any) -> None:
        if offset == _UART_DATA and self._uart_control & _TRANSMIT_ENABLE:
            self.console.write(value)
        elif offset == _UART_CONTROL:
            self._uart_control = value

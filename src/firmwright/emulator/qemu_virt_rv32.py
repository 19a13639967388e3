"""Emulates QEMU's ``virt`` machine with one RISC-V core, a 16550 UART and the SiFive test finisher.

The addresses are from QEMU's hw/riscv/virt.c. The trap causes are from the table of mcause in the
RISC-V privileged ISA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unicorn.riscv_const import UC_RISCV_REG_PC, UC_RISCV_REG_RA, UC_RISCV_REG_SP
from unicorn.unicorn_const import UC_ARCH_RISCV, UC_MODE_RISCV32, UC_MODE_RISCV64

from firmwright.emulator.console import Console
from firmwright.emulator.execution import Run
from firmwright.emulator.machine import Stop
from firmwright.emulator.typed_unicorn import open_engine

_PAGE = 0x1000

_FINISHER = 0x100000
_FINISHER_PASS = 0x5555
_FINISHER_FAIL = 0x3333

_CLOCK = 8  # two words after the finisher, which are 0 in QEMU

_UART = 0x10000000
_UART_DATA = 0
_UART_LINE_STATUS = 5
_DATA_READY = 0x01
_TRANSMITTER_EMPTY = 0x60

CAUSES = {
    0: "instruction address misaligned",
    1: "instruction access fault",
    2: "illegal instruction",
    3: "breakpoint (ebreak)",
    4: "load address misaligned",
    5: "load access fault",
    6: "store address misaligned",
    7: "store access fault",
    8: "environment call (ecall)",
    11: "environment call (ecall)",
}


class QemuVirtRv32:
    thumb = False
    program_counter = UC_RISCV_REG_PC
    stack_register = UC_RISCV_REG_SP
    link_register = UC_RISCV_REG_RA
    count_instructions: Callable[[], int]

    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        self.read_clock: Callable[[], int] = lambda: 0
        self.console = console
        self.stop = stop
        is_64_bit = run.platform.architecture.startswith("rv64")
        mode = UC_MODE_RISCV64 if is_64_bit else UC_MODE_RISCV32
        self.engine = open_engine(UC_ARCH_RISCV, mode)
        self.map_devices()

    def map_devices(self) -> None:
        self.engine.mmio_map(_UART, _PAGE, self._read_uart, None, self._write_uart, None)
        self.engine.mmio_map(_FINISHER, _PAGE, self._read_clock, None, self._write_finisher, None)

    def reset(self, start: int) -> int:
        """Return ``start``, because the core has no vector table."""
        return start

    def explain_exception(self, number: int) -> Stop | None:
        """Return a fault for every trap, because the firmware does not use traps."""
        # Unicorn adds 4 to the program counter after each instruction, including 2-byte
        # instructions.
        address = self.engine.reg_read(UC_RISCV_REG_PC) - 4
        return Stop(fault=CAUSES.get(number, f"trap {number}"), address=address)

    def _read_clock(self, _engine: Any, offset: int, _size: int, _data: Any) -> int:
        now = self.read_clock() if offset >= _CLOCK else 0
        return now >> 32 if offset & 4 else now & 0xFFFFFFFF

    def _read_uart(self, _engine: Any, offset: int, _size: int, _data: Any) -> int:
        if offset == _UART_LINE_STATUS:
            ready = self.console.poll()
            if self.console.is_exhausted:
                self.stop(Stop(fault="waiting for console input, but no input is left"))
            return _TRANSMITTER_EMPTY | (_DATA_READY if ready else 0)
        return self.console.read() if offset == _UART_DATA else 0

    def _write_uart(self, _engine: Any, offset: int, _size: int, value: int, _data: Any) -> None:
        if offset == _UART_DATA:
            self.console.write(value)

    def _write_finisher(
        self, _engine: Any, _offset: int, _size: int, value: int, _data: Any
    ) -> None:
        if value & 0xFFFF == _FINISHER_PASS:
            self.stop(Stop(exit_code=0))
        elif value & 0xFFFF == _FINISHER_FAIL:
            self.stop(Stop(exit_code=value >> 16 & 0xFF))

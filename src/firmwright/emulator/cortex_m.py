"""Emulates a Cortex-M core, whose firmware exits by semihosting, and boards with this core.

The numbers of exceptions are unicorn's. The operations are from Arm's Semihosting for AArch32 and
AArch64, and the addresses of MPS2 are from Arm's application note AN386.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unicorn.arm_const import (
    UC_ARM_REG_LR,
    UC_ARM_REG_PC,
    UC_ARM_REG_R0,
    UC_ARM_REG_R1,
    UC_ARM_REG_SP,
    UC_CPU_ARM_CORTEX_M0,
    UC_CPU_ARM_CORTEX_M3,
    UC_CPU_ARM_CORTEX_M4,
    UC_CPU_ARM_CORTEX_M7,
    UC_CPU_ARM_CORTEX_M33,
)
from unicorn.unicorn_const import UC_ARCH_ARM, UC_MODE_MCLASS, UC_MODE_THUMB

from firmwright.emulator.console import Console
from firmwright.emulator.execution import Run
from firmwright.emulator.machine import Stop
from firmwright.emulator.systick import SYSTICK_PAGE, SysTick
from firmwright.emulator.typed_unicorn import open_engine
from firmwright.errors import UserError

_SYSTEM_CONTROL = 0xE0000000  # debug units and system control space, emulated as plain memory
_SYSTEM_CONTROL_SIZE = 0x100000

_PAGE = 0x1000
_DWT = 0xE0001000  # Armv7-M architecture reference manual, data watchpoint and trace
_CONTROL = 0
_CYCLES = 4

_BREAKPOINT = 7
_SEMIHOSTING_CALL = b"\xab\xbe"  # bkpt 0xab
_EXIT_EXTENDED = 0x20  # Arm semihosting specification, SYS_EXIT_EXTENDED
_APPLICATION_EXIT = 0x20026

_CAUSES = {
    1: "undefined instruction",
    2: "supervisor call",
    3: "fetch from an address without code",
    4: "access to an address without memory",
    17: "floating-point instruction with the FPU off",
    18: "jump to an address without the Thumb bit",
    22: "unaligned access",
}


CORES = {
    "cortex-m0": UC_CPU_ARM_CORTEX_M0,
    "cortex-m0+": UC_CPU_ARM_CORTEX_M0,  # has the instructions of the Cortex-M0
    "cortex-m3": UC_CPU_ARM_CORTEX_M3,
    "cortex-m4": UC_CPU_ARM_CORTEX_M4,
    "cortex-m4f": UC_CPU_ARM_CORTEX_M4,
    "cortex-m7": UC_CPU_ARM_CORTEX_M7,
    "cortex-m7f": UC_CPU_ARM_CORTEX_M7,
    "cortex-m33": UC_CPU_ARM_CORTEX_M33,
    "cortex-m33f": UC_CPU_ARM_CORTEX_M33,
}


def find_core(architecture: str) -> int:
    """Return the unicorn core of an architecture. Raises UserError if unicorn has no such core."""
    if architecture not in CORES:
        raise UserError(
            f"the emulator unicorn has no core for the architecture '{architecture}'; choose "
            f"another emulator, or one of these architectures: {', '.join(CORES)}"
        )
    return CORES[architecture]


class CortexM:
    """The core with the memory of its system control space, without devices."""

    thumb = True
    program_counter = UC_ARM_REG_PC
    stack_register = UC_ARM_REG_SP
    link_register = UC_ARM_REG_LR
    count_instructions: Callable[[], int]

    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        self.read_clock: Callable[[], int] = lambda: 0
        self.console = console
        self.stop = stop
        self.counts_cycles = False
        self.cycles_at_zero = 0
        self.operations: dict[int, Callable[[], int]] = {}  # semihosting operations, by number
        core = find_core(run.platform.architecture)
        self.engine = open_engine(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS, core)
        self.systick = SysTick(self.engine, lambda: self.read_clock())
        if core == UC_CPU_ARM_CORTEX_M0:  # Armv6-M has no cycle counter
            self._map_counter(SYSTICK_PAGE, self.systick.read, self.systick.write)
        else:
            self._map_counter(_DWT, self._read_dwt, self._write_dwt)

    def _map_counter(self, page: int, read: Callable[..., int], write: Callable[..., None]) -> None:
        """Map the system control space as memory, except for the page with the counter."""
        end = _SYSTEM_CONTROL + _SYSTEM_CONTROL_SIZE
        self.engine.mem_map(_SYSTEM_CONTROL, page - _SYSTEM_CONTROL)
        self.engine.mmio_map(page, _PAGE, read, None, write, None)
        self.engine.mem_map(page + _PAGE, end - page - _PAGE)

    def reset(self, start: int) -> int:
        """Read the stack pointer and the first instruction's address from the vector table."""
        self.systick.vectors = start
        vectors = self.engine.mem_read(start, 8)
        self.engine.reg_write(UC_ARM_REG_SP, int.from_bytes(vectors[:4], "little"))
        return int.from_bytes(vectors[4:], "little")

    def explain_exception(self, number: int) -> Stop | None:
        """Return the exit code for semihosting's exit, None for other known operations, or a
        fault."""
        here = self.engine.reg_read(UC_ARM_REG_PC)
        if number != _BREAKPOINT:
            return Stop(fault=_CAUSES.get(number, f"exception {number}"), address=here)
        if self.engine.mem_read(here, 2) != _SEMIHOSTING_CALL:
            return Stop(fault="breakpoint", address=here)
        operation = self.engine.reg_read(UC_ARM_REG_R0)
        if operation == _EXIT_EXTENDED:
            return self._read_exit(here)
        if operation in self.operations:
            self.engine.reg_write(UC_ARM_REG_R0, self.operations[operation]())
            self.engine.reg_write(UC_ARM_REG_PC, here + len(_SEMIHOSTING_CALL) | 1)
            return None
        return Stop(fault=f"semihosting call {operation:#x}, which is not emulated", address=here)

    def _read_dwt(self, _engine: Any, offset: int, _size: int, _data: Any) -> int:
        """Return the enabled cycle counter (32 bits), or its bit in DWT_CTRL, or 0 for other
        registers."""
        if offset == _CONTROL:
            return int(self.counts_cycles)
        counted = self.counts_cycles and offset == _CYCLES
        return (self.read_clock() - self.cycles_at_zero) & 0xFFFFFFFF if counted else 0

    def _write_dwt(self, _engine: Any, offset: int, _size: int, value: int, _data: Any) -> None:
        if offset == _CONTROL:
            self.counts_cycles = bool(value & 1)
        elif offset == _CYCLES:
            self.cycles_at_zero = self.read_clock() - value

    def read_words(self, count: int) -> list[int]:
        data = self.engine.mem_read(self.engine.reg_read(UC_ARM_REG_R1), 4 * count)
        return [int.from_bytes(data[at : at + 4], "little") for at in range(0, 4 * count, 4)]

    def _read_exit(self, here: int) -> Stop:
        reason, code = self.read_words(2)
        if reason != _APPLICATION_EXIT:
            return Stop(fault=f"semihosting exit for reason {reason:#x}", address=here)
        return Stop(exit_code=code & 0xFF, address=here)


_OPEN = 0x01
_WRITE = 0x05
_READ = 0x06
_CONSOLE = 1


class CortexMDebugger(CortexM):
    """Any chip whose console is a debugger, with the memories of the platform and no devices."""

    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        super().__init__(run, console, stop)
        self.operations = {_OPEN: lambda: _CONSOLE, _WRITE: self._write, _READ: self._read}

    def _write(self) -> int:
        """Write to the console, and return 0, the number of bytes that were not written."""
        _, address, length = self.read_words(3)
        for byte in self.engine.mem_read(address, length):
            self.console.write(byte)
        return 0

    def _read(self) -> int:
        """Read from the console, and return the number of requested bytes that are not
        available."""
        _, address, length = self.read_words(3)
        data = bytearray()
        while len(data) < length and self.console.has_input:
            data.append(self.console.read())
        self.engine.mem_write(address, bytes(data))
        return length - len(data)


_UART = 0x40004000
_UART_DATA = 0x00
_UART_STATE = 0x04
_UART_CONTROL = 0x08
_RECEIVE_FULL = 0x2
_TRANSMIT_ENABLE = 0x1
_RECEIVE_ENABLE = 0x2


class Mps2An386(CortexM):
    """Arm's MPS2 board with the AN386 image, whose console is a CMSDK UART."""

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

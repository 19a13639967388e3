"""Builds the native block hook ``block_counter.c`` on first use and attaches it to unicorn."""

from __future__ import annotations

import ctypes
import importlib.resources
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firmwright.emulator.execution import ClockCycles, Run
from firmwright.emulator.instruction_cycles import compute_cycles
from firmwright.emulator.machine import Machine
from firmwright.emulator.native_library import build_library
from firmwright.emulator.typed_unicorn import add_native_block_hook, unicorn_function
from firmwright.toolchain import Platform


class _Amount(ctypes.Structure):
    _fields_ = (("instructions", ctypes.c_uint64), ("cycles", ctypes.c_uint64))


class _Block(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_uint32), ("once", _Amount), ("counted", _Amount))


class _Call(ctypes.Structure):
    _fields_ = (
        ("inside", ctypes.c_uint32),
        ("return_address", ctypes.c_uint32),
        ("stack_pointer", ctypes.c_uint32),
    )


class _Part(ctypes.Structure):
    _fields_ = (
        ("counted", _Amount),
        ("function", ctypes.c_uint32),
        ("calls", ctypes.c_uint32),
    )


class _Timing(ctypes.Structure):
    _fields_ = (
        ("cycles", ctypes.c_void_p),
        ("refill", ctypes.c_uint32),
        ("misaligned", ctypes.c_uint32),
        ("line", ctypes.c_uint32),
        ("wait_states", ctypes.c_uint32),
    )


class _Counter(ctypes.Structure):
    _fields_ = (
        ("read_register", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
        ("code", ctypes.c_char_p),
        ("blocks", ctypes.POINTER(_Block)),
        ("parts", ctypes.POINTER(_Part)),
        ("time", _Timing),
        ("budget", ctypes.c_uint64),
        ("executed", ctypes.c_uint64),
        ("code_start", ctypes.c_uint32),
        ("code_end", ctypes.c_uint32),
        ("function", ctypes.c_uint32),
        ("thumb", ctypes.c_int32),
        ("link_register", ctypes.c_int32),
        ("stack_register", ctypes.c_int32),
        ("part_count", ctypes.c_uint32),
        ("current_part", ctypes.c_uint32),
        ("counted_call", _Call),
        ("part_call", _Call),
        ("last_block", ctypes.c_uint32),
        ("last_line", ctypes.c_uint32),
    )


def load_library() -> ctypes.CDLL:
    source = "block_counter.c"
    content = importlib.resources.files("firmwright.emulator").joinpath(source).read_bytes()
    library = build_library("block_counter", {source: content})
    return ctypes.CDLL(str(library.resolve()))


class BlockCounter:
    """Counts the instructions of one function of a firmware, callees included."""

    def __init__(self, run: Run, machine: Machine, library: ctypes.CDLL) -> None:
        self._firmware = run.firmware
        start, code = run.firmware.code
        address_of = run.firmware.symbols.address_of
        # The C code has pointers to these objects, so attributes keep the objects alive.
        self._library = library
        self._blocks = (_Block * (len(code) // 2 + 1))()
        calls = (_Part(_Amount(), address_of(name), 0) for name in run.parts)
        self._parts = (_Part * len(run.parts))(*calls)
        self._table = run.platform.cycle_table
        self._cycles = compute_cycles(self._table, code) if self._table else None
        self._counter = _Counter(
            read_register=unicorn_function("uc_reg_read"),
            stop=unicorn_function("uc_emu_stop"),
            code=code,
            blocks=self._blocks,
            parts=self._parts,
            part_count=len(run.parts),
            time=make_timing(run.platform, self._cycles),
            budget=run.budget,
            code_start=start,
            code_end=start + len(code),
            function=address_of(run.counted),
            thumb=machine.thumb,
            link_register=machine.link_register,
            stack_register=machine.stack_register,
        )
        enter_block = ctypes.cast(self._library.enter_block, ctypes.c_void_p)
        add_native_block_hook(machine.engine, enter_block, self._counter)

    @property
    def over_budget(self) -> bool:
        return int(self._counter.executed) > int(self._counter.budget)

    @property
    def executed_instructions(self) -> int:
        """The instructions since start-up, inside and outside of the counted function."""
        return int(self._counter.executed)

    @property
    def clock(self) -> int:
        """The cycles since start-up, until the last block.

        In the counted function, the platform's table determines the cycles. Outside of this
        function, or without a table, each instruction counts as one cycle.
        """
        if self._table is None:
            return self.executed_instructions
        blocks: Any = self._blocks  # numpy can read any C array
        counted = np.frombuffer(blocks, np.dtype(_Block))["counted"]
        stalls = int(counted["cycles"].sum()) - int(counted["instructions"].sum())
        return self.executed_instructions + stalls

    @property
    def last_block(self) -> int:
        return int(self._counter.last_block)

    def mark_last_instruction(self, address: int) -> None:
        """Record that the instruction at ``address`` is the last executed instruction."""
        self._library.leave_block(ctypes.byref(self._counter), ctypes.c_uint32(address))

    def count_by_symbol(self) -> dict[str, int]:
        return self._divide_by_symbol("instructions")

    def count_by_part(self) -> tuple[int, ...]:
        """Return the instructions in calls of each part, callees included."""
        return tuple(int(part.counted.instructions) for part in self._parts)

    def count_cycles(self) -> ClockCycles | None:
        """Return the cycles according to the platform's table, or None without a table."""
        if self._table is None:
            return None
        return ClockCycles(
            source=f"by the table of {self._table.core}",
            total=sum(int(block.counted.cycles) for block in self._blocks),
            by_part=tuple(int(part.counted.cycles) for part in self._parts),
            by_symbol=self._divide_by_symbol("cycles"),
        )

    def _divide_by_symbol(self, unit: str) -> dict[str, int]:
        start, _ = self._firmware.code
        counts: Counter[str] = Counter()
        for index, block in enumerate(self._blocks):
            if count := getattr(block.counted, unit):
                counts[self._firmware.symbols.name_at(start + 2 * index)] += count
        return dict(sorted(counts.items()))


def make_timing(platform: Platform, cycles: NDArray[np.uint16] | None) -> _Timing:
    """Return the time model of the platform. The model counts no cycles without a cycle table."""
    table = platform.cycle_table
    if table is None or cycles is None:
        return _Timing()
    memory = platform.memories[platform.constants_memory]
    return _Timing(
        cycles=cycles.ctypes.data,
        refill=table.refill,
        misaligned=table.misaligned,
        line=memory.fetch_bytes,
        wait_states=memory.wait_states,
    )

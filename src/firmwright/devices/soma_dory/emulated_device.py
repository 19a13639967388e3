"""Emulates DIANA: the machine ``virt``, with the accelerators as a device.

``templates/soma_dory/diana/fw_soma.c.j2`` is the firmware's driver of the device. The C of
``templates/soma_dory/posix`` computes the jobs. Host builds also contain this C.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from firmwright.emulator.console import Console
from firmwright.emulator.execution import Run
from firmwright.emulator.machine import Stop
from firmwright.emulator.native_library import build_library
from firmwright.emulator.qemu_virt_rv32 import QemuVirtRv32
from firmwright.emulator.typed_unicorn import Engine

REGISTERS_ADDRESS = 0x1A400000
REGISTERS_SIZE = 0x1000

_CLOCK = 0x1A500000


_CLOCK_SIZE = 0x1000


_DESCRIPTION, _L2, _L1_X, _L1_X2, _L1_Y, _CALLER, _COMMAND = range(0x00, 0x1C, 4)
_COUNTERS = {0x20: "compute", 0x28: "transfer"}

_COMMANDS = ("conv2d", "depthwise_conv2d", "dense", "add", "analog_conv2d", "load", "store")
_LOAD, _STORE = 5, 6


def number_fields(names: str) -> tuple[tuple[str, Any], ...]:
    return tuple((name, ctypes.c_uint32) for name in names.split())


class CopyStruct(ctypes.Structure):
    """The C struct ``fw_soma_copy``, with the names in the header."""

    _fields_ = number_fields("l1 planes plane_bytes l2_stride")


class LayerStruct(ctypes.Structure):
    """The C struct ``fw_soma_layer``, with the names in the header."""

    _fields_ = number_fields(
        "in_channels in_height in_width out_channels out_height out_width kernel_height "
        "kernel_width stride pad_top pad_bottom pad_columns shift relu step"
    )


class JobStruct(ctypes.Structure):
    """The C struct ``soma_job``. ``kind`` is the index in ``_COMMANDS``."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("layer", ctypes.POINTER(LayerStruct)),
        *number_fields("l1_x l1_x2 l1_y"),
    )


class _Cycles(ctypes.Structure):
    _fields_ = (("compute", ctypes.c_uint64), ("transfer", ctypes.c_uint64))


class _Fault(ctypes.Structure):
    _fields_ = (
        ("what", ctypes.c_char_p),
        ("allowed", ctypes.c_char_p),
        ("found", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
    )


class ModelStruct(ctypes.Structure):
    """The C struct ``soma_model``."""

    _fields_ = (
        ("l1", ctypes.c_char_p),
        *number_fields("l1_bytes weight_bytes analog_rows analog_columns block_overhead"),
        *number_fields("bytes_per_cycle transfer_overhead"),
        ("cycles", _Cycles),
        ("fault", _Fault),
    )


def load_library() -> ctypes.CDLL:
    folder = files("firmwright.templates").joinpath("soma_dory")
    names = ("posix/soma_model.h", "posix/soma_model.c", "posix/soma_limits.c", "fw_soma.h")
    sources = {Path(n).name: folder.joinpath(f"{n}.j2").read_bytes() for n in names}
    library = ctypes.CDLL(str(build_library("soma_model", sources).resolve()))
    library.soma_copy_bytes.restype = library.soma_weight_bytes.restype = ctypes.c_uint64
    for name in ("soma_load", "soma_store", "soma_run", "soma_check_copy", "soma_check_job"):
        getattr(library, name).restype = ctypes.c_bool
    return library


class SomaDevice:
    def __init__(self, engine: Engine, run: Run, stop: Callable[[Stop], None]) -> None:
        numbers = run.platform.accelerators["soma_dory"]
        self._engine = engine
        self._stop = stop
        self._library = load_library()
        self._l1 = ctypes.create_string_buffer(b"\xa5" * numbers["l1"], numbers["l1"])
        self._model = ModelStruct(
            l1=ctypes.cast(self._l1, ctypes.c_char_p),
            l1_bytes=numbers["l1"],
            weight_bytes=numbers["weights"],
            analog_rows=numbers["analog_rows"],
            analog_columns=numbers["analog_columns"],
            block_overhead=numbers["block_overhead"],
            bytes_per_cycle=numbers["bytes_per_cycle"],
            transfer_overhead=numbers["transfer_overhead"],
        )
        self._ram = run.platform.memories["ram"]
        self._registers = dict.fromkeys(range(_DESCRIPTION, _COMMAND, 4), 0)
        engine.mmio_map(REGISTERS_ADDRESS, REGISTERS_SIZE, self._read, None, self._write, None)

    @property
    def cycles(self) -> int:
        """Return the clock cycles of all jobs since start-up, according to the cost model."""
        return int(self._model.cycles.compute) + int(self._model.cycles.transfer)

    def _read(self, _engine: Any, offset: int, _size: int, _data: Any) -> int:
        counter = _COUNTERS.get(offset & ~4)
        if counter is None:
            return self._registers.get(offset, 0)
        cycles = int(getattr(self._model.cycles, counter))
        return cycles >> 32 if offset & 4 else cycles & 0xFFFFFFFF

    def _write(self, _engine: Any, offset: int, _size: int, value: int, _data: Any) -> None:
        if offset in self._registers:
            self._registers[offset] = value
        elif offset == _COMMAND:
            self._run(value)

    def _run(self, command: int) -> None:
        if command >= len(_COMMANDS):
            self._fail("soma_dory", f"command {command} does not exist")
            return
        try:
            if command in (_LOAD, _STORE):
                self._copy(command)
            else:
                self._compute(command)
        except _FaultError as fault:
            self._fail(f"fw_soma_{_COMMANDS[command]}", str(fault))

    def _copy(self, command: int) -> None:
        copy = CopyStruct.from_buffer_copy(self._read_l2(self._registers[_DESCRIPTION], CopyStruct))
        self._check(self._library.soma_check_copy(ctypes.byref(self._model), ctypes.byref(copy)))
        address = self._registers[_L2]
        data = self._read_l2(address, int(self._library.soma_copy_bytes(ctypes.byref(copy))))
        transfer = self._library.soma_load if command == _LOAD else self._library.soma_store
        view = (ctypes.c_uint8 * len(data)).from_buffer(data)
        self._check(transfer(ctypes.byref(self._model), ctypes.byref(copy), view))
        if command == _STORE:
            self._engine.mem_write(address, bytes(data))

    def _compute(self, command: int) -> None:
        layer = LayerStruct.from_buffer_copy(
            self._read_l2(self._registers[_DESCRIPTION], LayerStruct)
        )
        addresses = (self._registers[r] for r in (_L1_X, _L1_X2, _L1_Y))
        job = JobStruct(command, ctypes.pointer(layer), *addresses)
        self._check(self._library.soma_check_job(ctypes.byref(self._model), ctypes.byref(job)))
        size = int(self._library.soma_weight_bytes(ctypes.byref(job)))
        weights = bytes(self._read_l2(self._registers[_L2], size)) if size else None
        self._check(self._library.soma_run(ctypes.byref(self._model), ctypes.byref(job), weights))

    def _read_l2(self, address: int, what: type[ctypes.Structure] | int) -> bytearray:
        size = what if isinstance(what, int) else ctypes.sizeof(what)
        if address % 4:
            raise _FaultError(f"the address in L2 is {address:#010x}; allowed: multiples of 4")
        first, end = self._ram.origin, self._ram.origin + self._ram.size
        if address < first or address + size > end:
            allowed = f"{first:#010x} up to {end:#010x}"
            raise _FaultError(
                f"{size} bytes of L2 from {address:#010x} on are outside L2; expected {allowed}"
            )
        return self._engine.mem_read(address, size)

    def _check(self, done: bool) -> None:
        if not done:
            fault = self._model.fault
            allowed = fault.allowed.decode() + (f" {fault.limit}" if fault.limit else "")
            raise _FaultError(f"{fault.what.decode()} is {fault.found}; allowed: {allowed}")

    def _fail(self, function: str, sentence: str) -> None:
        self._stop(Stop(fault=f"{function}: {sentence}", address=self._registers[_CALLER]))


class _FaultError(Exception):
    """An error in a job."""


class Diana(QemuVirtRv32):
    def __init__(self, run: Run, console: Console, stop: Callable[[Stop], None]) -> None:
        super().__init__(run, console, stop)
        self.accelerator = SomaDevice(self.engine, run, stop)
        self.engine.mmio_map(_CLOCK, _CLOCK_SIZE, self._read_clock, None, None, None)

    def _read_clock(self, _engine: Any, offset: int, _size: int, _data: Any) -> int:
        """Return the number of executed instructions plus the cycles of jobs.

        The sum includes the cycles because the core waits for each job.
        """
        now = self.count_instructions() + self.accelerator.cycles
        return now >> 32 if offset & 4 else now & 0xFFFFFFFF

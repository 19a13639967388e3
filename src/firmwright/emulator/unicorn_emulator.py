"""Runs a firmware in unicorn, counts every executed instruction, and explains every fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ctypes import CDLL
from dataclasses import replace
from importlib.metadata import version
from pkgutil import resolve_name
from typing import Any

from unicorn import unicorn_const as uc

from firmwright.emulator.block_counter import BlockCounter, load_library
from firmwright.emulator.console import Console
from firmwright.emulator.cortex_m import CortexMDebugger, Mps2An386
from firmwright.emulator.espressif import Esp32C3, Esp32C6
from firmwright.emulator.execution import Execution, Run
from firmwright.emulator.machine import Machine, Stop
from firmwright.emulator.qemu_virt_rv32 import QemuVirtRv32
from firmwright.emulator.typed_unicorn import TRANSLATIONS, UcError
from firmwright.errors import UserError
from firmwright.forked import run_in_copy
from firmwright.system import limit_memory
from firmwright.targets.load_devices import load_target, target_names
from firmwright.toolchain.boards import load_board
from firmwright.toolchain.platforms import Memory

MACHINES: dict[str, type[Machine]] = {
    "cortex-m-debugger": CortexMDebugger,
    "esp32c3": Esp32C3,
    "esp32c6": Esp32C6,
    "mps2-an386": Mps2An386,
    "qemu-virt-rv32": QemuVirtRv32,
}
"""Machines by their names in the descriptions of boards."""

_PAGE = 0x1000
_ADDRESS_LIMIT = 1 << 32

MEMORY = TRANSLATIONS + (512 << 20)
"""The bytes for an emulation in addition to its copies of the platform's memories."""

# RAM has random content after power-on. With this value, a firmware that relies on zeros fails.
_RAM_PATTERN = b"\xa5"
_ERASED_FLASH = b"\xff"

_DATA = uc.UC_PROT_READ | uc.UC_PROT_WRITE

_ACCESSES = {
    uc.UC_MEM_READ_UNMAPPED: "read from address {address:#010x}, which is in no memory",
    uc.UC_MEM_WRITE_UNMAPPED: "write to address {address:#010x}, which is in no memory",
    uc.UC_MEM_FETCH_UNMAPPED: "jump to address {address:#010x}, which is in no memory",
    uc.UC_MEM_READ_PROT: "read from address {address:#010x}, which is not readable",
    uc.UC_MEM_WRITE_PROT: "write to address {address:#010x}, which is read-only",
    uc.UC_MEM_FETCH_PROT: "jump to address {address:#010x}, which contains no code",
}


def run_in_unicorn(run: Run) -> Execution:
    machines = find_machines(run.platform.accelerators)
    wanted = load_board(run.platform.board).machine
    if wanted not in machines:
        raise UserError(
            f"platform {run.platform.name}: the unicorn emulator has no machine "
            f"'{wanted}'; expected one of {', '.join(sorted(machines))}; select another emulator"
        )
    # The emulation runs in a copy of this process. The copy compiles, reads and imports no file.
    library, name = load_library(), f"unicorn {version('unicorn')}"
    what = f"{run.firmware.path}: the emulator failed"
    return run_in_copy(what, _emulate, run, machines[wanted], library, name)


def _emulate(run: Run, machine: type[Machine], library: CDLL, name: str) -> Execution:
    limit_memory(MEMORY + 10 * sum(memory.size for memory in run.platform.memories.values()))
    return _Session(run, machine, library).execute(name)


def find_machines(accelerators: Iterable[str]) -> dict[str, type[Machine]]:
    """Return all machines by name, including the machines of a platform's accelerators."""
    installed = sorted({*accelerators} & {*target_names()})
    return MACHINES | {
        machine: resolve_name(reference)
        for name in installed
        for machine, reference in load_target(name).machines.items()
    }


class _Session:
    def __init__(self, run: Run, machine: type[Machine], library: CDLL) -> None:
        self._run = run
        self._firmware = run.firmware
        self._stopped: Stop | None = None
        self._console = Console(run.console_input)
        self._machine = machine(run, self._console, self._stop)
        self._engine = self._machine.engine
        self._load()
        self._counter = BlockCounter(run, self._machine, library)
        self._machine.count_instructions = lambda: self._counter.executed_instructions
        self._machine.read_clock = lambda: self._counter.clock
        self._engine.hook_add(uc.UC_HOOK_INTR, self._on_interrupt)
        self._engine.hook_add(uc.UC_HOOK_MEM_INVALID, self._on_invalid_access)
        self._engine.hook_add(uc.UC_HOOK_INSN_INVALID, self._on_invalid_instruction)

    def execute(self, name: str) -> Execution:
        platform = self._run.platform
        flash, vectors = platform.memories.get("flash"), load_board(platform.board).vectors
        start = self._machine.reset(flash.origin + vectors if flash else self._firmware.entry)
        try:
            self._engine.emu_start(start, _ADDRESS_LIMIT)
        except UcError as error:
            self._stop(Stop(fault=str(error)))
        stopped = self._stopped
        describe = self._firmware.symbols.describe_address
        if stopped is None:
            happened, remedy = "halted the processor, and no interrupt will wake it", ""
            if self._counter.over_budget:
                happened = f"did not exit within {self._run.budget:,} instructions"
                remedy = "; check custom code for an endless loop"
            location = describe(self._counter.last_block)
            raise self._make_error(f"the firmware {happened}; last at {location}{remedy}")
        address = self._program_counter() if stopped.address is None else stopped.address
        if stopped.fault:
            raise self._make_error(f"{stopped.fault}; at {describe(address)}")
        self._counter.mark_last_instruction(address)
        counts = self._counter.count_by_symbol()
        return Execution(
            emulator=name,
            exit_code=stopped.exit_code,
            console=bytes(self._console.output),
            instructions=sum(counts.values()),
            by_symbol=counts,
            by_part=self._counter.count_by_part(),
            cycles=self._counter.count_cycles(),
        )

    def _load(self) -> None:
        memories = self._run.platform.memories
        data = uc.UC_PROT_ALL if self._run.platform.all_in_ram else _DATA
        code = uc.UC_PROT_READ | uc.UC_PROT_EXEC
        for name, memory in sorted(memories.items()):
            fill, access = (_ERASED_FLASH, code) if memory.read_only else (_RAM_PATTERN, data)
            self._map(name, memory, access)
            self._engine.mem_write(memory.origin, fill * memory.size)
            if memory.data_origin is not None:
                self._map(name, replace(memory, origin=memory.data_origin), uc.UC_PROT_READ)
                self._engine.mem_protect(memory.origin, memory.size, uc.UC_PROT_EXEC)
        for segment in self._firmware.segments:
            try:
                for address in self._list_windows(segment.address):
                    self._engine.mem_write(address, segment.content)
            except UcError as error:
                raise self._make_error(
                    f"{len(segment.content)} bytes at {segment.address:#010x} are outside the "
                    f"memories of platform {self._run.platform.name}; correct `memories`, or "
                    "the board's linker script"
                ) from error

    def _list_windows(self, address: int) -> Iterator[int]:
        """Yield the addresses at which the program fetches and reads the byte at an address."""
        yield address
        for memory in self._run.platform.memories.values():
            inside = memory.origin <= address < memory.origin + memory.size
            if inside and memory.data_origin is not None:
                yield address - memory.origin + memory.data_origin

    def _map(self, name: str, memory: Memory, access: int) -> None:
        """Map a memory. unicorn maps whole pages, so hooks report accesses beyond the memory's
        end."""
        size = -(-memory.size // _PAGE) * _PAGE
        try:
            self._engine.mem_map(memory.origin, size, access)
        except UcError as error:
            raise UserError(
                f"platform {self._run.platform.name}: memories.{name}: unicorn cannot map it at "
                f"{memory.origin:#010x}; expected a multiple of {_PAGE:,} bytes, and no overlap "
                "with a device of the machine, such as the UART"
            ) from error
        if memory.size < size:
            beyond = memory.origin + memory.size, memory.origin + size - 1
            for kind in (uc.UC_HOOK_MEM_READ, uc.UC_HOOK_MEM_WRITE):
                self._engine.hook_add(kind, self._on_access_beyond, None, *beyond)

    def _make_error(self, message: str) -> UserError:
        text = f"{self._firmware.path}: {message}"
        last_lines = bytes(self._console.output[-400:]).decode("ascii", "replace").strip()
        return UserError(f"{text}\nconsole, last lines:\n{last_lines}" if last_lines else text)

    def _stop(self, stop: Stop) -> None:
        """Stop the engine for this reason, unless another reason already stops it."""
        if self._stopped is None:
            self._stopped = stop
        self._engine.emu_stop()

    def _program_counter(self) -> int:
        return self._engine.reg_read(self._machine.program_counter)

    def _on_interrupt(self, _engine: Any, number: int, _data: Any) -> None:
        stop = self._machine.explain_exception(number)
        if stop:
            self._stop(stop)

    def _on_invalid_access(
        self, _engine: Any, access: int, address: int, _size: int, _value: int, _data: Any
    ) -> bool:
        fault = _ACCESSES[access].format(address=address)
        if self._is_stack_overflow(address):
            fault += f" (the stack of {self._run.platform.stack} bytes has overflowed)"
        self._stop(Stop(fault=fault, address=self._program_counter()))
        return False

    def _on_access_beyond(
        self, engine: Any, access: int, address: int, size: int, value: int, data: Any
    ) -> None:
        beyond = {
            uc.UC_MEM_READ: uc.UC_MEM_READ_UNMAPPED,
            uc.UC_MEM_WRITE: uc.UC_MEM_WRITE_UNMAPPED,
        }
        self._on_invalid_access(engine, beyond[access], address, size, value, data)

    def _is_stack_overflow(self, address: int) -> bool:
        # The linker scripts place the stack at the bottom of RAM. A push of many registers writes
        # below the stack pointer before it changes the stack pointer.
        bottom = self._run.platform.memories["ram"].origin
        stack_pointer = self._engine.reg_read(self._machine.stack_register)
        return stack_pointer < bottom or bottom - 256 <= address < bottom

    def _on_invalid_instruction(self, _engine: Any, _data: Any) -> bool:
        fault = "illegal instruction, or a breakpoint"
        self._stop(Stop(fault=fault, address=self._program_counter()))
        return False

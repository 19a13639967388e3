"""Decodes a command stream into operations, according to Vela's register tables.

A payload begins with the actions of Arm's driver: the fourcc ``COP1``, the configuration of the
accelerator, and the length of the command stream. A command has one word (code and 16-bit
parameter) or two words. The second word is a 32-bit value, and the parameter is its upper half.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ethosu.vela.ethos_u55_regs import ethos_u55_regs as tables

from firmwright_ethos_u.errors import StreamError

NOP, CONFIG, COMMANDS = 5, 1, 2
"""Actions of the driver (`driver_actions.py` of Vela)."""

PAYLOAD_OF_ONE_WORD = 0x4000
CODE = 0x03FF
EXECUTED = {
    "NPU_OP_CONV",
    "NPU_OP_DEPTHWISE",
    "NPU_OP_POOL",
    "NPU_OP_ELEMENTWISE",
    "NPU_OP_DMA_START",
}
WAITS = {"NPU_OP_DMA_WAIT", "NPU_OP_KERNEL_WAIT"}
"""Commands without an effect, because the simulator executes operations one after another."""

UNSUPPORTED = {"DMA0_SIZE0", "DMA0_SIZE1", "DMA0_SKIP0", "DMA0_SKIP1"}
"""Registers of two-dimensional transfers."""


@dataclass(frozen=True)
class Accelerator:
    """The hardware of a command stream."""

    product: int
    """0 is Ethos-U55, and 1 is Ethos-U65."""
    macs: int
    shram_bytes: int

    @property
    def name(self) -> str:
        """Return Vela's name of the configuration."""
        return f"ethos-u{'65' if self.product else '55'}-{self.macs}"

    @property
    def cores(self) -> int:
        """Return the number of cores: two for the Ethos-U65 with 512 MACs, and otherwise one."""
        return 2 if self.macs == 512 else 1


@dataclass(frozen=True)
class Operation:
    """An executed command and the values of all registers at its execution."""

    name: str
    parameter: int
    offset: int
    """The number of bytes before the command in the command stream."""
    registers: Mapping[str, int]

    def __getitem__(self, register: str) -> int:
        if register not in self.registers:
            raise self.reject(f"reads register {register}, which no command sets")
        return self.registers[register]

    def fields(self, register: str) -> dict[str, int]:
        """Return the bit fields of a register. Raises StreamError if a reserved field is set."""
        layout = getattr(tables, f"npu_set_{register.lower()}_t")
        value = layout.from_buffer_copy(struct.pack("<I", self[register] << 16))
        fields = {name: getattr(value, name) for name, _, _ in layout._fields_}
        reserved = [name for name in fields if name.startswith("reserved") and fields[name]]
        if reserved:
            raise self.reject(f"sets reserved bits of {register} (value {self[register]:#x})")
        return fields

    def signed(self, register: str) -> int:
        """Return the value of a 16-bit register as a signed number."""
        return ctypes.c_int16(self[register]).value

    def reject(self, problem: str) -> StreamError:
        """Return an error with the name and offset of the operation."""
        return StreamError(f"command stream, offset {self.offset:#x}: {self.name} {problem}")


def read_payload(payload: bytes) -> tuple[Accelerator, list[int]]:
    """Return the accelerator and the words of the command stream in a driver payload.

    Raises StreamError if the payload is damaged or has an unsupported action.
    """
    if payload[:4] != b"COP1" or len(payload) % 4:
        raise StreamError(
            f"driver payload: starts with {payload[:4]!r}, has {len(payload)} bytes; "
            "expected b'COP1' and a multiple of 4; compile the network with Vela's COP1 format"
        )
    words = list(struct.unpack(f"<{len(payload) // 4}I", payload))
    accelerator = None
    position = 1
    while position < len(words):
        action = words[position] & 0xFF
        if action == CONFIG and position + 2 < len(words):
            accelerator = read_accelerator(words[position + 1])
            position += 3
        elif action == COMMANDS and accelerator is not None:
            length = (words[position] >> 16) | (words[position] >> 8 & 0xFF) << 16
            stream = words[position + 1 :]
            if len(stream) != length:
                raise StreamError(
                    f"driver payload: has {len(stream)} command words; expected {length}"
                )
            return accelerator, stream
        elif action == NOP:
            position += 1
        else:
            raise StreamError(f"driver payload, word {position}: unsupported action {action}")
    raise StreamError("driver payload: has no command stream")


def replace_commands(payload: bytes, words: list[int]) -> bytes:
    """Return the payload with another command stream, which is the last action of the payload."""
    _, replaced = read_payload(payload)
    header = payload[: -4 * (len(replaced) + 1)]
    action = (len(words) & 0xFFFF) << 16 | len(words) >> 16 << 8 | COMMANDS
    return header + struct.pack(f"<{len(words) + 1}I", action, *words)


def read_accelerator(word: int) -> Accelerator:
    """Return the accelerator of a configuration word."""
    config = tables.config_r()
    config.word = word
    bits = config.bits
    return Accelerator(bits.product, 1 << bits.macs_per_cc, bits.shram_size * 1024)


def decode(words: list[int]) -> Iterator[Operation]:
    """Yield each operation of a command stream with its registers.

    Raises StreamError if a command is unknown or not supported, or if NPU_OP_STOP is not the last
    command.
    """
    registers: dict[str, int] = {}
    position = 0
    while position < len(words):
        word, offset = words[position], 4 * position
        name, parameter = command_name(word, offset), word >> 16
        position += 1
        if word & PAYLOAD_OF_ONE_WORD:
            if position == len(words):
                raise StreamError(f"command stream, offset {offset:#x}: {name} has no second word")
            parameter = parameter << 32 | words[position]
            position += 1
        if name == "NPU_OP_STOP":
            if position != len(words):
                raise StreamError(f"command stream, offset {offset:#x}: commands after NPU_OP_STOP")
            return
        if name in EXECUTED:
            yield Operation(name, parameter, offset, registers.copy())
        elif name.startswith("NPU_SET_") and name[8:] not in UNSUPPORTED:
            registers[name[8:]] = parameter
        elif name not in WAITS:
            raise StreamError(f"command stream, offset {offset:#x}: {name} is not supported")
    raise StreamError("command stream: NPU_OP_STOP is missing at the end")


def command_name(word: int, offset: int) -> str:
    """Return Vela's name of a command.

    Raises StreamError if the command is not in Vela's tables.
    """
    table = tables.cmd1 if word & PAYLOAD_OF_ONE_WORD else tables.cmd0
    try:
        if word & 0xFFFF & ~(CODE | PAYLOAD_OF_ONE_WORD):
            raise ValueError
        return str(table(word & CODE).name)
    except ValueError:
        raise StreamError(
            f"command stream, offset {offset:#x}: unknown command {word & 0xFFFF:#06x}"
        ) from None

"""Writes the locations of tensors as C expressions."""

from __future__ import annotations

from firmwright.codegen.names import c_identifier
from firmwright.ir.regions import RAM
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.planning.plan import Input, Location, Output, Slot
from firmwright.project.interface import Port


def emit_location(
    location: Location, inputs: list[Port], outputs: list[Port], advance: str = ""
) -> str:
    """Return the C expression for a location in the caller's buffer or in an arena.

    ``advance`` is added to the location, in bytes of an arena or elements of the caller's buffer.
    """
    match location:
        case Input(index, offset):
            return emit_part(f"inputs->{inputs[index].member}", inputs[index], offset, advance)
        case Output(index, offset):
            return emit_part(f"outputs->{outputs[index].member}", outputs[index], offset, advance)
        case Slot(memory, offset):
            return f"&{arena_name(memory)}[{offset}{advance}]"


def emit_part(pointer: str, port: Port, offset: int, advance: str) -> str:
    elements = offset // ELEMENT_BYTES[port.tensor.dtype]
    return f"{pointer}{f' + {elements}' if elements else ''}{advance}"


def arena_name(memory: str) -> str:
    return "arena" if memory == RAM else f"arena_{c_identifier(memory)}"

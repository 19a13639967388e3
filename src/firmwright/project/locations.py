"""Where tensors lie, as C says it."""

from __future__ import annotations

from firmwright.codegen.names import c_identifier
from firmwright.ir.regions import RAM
from firmwright.planning.plan import Input, Location, Output, Slot
from firmwright.project.interface import Port


def emit_location(location: Location, inputs: list[Port], outputs: list[Port]) -> str:
    """Return the C expression for a location: of the caller's buffer, or of an arena's bytes."""
    match location:
        case Input(index):
            return f"inputs->{inputs[index].member}"
        case Output(index):
            return f"outputs->{outputs[index].member}"
        case Slot(memory, offset):
            return f"&{arena_name(memory)}[{offset}]"


def arena_name(memory: str) -> str:
    """Return the C name of the arena in a memory."""
    return "arena" if memory == RAM else f"arena_{c_identifier(memory)}"

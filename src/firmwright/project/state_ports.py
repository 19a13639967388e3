"""Describes a network's states in C: positions, and values before the first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmwright.codegen.names import make_unique_identifiers
from firmwright.ir.kernels import C_TYPES
from firmwright.ir.tensors import State, Tensor
from firmwright.planning.arena import Buffer
from firmwright.planning.plan import Slot


@dataclass(frozen=True)
class StatePort:
    """A state; ``fill`` is the value of all ``initial`` bytes, or None if the bytes differ."""

    member: str
    tensor: Tensor
    location: Slot
    initial: npt.NDArray[np.uint8]

    @property
    def c_type(self) -> str:
        return C_TYPES[self.tensor.dtype]

    @property
    def fill(self) -> int | None:
        first, *others = np.unique(self.initial)
        return None if others else int(first)


def make_state_ports(states: Sequence[State], buffers: Sequence[Buffer]) -> list[StatePort]:
    """Return the states with their positions in the arena."""
    members = make_unique_identifiers(state.tensor.name for state in states)
    return [
        StatePort(
            member,
            state.tensor,
            Slot(buffer.memory, buffer.offset),
            np.frombuffer(state.initial, np.uint8),
        )
        for member, state, buffer in zip(members, states, buffers, strict=True)
    ]

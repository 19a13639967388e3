"""Writes ``<prefix>_interface.json`` of a network, with the facts that callers need.

``interface.schema.json`` is the published schema of this file. The header defines these facts as
macros.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from firmwright.codegen.names import make_unique_identifiers
from firmwright.errors import to_printable
from firmwright.ir.kernels import C_TYPES
from firmwright.ir.records import to_plain
from firmwright.ir.tensors import State, Storage, Tensor
from firmwright.planning.arena import Buffer
from firmwright.planning.plan import Slot
from firmwright.postprocess.detector import Detector

SCHEMA_FILE = "interface.schema.json"


@dataclass(frozen=True)
class Port:
    """A network input or output in the header: a member of a struct of pointers."""

    member: str
    tensor: Tensor

    @property
    def c_type(self) -> str:
        return C_TYPES[self.tensor.dtype]


@dataclass(frozen=True)
class InterfaceTensor:
    """An input or output.

    ``member`` is the tensor's name in the structs of the header, and ``name`` is its name in the
    model. ``elements`` and ``bytes`` are the size in memory. Real values are ``scale`` * (value -
    ``zero_point``). Both parameters are null if the tensor is not quantized. ``layout`` names the
    axes, such as NCHW, if the recipe states names. ``storage`` is null if the elements are in
    order.
    """

    member: str
    name: str
    shape: tuple[int, ...]
    layout: str | None
    dtype: str
    c_type: str
    elements: int
    bytes: int
    scale: float | None
    zero_point: int | None
    storage: Storage | None


@dataclass(frozen=True)
class InterfaceState:
    """A tensor that the network keeps between runs, in the first bytes of its working memory.

    ``member`` is the state's name in the macros of the header, and ``name`` is its name in the
    model. ``offset`` is the state's position in the working memory. ``initial_sha256`` is the
    digest of the bytes that a reset writes to this position.
    """

    member: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    c_type: str
    bytes: int
    scale: float | None
    zero_point: int | None
    offset: int
    initial_sha256: str


@dataclass(frozen=True)
class InterfaceModel:
    """The format of a model, and the digest of the model's file."""

    format: str
    sha256: str


@dataclass(frozen=True)
class NetworkInterface:
    """The file ``<prefix>_interface.json``.

    ``build_id`` is the id in the header. A program includes ``header`` and calls ``function``.
    Before the first call, the program passes the arena with ``initialize``, unless the arena is
    static. ``batch`` is the number of samples per inference. ``arena_bytes`` is the size of the
    working memory in each memory. ``constant_bytes`` is the size of weights, biases and scales.
    ``class_names`` are the recipe's class names, or empty if the recipe states no names. A network
    that keeps tensors between runs has ``states``. The function ``reset`` sets these tensors to
    their initial values.
    """

    name: str
    build_id: str
    prefix: str
    header: str
    function: str
    initialize: str | None
    model: InterfaceModel
    batch: int
    inputs: tuple[InterfaceTensor, ...]
    outputs: tuple[InterfaceTensor, ...]
    class_names: tuple[str, ...]
    arena_bytes: dict[str, int]
    constant_bytes: int
    states: tuple[InterfaceState, ...] | msgspec.UnsetType = msgspec.UNSET
    reset: str | msgspec.UnsetType = msgspec.UNSET


def describe_ports(
    ports: Sequence[Port], detector: Detector | None = None
) -> tuple[InterfaceTensor, ...]:
    """Return the entries of inputs, or of outputs that a ``detector`` may read."""
    read = {grid.output for grid in detector.grids} if detector else set()
    return tuple(
        InterfaceTensor(
            member=port.member,
            name=port.tensor.name,
            shape=port.tensor.shape,
            layout=detector.detection.layout if detector and index in read else None,
            dtype=port.tensor.stated_dtype,
            c_type=port.c_type,
            elements=port.tensor.elements,
            bytes=port.tensor.bytes,
            scale=port.tensor.scale,
            zero_point=port.tensor.zero_point,
            storage=port.tensor.storage,
        )
        for index, port in enumerate(ports)
    )


def describe_states(states: Sequence[StatePort]) -> tuple[InterfaceState, ...] | msgspec.UnsetType:
    """Return the entries of the states, or UNSET if there are no states."""
    described = tuple(
        InterfaceState(
            member=state.member,
            name=state.tensor.name,
            shape=state.tensor.shape,
            dtype=state.tensor.stated_dtype,
            c_type=state.c_type,
            bytes=state.tensor.bytes,
            scale=state.tensor.scale,
            zero_point=state.tensor.zero_point,
            offset=state.location.offset,
            initial_sha256=hashlib.sha256(state.initial.tobytes()).hexdigest(),
        )
        for state in states
    )
    return described or msgspec.UNSET


def encode_interface(interface: NetworkInterface) -> str:
    content = {"$schema": SCHEMA_FILE, **to_plain(interface)}
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    return f"{to_printable(text)}\n"


def view_as_c_type(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array in the type that C uses. 16-bit floats become ``uint16_t``."""
    return array.view(np.uint16) if array.dtype.name in ("float16", "bfloat16") else array


@dataclass(frozen=True)
class StatePort:
    """A state. ``fill`` is the value of all ``initial`` bytes, or None if the bytes differ."""

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

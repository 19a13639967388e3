"""What a model looks like from outside: its inputs, outputs and operators."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

ELEMENT_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip

SIXTEEN_BIT_FLOATS = frozenset({"float16", "bfloat16"})
"""Types that C99 lacks: their numbers are bit patterns in uint16_t, computed with in float32."""

STORED_AS = {
    "float8_e4m3fn": "uint8", "float8_e4m3fnuz": "uint8", "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8", "float8_e8m0fnu": "uint8", "float4_e2m1fn": "uint8",
    "int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8",
}  # fmt: skip
"""Types of 8 bits and less that C99 lacks, and the type in which each number is stored."""

STRING = "string"
"""The type, in the model, of strings; :mod:`firmwright.ir.strings` says how they are stored."""

LARGEST_TENSOR = 2**31 - 1
"""Elements, and bytes, of a tensor: the generated C counts them with 32 bits."""


@dataclass(frozen=True, slots=True)
class Storage:
    """How a tensor of bytes lies in memory, where a device has a layout of its own.

    ``shape`` has the padding behind each axis; bytes are reversed within words of ``word`` bytes.
    Behind all there are ``spare`` bytes, which nobody reads.
    """

    shape: tuple[int, ...]
    word: int
    spare: int = 0

    @property
    def bytes(self) -> int:
        return prod(self.shape) + self.spare


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named tensor; ``scale`` and ``zero_point`` only where the model quantizes it per tensor.

    ``storage`` is None where its elements lie in their order. ``elements`` and ``bytes`` are what
    it takes in memory. ``model_dtype`` is its type in the model where C99 lacks that, and ``dtype``
    the one that stores it (:data:`STORED_AS`); the last axis of strings are their bytes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int | None = None
    storage: Storage | None = None
    model_dtype: str | None = None

    @property
    def stated_dtype(self) -> str:
        """The type of its numbers, as the model states it."""
        return self.model_dtype or self.dtype

    @property
    def elements(self) -> int:
        return self.storage.bytes if self.storage else prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the source model: its name there, its kind, e.g. ``CONV_2D``, its tensors."""

    name: str
    kind: str
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State:
    """What a network keeps from one run to the next.

    ``initial`` has its bytes before the first run, little-endian. ``output`` is the model's output
    that is its next value; '' where the model keeps the state itself.
    """

    tensor: Tensor
    initial: bytes
    output: str = ""


@dataclass(frozen=True, slots=True)
class ModelInterface:
    """The model stage's result beside the Relax module (file ``model/model.json``).

    ``remarks`` say what was repaired or passed over. ``main`` takes the inputs and then the states;
    it returns the outputs and then the states' next values.
    """

    format: str
    sha256: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    remarks: tuple[str, ...] = ()
    states: tuple[State, ...] = ()

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """What ``main`` takes: the inputs, and the states."""
        return (*self.inputs, *(state.tensor for state in self.states))

    @property
    def results(self) -> tuple[Tensor, ...]:
        """What ``main`` returns: the outputs, and the states' next values."""
        return (*self.outputs, *(state.tensor for state in self.states))


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """A model's signature that was checked (file ``model/signature.json``).

    ``name`` is what the maker calls the model, ``sha256`` the digest of the digests of its files,
    ``key`` that of the maker's public key in PEM.
    """

    name: str
    sha256: str
    key: str


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """How the samples of a batch lie in the outputs (file ``partition/batch.json``).

    ``output_axes`` has the batch axis of each output, None where all samples share the output.
    """

    size: int
    output_axes: tuple[int | None, ...]


def is_source_name(name: str) -> bool:
    """Tell a name of the source model from one that Relax made up."""
    return not re.fullmatch(r"(lv|gv)[0-9_]*", name)

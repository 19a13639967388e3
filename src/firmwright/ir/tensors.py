"""Describes the interface of a model: its inputs, outputs and operators."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod

ELEMENT_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip

SIXTEEN_BIT_FLOATS = frozenset({"float16", "bfloat16"})
"""Types that C99 lacks.

The numbers are stored as bit patterns in uint16_t and computed in float32.
"""

STORED_AS = {
    "float8_e4m3fn": "uint8", "float8_e4m3fnuz": "uint8", "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8", "float8_e8m0fnu": "uint8", "float4_e2m1fn": "uint8",
    "int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8",
}  # fmt: skip
"""Types of at most 8 bits that C99 lacks, and the type in which each number is stored."""

STRING = "string"
"""The type of strings in the model; :mod:`firmwright.ir.strings` describes their storage."""

LARGEST_TENSOR = 2**31 - 1
"""The maximum number of elements, and of bytes, in a tensor, because the generated C code counts
with 32 bits.
"""


@dataclass(frozen=True, slots=True)
class Storage:
    """The layout of a tensor of bytes in memory, for a device with a custom layout.

    ``shape`` includes the padding at the end of each axis. Bytes are reversed within words of
    ``word`` bytes. The tensor ends with ``spare`` bytes that are never read.
    """

    shape: tuple[int, ...]
    word: int
    spare: int = 0

    @property
    def bytes(self) -> int:
        return prod(self.shape) + self.spare


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named tensor. ``scale`` and ``zero_point`` are set only if it is quantized per tensor.

    ``storage`` is None if the elements are in their normal order. ``elements`` and ``bytes`` are
    the sizes in memory. ``model_dtype`` is the type in the model if C99 lacks that type. ``dtype``
    is then the type that stores it (:data:`STORED_AS`). A tensor of strings has an additional last
    axis for the bytes of each string.
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
        """The type of the tensor's numbers in the model."""
        return self.model_dtype or self.dtype

    @property
    def elements(self) -> int:
        return self.storage.bytes if self.storage else prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the source model: its name, its kind (such as ``CONV_2D``), its results."""

    name: str
    kind: str
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that a network keeps from one run to the next.

    ``initial`` has the little-endian bytes before the first run. ``output`` names the model's
    output that is the next value. ``output`` is '' if the model itself keeps the state.
    """

    tensor: Tensor
    initial: bytes
    output: str = ""


@dataclass(frozen=True, slots=True)
class ModelInterface:
    """The result of the model stage, next to the Relax module (file ``model/model.json``).

    ``remarks`` describe the repairs and the ignored parts of the model. The parameters of ``main``
    are the inputs and then the states. ``main`` returns the outputs and then the states' next
    values.
    """

    format: str
    sha256: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    remarks: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    output_tensors: dict[str, str] = field(default_factory=dict)
    """Maps the names of outputs to their tensors, if a format names outputs and tensors apart."""
    input_c_names: dict[str, str] = field(default_factory=dict)
    output_c_names: dict[str, str] = field(default_factory=dict)
    """Map the names of inputs and outputs to the C names in the recipe."""

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return (*self.inputs, *(state.tensor for state in self.states))

    @property
    def results(self) -> tuple[Tensor, ...]:
        return (*self.outputs, *(state.tensor for state in self.states))


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """The verified signature of a model (file ``model/signature.json``).

    ``name`` is the supplier's name for the model. ``sha256`` is the digest of the digests of the
    model's files. ``key`` is the digest of the supplier's public key in PEM.
    """

    name: str
    sha256: str
    key: str


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The positions of a batch's samples in the outputs (file ``partition/batch.json``).

    ``output_axes`` has the batch axis of each output, or None if all samples share the output.
    """

    size: int
    output_axes: tuple[int | None, ...]


def is_source_name(name: str) -> bool:
    """Return whether the source model states a name. Relax generates the other names."""
    return not re.fullmatch(r"(lv|gv)[0-9_]*", name)

"""Describes a region's C function in the kernels stage (file ``kernels/kernels.json``)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import numpy.typing as npt

from firmwright.ir.tensors import ELEMENT_BYTES

C_TYPES = {
    "bool": "bool", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t",
    "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t",
    "uint64": "uint64_t", "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float",
    "float64": "double",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """A pointer parameter of a kernel: its name in C, and the elements to which it points.

    ``dtype`` is a name of numpy, such as "int8". ``elements`` is the number of elements. ``tensor``
    is the name of a tensor, a weight or a scratch buffer. ``alignment`` is the alignment in bytes
    that a weight needs, at most 16; 0 means the alignment of its type. Scratch buffers have an
    alignment of 16.
    """

    name: str
    dtype: str
    elements: int
    tensor: str
    alignment: int = 0

    @property
    def c_type(self) -> str:
        return C_TYPES[self.dtype]

    @property
    def bytes(self) -> int:
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class FloatOperator:
    """An operator that computes quantized values in float32: its kind and its name in the model."""

    kind: str
    source: str

    def __str__(self) -> str:
        return f"{self.kind} ('{self.source}')" if self.source else self.kind


@dataclass(frozen=True, slots=True)
class Cycles:
    """A region's estimated clock cycles on its device: for computing, moving data, and waiting."""

    compute: int
    transfer: int
    stall: int

    @property
    def total(self) -> int:
        return self.compute + self.transfer + self.stall


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """The number of a kernel's weights, and the bytes of the weights, their tables and scales."""

    count: int
    bytes: int

    @property
    def bits(self) -> float:
        return 8 * self.bytes / self.count

    @property
    def saved(self) -> int:
        """The saved bytes, compared with a byte per weight."""
        return self.count - self.bytes

    def __str__(self) -> str:
        """Return a text such as ``36,864 of 4.13 bits in 19,040 bytes (int8: 17,824 more)``."""
        saved = f" (int8: {self.saved:,} more)" if self.saved > 0 else ""
        return f"{self.count:,} of {self.bits:.4g} bits in {self.bytes:,} bytes{saved}"


@dataclass(frozen=True, slots=True)
class TableVariant:
    """A variant of a kernel that reads its weights from a table of few values in its loop.

    ``bytes`` is the size of the table and the numbers of the weights. ``instructions`` is the
    approximate number of additional instructions, compared with the kernel.
    """

    name: str
    bytes: int
    instructions: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The equal parts of a kernel's output channels, which a loop computes one after another.

    A part has an equal share of each array in ``split``, which are names of weights. ``body`` is
    the C code of a part. Its pointers to these weights have the names of :func:`name_part`.
    """

    count: int
    split: tuple[str, ...]
    body: str

    def write_loop(
        self,
        weights: Sequence[Parameter],
        decoders: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> str:
        """Return the loop. ``decoders`` has the C lines that decode a part of an array."""
        lines = [f"    for (int32_t part = 0; part < {self.count}; ++part) {{"]
        for p in (p for p in weights if p.name in self.split):
            share = f"const {p.c_type} *const {name_part(p)} = {p.name}"
            plain = [f"{share} + part * {p.elements // self.count};"]
            lines += [f"        {line}" for line in decoders.get(p.name, plain)]
        return "\n".join([*lines, "", self.body, "    }"])


def name_part(weights: Parameter) -> str:
    return f"{weights.name}_part"


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A C function of the user, ``void name(DLTensor *, ...)``, with ``tensors`` parameters."""

    name: str
    tensors: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A C source or header of the project. The text is equal in all kernels that share the file."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """The C function of one region: its parameters and its body.

    The parameters are in the order inputs, weights, outputs, scratch. ``body`` is the C99 code
    between the braces. Weights are arrays of ``kernels/weights.npz``. ``quantized_operators`` is
    the number of operators on dequantized values. ``float_operators`` are the operators without an
    integer form. ``functions`` are the functions and macros of the C library and of the project's
    headers that the body uses. ``library_functions`` are the called functions of the recipe's
    libraries. ``headers`` names additional headers of the project. ``cycles`` is an estimate.
    ``cycles_source`` names its source, such as "the vendor's estimate", if the device's cost model
    is not the source. ``stand_in`` names a closed tool if the code replaces the tool's result.
    ``note`` describes the loops that the device chose. ``definitions`` is C code before the
    function. ``wait_function`` waits for the end of the job if the function only starts a job. One
    of the ``headers`` declares this function. ``events`` maps the wait function of another device
    to a function of this device. This function makes the next job wait for the other device's jobs,
    while the processor continues. ``files`` are sources of the project that the body calls.
    ``in_place`` names the inputs whose memory the only output may use. These inputs have the
    output's size and type. Each element of the input is read only before the output's element with
    equal index is written. ``stored`` is None for a kernel without weights. ``table`` is None if no
    variant of the kernel reads weights from a table.
    """

    region: str
    inputs: tuple[Parameter, ...]
    weights: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    scratch: tuple[Parameter, ...]
    body: str
    functions: tuple[str, ...]
    quantized_operators: int
    float_operators: tuple[FloatOperator, ...]
    headers: tuple[str, ...] = ()
    cycles: Cycles | None = None
    stand_in: str | None = None
    note: str | None = None
    definitions: str | None = None
    wait_function: str | None = None
    library_functions: tuple[LibraryFunction, ...] = ()
    files: tuple[SourceFile, ...] = ()
    in_place: tuple[str, ...] = ()
    events: Mapping[str, str] = field(default_factory=dict)
    cycles_source: str = ""
    stored: StoredWeights | None = None
    parts: Parts | None = None
    table: TableVariant | None = None

    def write_over(self, name: str) -> Kernel:
        """Return the kernel whose output uses the memory of this input.

        The kernel has one pointer for both tensors, as C's ``restrict`` requires.
        """
        (output,) = self.outputs
        (over,) = (p for p in self.inputs if p.name == name)
        cast = "" if over.dtype == output.dtype else f"(const {over.c_type} *)"
        pointer = f"    const {over.c_type} *{name} = {cast}{output.name};"
        return replace(
            self,
            inputs=tuple(p for p in self.inputs if p.name != name),
            body=f"{pointer}\n{self.body}",
            in_place=(),
        )


@dataclass(frozen=True)
class LoweredRegion:
    """A device's result for a region: a kernel, and the arrays that it reads.

    ``weights`` maps the names in the kernel's parameters to the arrays in the stored layout.
    """

    kernel: Kernel
    weights: Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class KeptRegion:
    """The result for a region with this digest. The next build can reuse the result.

    ``weights`` has the name in ``kernels/weights.npz`` of each array that the kernel reads.
    """

    digest: str
    kernel: Kernel
    weights: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KeptRegions:
    """The results of regions for the next build (file ``kernels/kept.json``)."""

    regions: Mapping[str, KeptRegion]


@dataclass(frozen=True, slots=True)
class Kernels:
    """All kernels of a network, in execution order."""

    kernels: tuple[Kernel, ...]

    @property
    def quantized_operators(self) -> int:
        return sum(k.quantized_operators for k in self.kernels)

    @property
    def float_operators(self) -> tuple[FloatOperator, ...]:
        return tuple(o for k in self.kernels for o in k.float_operators)


get_all_but_tensor = attrgetter(*(f.name for f in fields(Parameter) if f.name != "tensor"))


def describe(kernel: Kernel) -> Hashable:
    """Return the parts of a kernel that determine its C code, except the arguments' names."""
    ports = (kernel.inputs, kernel.weights, kernel.outputs, kernel.scratch)
    return (
        *(tuple(map(get_all_but_tensor, each)) for each in ports),
        kernel.body,
        kernel.definitions,
        kernel.functions,
        kernel.headers,
        kernel.library_functions,
        kernel.files,
        kernel.note,
        kernel.stand_in,
    )

"""Packs constants of 1, 2 or 4 bits, and unpacks the numbers in the loops that read them.

The lowest bits of a byte contain the first digit. A number is a digit times the constant's step,
plus the constant's lowest number. Therefore the numbers -1 and 1 need one bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import tirx
from tvm.s_tir import MatchBufferRegion
from tvm_ffi import structural_map, structural_walk

from firmwright.codegen.array_declarations import find_array, is_pointer

WIDTHS = (1, 2, 4)
"""The possible widths of a number in bits, which divide the bits of a byte."""

LEAST_ELEMENTS = 512
"""The minimum number of elements of a packed constant.

The C code that unpacks a smaller constant needs more bytes than packing saves.
"""


@dataclass(frozen=True)
class Packed:
    """A packed constant: the bytes, the bits per digit, the step, and the lowest number."""

    data: npt.NDArray[np.uint8]
    bits: int
    step: int
    low: int


def pack_constant(array: npt.NDArray[Any]) -> Packed | None:
    """Return a large constant of bytes in the fewest bits, or None if 4 bits are not enough."""
    if array.dtype.name not in ("int8", "uint8") or array.size < LEAST_ELEMENTS:
        return None
    low = int(array.min())
    above = array.reshape(-1).astype(np.int64) - low
    step = int(np.gcd.reduce(above)) or 1
    digits = above // step
    bits = next((width for width in WIDTHS if digits.max() < 1 << width), None)
    if bits is None:
        return None
    per_byte = 8 // bits
    padded = np.pad(digits, (0, -array.size % per_byte)).reshape(-1, per_byte)
    data = (padded << bits * np.arange(per_byte)).sum(1)
    return Packed(data.astype(np.uint8), bits, step, low)


def pack_constants(constants: Iterable[tuple[str, npt.NDArray[Any]]]) -> dict[str, Packed]:
    """Return a mapping from names to packed constants.

    Constants that cannot be packed are missing.
    """
    candidates = ((name, pack_constant(array)) for name, array in constants)
    return {name: packed for name, packed in candidates if packed is not None}


def list_shared(function: tirx.PrimFunc) -> list[int]:
    """Return the numbers of the parameters whose address a scheduled function uses.

    C code that receives an address reads one byte per number. A matched buffer counts as an
    address.
    """
    shared: set[tvm.ir.Var] = set()

    def note_pointer(call: tvm.ir.Call) -> None:
        if is_pointer(call):
            shared.add(find_array(call))

    def note_match(match: MatchBufferRegion) -> None:
        shared.add(match.source.buffer)

    rules = ((tvm.ir.Call, note_pointer), (MatchBufferRegion, note_match))
    structural_walk(function.body, rules)
    return [number for number, variable in enumerate(function.params) if variable in shared]


def read_packed(function: tirx.PrimFunc, packed: Mapping[int, Packed]) -> tirx.PrimFunc:
    """Return a function that reads packed constants.

    The keys of ``packed`` are parameter numbers. All arrays of the function have one axis.
    """
    constants = {function.params[number]: constant for number, constant in packed.items()}

    def add_view(view: tirx.DeclBuffer) -> None:
        source = constants.get(find_array(view.data))
        if source is not None:
            constants[view.buffer] = source

    structural_walk(function.body, (tirx.DeclBuffer, add_view))
    stored = {
        variable: tirx.decl_buffer([constant.data.size], "uint8", variable.name)
        for variable, constant in constants.items()
    }
    read = {stored[variable]: constant for variable, constant in constants.items()}

    def store(variable: tvm.ir.Var) -> tvm.ir.Var:
        return stored.get(variable, variable)

    def load(load: tvm.ir.TensorLoad) -> tirx.Expr:
        constant = read.get(load.source)
        return load if constant is None else read_number(load, constant)

    return structural_map(function, [(tvm.ir.Var, store), (tvm.ir.TensorLoad, load)])


def read_number(load: tvm.ir.TensorLoad, packed: Packed) -> tirx.Expr:
    """Return the number at the index of a load from the byte that contains the number."""
    (index,) = load.indices
    shift = WIDTHS[::-1].index(packed.bits) + 1
    byte = tirx.BufferLoad(load.source, [index >> shift])
    bit = (index & ((1 << shift) - 1)) * packed.bits
    digit = tirx.Cast("int32", byte) >> bit & ((1 << packed.bits) - 1)
    scaled = digit * packed.step if packed.step > 1 else digit
    return tirx.Cast(str(load.ty.dtype), scaled + packed.low)

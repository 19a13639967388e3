"""Calls a user's C functions, which receive their tensors as DLPack's ``DLTensor``.

In TIR, such a call is TVM's call of a packed function with a plain name. The names of TVM's runtime
functions contain a period. The shapes are constants, so each call fills its structs on the stack.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import tvm

from firmwright.ir.kernels import LibraryFunction

DLPACK_TYPE_CODES = {"int": "kDLInt", "uint": "kDLUInt", "float": "kDLFloat", "bfloat": "kDLBfloat",
         "bool": "kDLBool"}  # fmt: skip


@dataclass(frozen=True)
class LibraryCall:
    """A call of ``function`` with tensors as (dtype, shape). The last tensor is the result."""

    function: str
    tensors: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def signature(self) -> LibraryFunction:
        return LibraryFunction(self.function, len(self.tensors))


def is_library_call(call: tvm.ir.Call) -> bool:
    packed = isinstance(call.op, tvm.ir.Op) and call.op.name == "tirx.tvm_call_packed"
    return packed and re.fullmatch(r"[A-Za-z_]\w*", str(call.args[0].value)) is not None


def read_library_call(call: tvm.ir.Call) -> tuple[LibraryCall, list[tvm.ir.Call]]:
    arrays = list(call.args[1:])
    types = tuple(map(read_tensor_type, arrays))
    return LibraryCall(str(call.args[0].value), types), [array.args[0] for array in arrays]


def read_tensor_type(array: tvm.ir.Call) -> tuple[str, tuple[int, ...]]:
    _, shape, _, _, zero, _ = array.args
    return str(zero.ty.dtype), tuple(int(n) for n in shape.args)


def emit_library_call(call: LibraryCall, pointers: Sequence[str]) -> list[str]:
    """Return the lines of the call as a separate block."""
    lines = ["{"]
    for number, ((dtype, shape), pointer) in enumerate(zip(call.tensors, pointers, strict=True)):
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        for role, values in (("shape", shape), ("strides", strides)):
            listed = ", ".join(map(str, values or [1]))
            lines.append(f"    int64_t {role}_{number}[] = {{{listed}}};")
        kind, bits = re.fullmatch(r"([a-z]+)(\d*)", dtype).groups()  # type: ignore[union-attr]
        lines += [
            f"    DLTensor tensor_{number} = {{",
            # DLTensor has no const pointers. A library must not write to its inputs.
            f"        (void *){pointer}, {{kDLCPU, 0}}, {len(shape)}, "
            f"{{{DLPACK_TYPE_CODES[kind]}, {bits or 8}, 1}}, shape_{number}, "
            f"strides_{number}, 0}};",
        ]
    arguments = ", ".join(f"&tensor_{number}" for number in range(len(call.tensors)))
    return [*lines, f"    {call.function}({arguments});", "}"]

"""Calls of a user's C functions, which take their tensors as DLPack's ``DLTensor``.

In TIR they are calls of a packed function with a plain name, as TVM has them; those of TVM's own
runtime have a point in theirs. The tensors' shapes are constants, so each call fills its structs
on the stack.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import tvm
from tvm import tirx
from tvm_ffi import structural_map

from firmwright.ir.kernels import LibraryFunction

CALL_MARKER = "LIBRARY_CALL_"

DLPACK_TYPE_CODES = {"int": "kDLInt", "uint": "kDLUInt", "float": "kDLFloat", "bfloat": "kDLBfloat",
         "bool": "kDLBool"}  # fmt: skip
"""DLPack's names for the kinds of numbers."""


@dataclass(frozen=True)
class LibraryCall:
    """A call of ``function`` with tensors given by dtype and shape, the result last."""

    function: str
    tensors: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def signature(self) -> LibraryFunction:
        return LibraryFunction(self.function, len(self.tensors))


def mark_library_calls(body: tirx.Stmt) -> tuple[tirx.Stmt, list[LibraryCall]]:
    """Put calls of a numbered name in the place of library calls, with plain pointers."""
    calls: list[LibraryCall] = []

    def mark(call: tvm.ir.Call) -> tirx.Expr:
        if not is_library_call(call):
            return call
        arrays = list(call.args[1:])
        calls.append(LibraryCall(str(call.args[0].value), tuple(map(read_tensor_type, arrays))))
        pointers = [array.args[0] for array in arrays]
        return tirx.call_extern("int32", f"{CALL_MARKER}{len(calls) - 1}", *pointers)

    return structural_map(body, (tvm.ir.Call, mark)), calls


def is_library_call(call: tvm.ir.Call) -> bool:
    packed = isinstance(call.op, tvm.ir.Op) and call.op.name == "tirx.tvm_call_packed"
    return packed and re.fullmatch(r"[A-Za-z_]\w*", str(call.args[0].value)) is not None


def read_tensor_type(array: tvm.ir.Call) -> tuple[str, tuple[int, ...]]:
    """Return dtype and shape of what ``tvm_stack_make_array`` describes."""
    _, shape, _, _, zero, _ = array.args
    return str(zero.ty.dtype), tuple(int(n) for n in shape.args)


def emit_library_calls(body: str, calls: Sequence[LibraryCall]) -> str:
    """Write each marked call of a printed body as C."""

    def block(match: re.Match[str]) -> str:
        indent, number, arguments = match.groups()
        lines = emit_library_call(calls[int(number)], arguments.split(", "))
        return "\n".join(f"{indent}{line}" for line in lines)

    return re.sub(rf"^( *){CALL_MARKER}(\d+)\((.*)\);$", block, body, flags=re.MULTILINE)


def emit_library_call(call: LibraryCall, pointers: Sequence[str]) -> list[str]:
    """Return the call in a block of its own; a single number has the shape of one element."""
    lines = ["{"]
    for number, ((dtype, shape), pointer) in enumerate(zip(call.tensors, pointers, strict=True)):
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        for role, values in (("shape", shape), ("strides", strides)):
            listed = ", ".join(map(str, values or [1]))
            lines.append(f"    int64_t {role}_{number}[] = {{{listed}}};")
        kind, bits = re.fullmatch(r"([a-z]+)(\d*)", dtype).groups()  # type: ignore[union-attr]
        lines += [
            f"    DLTensor tensor_{number} = {{",
            # A library has no const tensors; it must not write to its inputs.
            f"        (void *){pointer}, {{kDLCPU, 0}}, {len(shape)}, "
            f"{{{DLPACK_TYPE_CODES[kind]}, {bits or 8}, 1}}, shape_{number}, "
            f"strides_{number}, 0}};",
        ]
    arguments = ", ".join(f"&tensor_{number}" for number in range(len(call.tensors)))
    return [*lines, f"    {call.function}({arguments});", "}"]

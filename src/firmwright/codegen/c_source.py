"""TIR to plain C: pointers in, loops, no TVM runtime.

TVM's own code generator prints the loops. What it prints around them is dropped, float constants
get all their digits (it prints seven, which is not enough to give the same float back), large
temporaries become parameters, and names lose their machine-made tails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import tirx
from tvm.s_tir import transform as schedulable
from tvm.tirx import transform as lowered
from tvm_ffi import structural_map

from firmwright.codegen.c_integers import keep_types
from firmwright.codegen.c_library import list_parameter_types
from firmwright.codegen.c_literals import format_c_float
from firmwright.codegen.changed_values import mark_changed_loads, unmark_loads
from firmwright.codegen.data_indices import bound_data_indices, remove_marks
from firmwright.codegen.index_divisions import protect_index_divisions
from firmwright.codegen.library_calls import (
    emit_library_calls,
    is_library_call,
    mark_library_calls,
)
from firmwright.ir.kernels import LibraryFunction
from firmwright.ir.tensors import ELEMENT_BYTES

MAX_LOCAL_BYTES = 64
"""Bytes of a temporary that may live on the stack; larger ones are scratch in the arena."""

LITERAL_MARKER = "FLOAT_LITERAL_"
NON_FINITE_MACROS = frozenset({"INFINITY", "NAN"})

FLATTENING_PASSES = (
    protect_index_divisions,
    schedulable.CanonicalizeLoop(),
    schedulable.LowerInitBlock(),
    schedulable.PlanAndUpdateBufferAllocationLocation(),
    schedulable.ConvertBlocksToOpaque(),
    schedulable.CompactBufferAllocation(),
    schedulable.LowerMatchBuffer(),
    schedulable.LowerOpaqueBlock(),
    protect_index_divisions,  # again, for loops stand in the place of blocks' variables now
    lowered.FlattenBuffer(),
)
"""From blocks to plain loops over arrays of one axis."""

LOWERING_PASSES = (
    bound_data_indices,
    remove_marks,
    *FLATTENING_PASSES,
    lowered.NarrowDataType(32),
    schedulable.LoopPartition(),
    lowered.VectorizeLoop(False),
    lowered.StorageRewrite(),
    lowered.UnrollLoop(),
    schedulable.StmtSimplify(),
    lowered.RemoveNoOp(),
    schedulable.RewriteUnsafeSelect(),
    lowered.CommonSubexprElim(),
    lowered.LowerIntrin(),
)
"""From there to what TVM 0.27 prints as plain C, without MakePackedAPI and LowerTVMBuiltin."""


@dataclass(frozen=True)
class CFunction:
    """A function's body in C, and what it uses.

    ``unused`` are the parameters that it does not; ``scratch`` are (name, dtype, elements) of
    temporaries that the caller provides; ``functions`` are those of C's library and of the
    project's headers that the body calls, and its macros for infinity and NaN;
    ``library_functions`` are those of the user's.
    """

    body: str
    unused: tuple[str, ...]
    scratch: tuple[tuple[str, str, int], ...]
    functions: tuple[str, ...]
    library_functions: tuple[LibraryFunction, ...]


def print_c(function: tirx.PrimFunc, names: Sequence[str]) -> CFunction:
    """Lower a scheduled PrimFunc whose buffer parameters are to be called ``names``."""
    target = tvm.target.Target("c")
    attributes = {"global_symbol": "kernel", "target": target, "tirx.noalias": True}
    module = tvm.IRModule({"kernel": function.with_attr(attributes)})
    with tvm.transform.PassContext(opt_level=3):
        for step in LOWERING_PASSES:
            module = step(module)
    function = module["kernel"]

    body, scratch = lift_temporaries(lower_intrinsics(function.body))
    pointers, declarations = [], []
    for buffer, name in zip(function.params, names, strict=True):
        pointer = tirx.Var(name, tirx.buffer_data_pointer_type(buffer))
        pointers.append(pointer)
        declarations.append(tirx.DeclBuffer(buffer, data=pointer))
    pointers += [pointer for pointer, _, _ in scratch]
    body, calls = mark_library_calls(body)
    body, literals = mark_float_constants(narrow_arguments(keep_types(body)))
    body = mark_changed_loads(body)
    plain = tirx.PrimFunc(pointers, tirx.SeqStmt([*declarations, body]))
    plain = plain.with_attr({**attributes, "calling_conv": 0})
    printed = tvm.get_global_func("target.build.c")(tvm.IRModule({"kernel": plain}), target)
    text = clean_up_c(unmark_loads(extract_body(printed.inspect_source())), literals)
    functions = find_called_functions(text)
    text = emit_library_calls(text, calls)
    macros = {literal.strip("(-)") for literal in literals} & NON_FINITE_MACROS
    return CFunction(
        body=text,
        # TVM's printer simplifies: what TIR reads may not be read in the C.
        unused=tuple(name for name in names if not re.search(rf"\b{name}\b", text)),
        scratch=tuple((str(p.name), dtype, elements) for p, dtype, elements in scratch),
        functions=tuple(sorted(functions | macros)),
        library_functions=tuple(dict.fromkeys(call.signature for call in calls)),
    )


def flatten_prim_func(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return plain loops over arrays of one axis, for a target that goes on from there."""
    module = tvm.IRModule({"kernel": function.with_attr("global_symbol", "kernel")})
    for step in (bound_data_indices, *FLATTENING_PASSES):
        module = step(module)
    return module["kernel"]


def lift_temporaries(body: tirx.Stmt) -> tuple[tirx.Stmt, list[tuple[tirx.Var, str, int]]]:
    """Turn every large local buffer into a pointer that the caller passes."""
    scratch: list[tuple[tirx.Var, str, int]] = []

    def lift(allocation: tirx.AllocBuffer) -> tirx.Stmt:
        buffer = allocation.buffer
        elements = math.prod(int(d) for d in buffer.shape)
        dtype = str(buffer.dtype)
        if elements * ELEMENT_BYTES[dtype] <= MAX_LOCAL_BYTES:
            return allocation
        pointer = tirx.Var(f"scratch_{len(scratch)}", tirx.buffer_data_pointer_type(buffer))
        scratch.append((pointer, dtype, elements))
        return tirx.DeclBuffer(buffer, data=pointer)

    return structural_map(body, (tirx.AllocBuffer, lift)), scratch


MATH_INTRINSICS = frozenset(
    "acos acosh asin asinh atan atan2 atanh copysign cosh "
    "erf fabs fmod hypot log10 log2 sinh".split()
)
"""Functions of C's <math.h> that TVM's lowering for C leaves as intrinsics."""

RUNTIME_INTRINSICS = frozenset({"tvm_call_packed", "tvm_call_cpacked"})
"""Intrinsics that call a function of TVM's runtime by its name."""


def lower_intrinsics(body: tirx.Stmt) -> tirx.Stmt:
    """Turn the intrinsics that are left into calls of C's library; ValueError where none fits."""

    def resolve(call: tvm.ir.Call) -> tirx.Expr:
        name = str(call.op.name).removeprefix("tirx.") if isinstance(call.op, tvm.ir.Op) else ""
        if name in RUNTIME_INTRINSICS and not is_library_call(call):
            raise ValueError(
                f"it calls '{call.args[0].value}' of TVM's runtime, which no firmware has"
            )
        if name not in MATH_INTRINSICS:
            return call
        dtype = str(call.ty.dtype)
        return tirx.call_pure_extern(dtype, name + "f" * (dtype == "float32"), *call.args)

    return structural_map(body, (tvm.ir.Call, resolve))


def find_called_functions(text: str) -> set[str]:
    """Return what C calls. TIR does not say it: TVM prints a remainder of floats as ``fmodf``."""
    called = set(re.findall(r"\b([a-z_]\w*)\s*\(", text))
    return called - {"if", "for", "while", "switch", "return", "sizeof"}


def mark_float_constants(body: tirx.Stmt) -> tuple[tirx.Stmt, list[str]]:
    """Put calls of a numbered name in the place of float constants; beside them, these in C.

    Equal constants have one number: TVM's printer keeps what prints alike in one variable.
    """
    numbers: dict[str, int] = {}

    def mark(constant: tirx.FloatImm) -> tirx.Expr:
        dtype = str(constant.ty.dtype)
        literal = format_c_float(np.array(constant.value, dtype).tobytes()[::-1].hex())
        number = numbers.setdefault(literal, len(numbers))
        return tirx.call_pure_extern(dtype, f"{LITERAL_MARKER}{number}")

    return structural_map(body, (tirx.FloatImm, mark)), list(numbers)


def narrow_arguments(body: tirx.Stmt) -> tirx.Stmt:
    """Cast what has 64 bits where a function of ours takes 32: C would do it, and say nothing."""

    def narrow(argument: tvm.ir.Expr, wanted: str) -> tvm.ir.Expr:
        if wanted != "int32_t" or str(argument.ty.dtype) != "int64":
            return argument
        is_number = isinstance(argument, tirx.IntImm)
        return tirx.IntImm("int32", argument.value) if is_number else tirx.Cast("int32", argument)

    def narrow_call(call: tvm.ir.Call) -> tirx.Expr:
        name = getattr(call.args[0], "value", None) if len(call.args) > 1 else None
        types = list_parameter_types().get(str(name))
        if types is None:
            return call
        given = map(narrow, call.args[1:], types)
        return tirx.call_pure_extern(str(call.ty.dtype), name, *given)

    return structural_map(body, (tvm.ir.Call, narrow_call))


def extract_body(source: str) -> str:
    """Return the body of the last function of a printed file."""
    start = source.rindex("kernel(")
    return source[source.index("{", start) + 1 : source.rindex("}")].strip("\n")


REPLACEMENTS = (
    (r"\b(\w+?)(?:_intermediate)?(_\d+)?_ptr\b", r"\1\2"),
    (r"\bcse_v(\d+)\b", r"common_\1"),
    (r"\bcondval(_\d+)?\b", r"chosen\1"),
    (r"\bv_(?:_(\d+))?(?!\w)", lambda m: f"value_{m[1] or 0}"),
    (r"(?m)^(\s*[A-Z][A-Z_]+\(\d+\));$", r"\1"),
    (r"\(&\((\w+\[[^][]*\])\)\)", r"&\1"),
)
"""What TVM prints, and what a reader gets instead: names, macros in front of loops, addresses."""


def clean_up_c(body: str, literals: Sequence[str]) -> str:
    """Give the printed body the look of written code, without touching what it computes.

    ``literals`` are what stands for its marked constants.
    """
    body = re.sub(rf"\b{LITERAL_MARKER}(\d+)\(\)", lambda m: literals[int(m[1])], body)
    for name in sorted(set(re.findall(r"^\s*\w+ (\w+)\[1\];$", body, re.MULTILINE))):
        if re.search(rf"\b{name}\b(?!\[)", body):  # an array of one, handed to a function
            continue
        body = re.sub(rf"\b{name}\[(\(int64_t\))?(1|0)\]", name, body)
    for pattern, replacement in REPLACEMENTS:
        body = re.sub(pattern, replacement, body)
    lines = (drop_needless_parentheses(line.rstrip()) for line in body.splitlines())
    # TVM indents by two, starting at two; so half of a written file's indentation.
    return "\n".join(" " * (len(t) - len(t.lstrip())) + t for t in lines)


def drop_needless_parentheses(line: str) -> str:
    """Drop parentheses around a whole index, a whole right-hand side, or other parentheses."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for place, character in enumerate(line):
        if character == "(":
            opened.append(place)
        elif character == ")" and opened:
            closing[opened.pop()] = place
    needless = set()
    for start, end in closing.items():
        before, after = line[:start], line[end + 1 :]
        whole_index = before.endswith("[") and after.startswith("]")
        whole_value = before.endswith(" = ") and after == ";"
        doubled = before.endswith("(") and closing.get(start - 1) == end + 1
        # `((type)x)` must stay apart from the call `f(type)`, and a literal keeps its sign's.
        if whole_index or whole_value or (doubled and not re.search(r"\w\($", before)):
            needless |= {start, end}
    return "".join(c for i, c in enumerate(line) if i not in needless)

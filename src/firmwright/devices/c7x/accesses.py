"""Finds the input elements that an elementwise loop nest reads for each output element."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm_ffi import structural_walk

from firmwright.codegen.c_library import functions_by_header
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.lowering.loop_structure import blocks, callee_name, is_reduction

OPERATORS = frozenset(
    "prim.likely prim.shift_left prim.shift_right prim.bitwise_and prim.bitwise_or "
    "prim.bitwise_xor prim.bitwise_not".split()
)
"""TIR calls that become C operators."""


@dataclass(frozen=True)
class ReadTensor:
    """A buffer that a block reads.

    ``strides`` has one number per axis of the output: the elements by which the buffer's index
    moves. ``follows`` is true for the axes along which the index moves. ``read_index`` is the
    buffer's index in the block's reads.
    """

    read_index: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]

    @property
    def follows(self) -> tuple[bool, ...]:
        return tuple(stride > 0 for stride in self.strides)

    @property
    def is_dense(self) -> bool:
        return all(stride <= 1 for stride in self.strides)


@dataclass(frozen=True)
class ElementwiseNest:
    """A loop nest that computes each output element from input elements at the same position.

    The inputs may be broadcast. ``reads_table`` is true if the nest reads values from a table.
    ``calls`` are the functions that the nest calls.
    """

    block: SBlockRV
    extents: tuple[int, ...]
    dtype: str
    inputs: tuple[ReadTensor, ...]
    reads_table: bool
    calls: tuple[str, ...]

    @property
    def element_bytes(self) -> int:
        """Return the bytes of the largest element that the nest reads or writes."""
        return max(ELEMENT_BYTES[d] for d in (self.dtype, *(i.dtype for i in self.inputs)))


def match_elementwise(schedule: Schedule) -> ElementwiseNest | str:
    """Return a description of a region's loops, or the reason why they are not elementwise."""
    all_blocks = blocks(schedule)
    if any(is_reduction(schedule, block) for block in all_blocks):
        return "it sums or compares along an axis"
    if len(all_blocks) != 1:
        return f"it needs {len(all_blocks)} loop nests"
    body = schedule.get(all_blocks[0])
    variables = [v.var for v in body.iter_vars]
    if [r.min for r in body.writes[0].region] != variables:
        return "it does not write an element for each step of its loops"
    inputs, tables = [], False
    for position, read in enumerate(body.reads):
        strides = find_strides(read, variables)
        if strides is not None:
            shape = tuple(int(d) for d in read.source.shape)
            inputs.append(ReadTensor(position, shape, str(read.source.dtype), strides))
        elif len(read.source.shape) == 1:
            tables = True
        else:
            return "it reads elements at other positions"
    extents = tuple(int(v.dom.extent) for v in body.iter_vars)
    dtype = str(body.writes[0].source.dtype)
    return ElementwiseNest(
        all_blocks[0], extents, dtype, tuple(inputs), tables, find_called_functions(body)
    )


def find_strides(read: tvm.ir.TensorRegion, variables: list[tirx.Var]) -> tuple[int, ...] | None:
    """Return the distances by which the index of a read moves along the axes of the output, or
    None.

    A distance is 0 if the index does not move. A shorter shape is aligned at its end, according to
    numpy's broadcasting. The result is None if the access has another form.
    """
    missing = len(variables) - len(read.region)
    strides = [0] * len(variables)
    for axis, (index, extent) in enumerate(zip(read.region, read.source.shape, strict=True)):
        if missing < 0 or not is_one(index.extent):
            return None
        stride = find_stride(index.min, variables[missing + axis])
        if stride is not None:
            strides[missing + axis] = stride
        elif not is_one(extent):
            return None
    return tuple(strides)


def find_stride(index: tirx.Expr, variable: tirx.Var) -> int | None:
    """Return the factor of a variable in an index, or None if the index has another form."""
    if index.same_as(variable):
        return 1
    if (
        isinstance(index, tirx.Mul)
        and index.a.same_as(variable)
        and isinstance(index.b, tirx.IntImm)
    ):
        return int(index.b)
    return None


def is_one(number: tirx.Expr) -> bool:
    return isinstance(number, tirx.IntImm) and int(number) == 1


def find_called_functions(body: SBlock) -> tuple[str, ...]:
    known = OPERATORS.union(*functions_by_header().values())
    names: set[str] = set()
    structural_walk(body.body, (tvm.ir.Call, lambda call: names.add(callee_name(call))))
    return tuple(sorted(n.rpartition(".")[2] for n in names if n not in known))

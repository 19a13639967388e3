"""Sets the loop structure of a CPU region so that only necessary tensors are stored."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import tvm
from tvm import tirx
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV, ScheduleError
from tvm_ffi import structural_walk

from firmwright.codegen.data_indices import BOUNDED
from firmwright.ir.kernels import Cycles

SPATIAL = 0
WRAPPED_PREFIX = "wrapped_"
"""The prefix of the names in wrapped_integers.h, whose functions have no cost."""

CHEAP_CALLS = frozenset({"prim.if_then_else", "prim.likely", BOUNDED})


@dataclass(frozen=True)
class Pointer:
    name: str
    declaration: str


@dataclass(frozen=True)
class ScheduledRegion:
    """A region's loops, and the pointers and functions that the loops need in C.

    The function has ``pointers`` as parameters after the region's parameters. ``functions`` are the
    functions of ``headers`` that the loops call. ``note`` is a comment for the C file that states
    the choice of loops and the reason. The device's cost model estimates ``cycles``.
    """

    function: tirx.PrimFunc
    pointers: tuple[Pointer, ...] = ()
    functions: frozenset[str] = frozenset()
    headers: tuple[str, ...] = ()
    note: str | None = None
    cycles: Cycles | None = None


def schedule_region(function: tirx.PrimFunc) -> ScheduledRegion:
    """Return a region's function with the default loops, for devices without custom loops."""
    schedule = Schedule(tvm.IRModule({"main": function}))
    apply_default_loops(schedule)
    return ScheduledRegion(schedule.mod["main"])


def apply_default_loops(schedule: Schedule) -> None:
    """Inline the blocks before a reduction, and finish each sum in the reduction's loops."""
    for block in blocks(schedule):
        if can_be_inlined(schedule, block) and (
            is_cheap(schedule.get(block)) or feeds_one_elementwise(schedule, block)
        ):
            attempt(lambda b=block: schedule.compute_inline(b))
    for block in reversed(blocks(schedule)):
        fuse_epilogue(schedule, block)
    for block in blocks(schedule):
        hoist_init(schedule, block)


def blocks(schedule: Schedule) -> list[SBlockRV]:
    return list(schedule.get_child_blocks(schedule.get_sblock("root")))


def attempt(step: object) -> bool:
    """Run one step of a schedule, or keep the loops unchanged if TVM rejects the step.

    For a stride other than 1, TVM 0.27 raises InternalError before it changes the loops.
    """
    try:
        step()  # type: ignore[operator]
    except (ScheduleError, tvm.error.InternalError):
        return False
    return True


def can_be_inlined(schedule: Schedule, block: SBlockRV) -> bool:
    """Return whether other blocks read a block's result and the block is not a reduction.

    TVM also rejects blocks that cannot be inlined. However, TVM's first rejection in a process
    needs a quarter of a second, because TVM reads all its symbols for a traceback.
    """
    return bool(schedule.get_consumers(block)) and not is_reduction(schedule, block)


def count_spatial_loops(schedule: Schedule, block: SBlockRV) -> int:
    return sum(int(v.iter_type) == SPATIAL for v in schedule.get(block).iter_vars)


def is_reduction(schedule: Schedule, block: SBlockRV) -> bool:
    return count_spatial_loops(schedule, block) < len(schedule.get(block).iter_vars)


def is_cheap(block: SBlock) -> bool:
    """Return whether a value costs about as much to compute as to load."""
    calls: set[str] = set()
    structural_walk(block.body, (tvm.ir.Call, lambda call: calls.add(callee_name(call))))
    return all(c in CHEAP_CALLS or c.startswith(WRAPPED_PREFIX) for c in calls)


def callee_name(call: tvm.ir.Call) -> str:
    """Return the name of a C function or of a TIR operation."""
    name = str(call.op.name)
    return str(call.args[0].value) if name.endswith("call_pure_extern") else name


def feeds_one_elementwise(schedule: Schedule, block: SBlockRV) -> bool:
    """Return whether each value is read only once. Inlining then does not repeat a computation."""
    consumers = schedule.get_consumers(block)
    if len(consumers) != 1 or is_reduction(schedule, consumers[0]):
        return False
    same = count_iterations(schedule, block) == count_iterations(schedule, consumers[0])
    return same and count_reads(schedule, block, consumers[0]) == 1


def count_iterations(schedule: Schedule, block: SBlockRV) -> int:
    return prod(int(v.dom.extent) for v in schedule.get(block).iter_vars)


def count_spatial_iterations(schedule: Schedule, block: SBlockRV) -> int:
    variables = schedule.get(block).iter_vars
    return prod(int(v.dom.extent) for v in variables if int(v.iter_type) == SPATIAL)


def count_reads(schedule: Schedule, producer: SBlockRV, consumer: SBlockRV) -> int:
    result = schedule.get(producer).writes[0].source
    matches: list[bool] = []
    structural_walk(
        schedule.get(consumer).body,
        (tvm.ir.TensorLoad, lambda load: matches.append(load.source.same_as(result))),
    )
    return sum(matches)


def fuse_epilogue(schedule: Schedule, block: SBlockRV) -> None:
    """Move a block that only finishes the producer's values into the producer's loops."""
    producers = schedule.get_producers(block)
    if len(producers) != 1 or is_reduction(schedule, block):
        return
    if count_iterations(schedule, block) != count_spatial_iterations(schedule, producers[0]):
        return
    loops = schedule.get_loops(producers[0])
    count = count_spatial_loops(schedule, producers[0])
    if 0 < count <= len(loops) and len(schedule.get_consumers(producers[0])) == 1:
        attempt(lambda: schedule.reverse_compute_at(block, loops[count - 1]))


def hoist_init(schedule: Schedule, block: SBlockRV) -> None:
    count = count_spatial_loops(schedule, block)
    loops = schedule.get_loops(block)
    if is_reduction(schedule, block) and count < len(loops):
        attempt(lambda: schedule.decompose_reduction(block, loops[count]))

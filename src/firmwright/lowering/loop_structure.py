"""Loop structure of a CPU region: no tensor is stored that need not be."""

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
"""First part of the names in wrapped_integers.h, whose functions cost nothing."""

CHEAP_CALLS = frozenset({"prim.if_then_else", "prim.likely", BOUNDED})


@dataclass(frozen=True)
class Pointer:
    """A pointer that a region's C declares for itself, by this declaration."""

    name: str
    declaration: str


@dataclass(frozen=True)
class ScheduledRegion:
    """A region's loops, and what the C around them needs.

    Behind the region's own parameters the function takes ``pointers``. ``functions`` are those of
    the ``headers`` that it calls. ``note`` says what was chosen and why, for the C file;
    ``cycles`` are those that the device's cost model gives.
    """

    function: tirx.PrimFunc
    pointers: tuple[Pointer, ...] = ()
    functions: frozenset[str] = frozenset()
    headers: tuple[str, ...] = ()
    note: str | None = None
    cycles: Cycles | None = None


def schedule_region(function: tirx.PrimFunc) -> ScheduledRegion:
    """Give a region's function the loops that every device has that brings no others."""
    schedule = Schedule(tvm.IRModule({"main": function}))
    apply_default_loops(schedule)
    return ScheduledRegion(schedule.mod["main"])


def apply_default_loops(schedule: Schedule) -> None:
    """Inline what comes before the reduction, and finish each sum where it was computed."""
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
    """Run one schedule step; a step whose conditions do not hold leaves the loops as they were."""
    try:
        step()  # type: ignore[operator]
    except ScheduleError:
        return False
    return True


def can_be_inlined(schedule: Schedule, block: SBlockRV) -> bool:
    """Tell whether others read what a block computes, and it sums nothing up.

    TVM refuses others, too; but its first refusal in a process takes a quarter of a second: it
    reads all of its own symbols for a traceback.
    """
    return bool(schedule.get_consumers(block)) and not is_reduction(schedule, block)


def count_spatial_loops(schedule: Schedule, block: SBlockRV) -> int:
    return sum(int(v.iter_type) == SPATIAL for v in schedule.get(block).iter_vars)


def is_reduction(schedule: Schedule, block: SBlockRV) -> bool:
    return count_spatial_loops(schedule, block) < len(schedule.get(block).iter_vars)


def is_cheap(block: SBlock) -> bool:
    """Tell whether computing a value again costs no more than loading it, or nearly so."""
    calls: set[str] = set()
    structural_walk(block.body, (tvm.ir.Call, lambda call: calls.add(callee_name(call))))
    return all(c in CHEAP_CALLS or c.startswith(WRAPPED_PREFIX) for c in calls)


def callee_name(call: tvm.ir.Call) -> str:
    """Return the name of a C function, or of TIR's own operation."""
    name = str(call.op.name)
    return str(call.args[0].value) if name.endswith("call_pure_extern") else name


def feeds_one_elementwise(schedule: Schedule, block: SBlockRV) -> bool:
    """Tell whether each value is read at one place, and there once: else it is computed again."""
    consumers = schedule.get_consumers(block)
    if len(consumers) != 1 or is_reduction(schedule, consumers[0]):
        return False
    same = count_iterations(schedule, block) == count_iterations(schedule, consumers[0])
    return same and count_reads(schedule, block, consumers[0]) == 1


def count_iterations(schedule: Schedule, block: SBlockRV) -> int:
    return prod(int(v.dom.extent) for v in schedule.get(block).iter_vars)


def count_spatial_iterations(schedule: Schedule, block: SBlockRV) -> int:
    """Return how many values the block finishes."""
    variables = schedule.get(block).iter_vars
    return prod(int(v.dom.extent) for v in variables if int(v.iter_type) == SPATIAL)


def count_reads(schedule: Schedule, producer: SBlockRV, consumer: SBlockRV) -> int:
    """Count the places in the consumer's formula where the producer's result stands."""
    result = schedule.get(producer).writes[0].source
    found: list[bool] = []
    structural_walk(
        schedule.get(consumer).body,
        (tvm.ir.TensorLoad, lambda load: found.append(load.source.same_as(result))),
    )
    return sum(found)


def fuse_epilogue(schedule: Schedule, block: SBlockRV) -> None:
    """Move a block that only finishes its producer's values under the producer's loops."""
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
    """Hoist the start value out of the reduction's loops."""
    count = count_spatial_loops(schedule, block)
    loops = schedule.get_loops(block)
    if is_reduction(schedule, block) and count < len(loops):
        attempt(lambda: schedule.decompose_reduction(block, loops[count]))

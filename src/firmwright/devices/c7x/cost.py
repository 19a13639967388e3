"""Estimates the cycles of a region on a C7x with a simple model.

The model is not a measurement. A vector loop computes one register of the largest elements per
cycle. Every other loop runs at the rate of compiled loops. The platform's ``timing`` has this rate
for one multiply-accumulate. Inputs, weights and outputs pass once between external memory and the
core. If DMA transfers overlap with the computation, only the remaining transfer time counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from tvm import tirx

from firmwright.ir.kernels import Cycles
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.toolchain import Platform


@dataclass(frozen=True)
class Core:
    """A C7x core. ``vector`` and ``local_memory`` are sizes in bytes.

    ``steps_per_cycle`` is the rate of compiled loops. ``bytes_per_cycle`` is the rate of external
    memory. Both are None if the platform has no times.
    """

    vector: int
    local_memory: int
    steps_per_cycle: float | None = None
    bytes_per_cycle: float | None = None


def read_core(platform: Platform) -> Core:
    numbers: Mapping[str, Any] = platform.accelerators["c7x"]
    core = Core(numbers["vector"], numbers["l2"])
    if platform.timing is None:
        return core
    engine = platform.timing.find_throughput("c7x")
    return Core(core.vector, core.local_memory, engine.macs_per_cycle, engine.bytes_per_cycle)


def estimate_cycles(
    core: Core, function: tirx.PrimFunc, steps: int, lanes: int = 0, beside: bool = False
) -> Cycles | None:
    """Return the cycles of a region's ``steps``, or None if the platform has no times.

    ``lanes`` is the number of elements in a vector, or 0 without vectors. If ``beside`` is true,
    transfers overlap with the computation, and ``transfer`` has only the remaining cycles.
    """
    if core.steps_per_cycle is None:
        return None
    compute = ceil(steps / (lanes or core.steps_per_cycle))
    return add_transfer(core, compute, sum(buffer_bytes(p) for p in function.params), beside)


def add_transfer(core: Core, compute: int, moved: int, beside: bool) -> Cycles | None:
    """Return the cycles of a computation and of the transfer of ``moved`` bytes.

    If ``beside`` is true, the transfers overlap with the computation. The result is None if the
    platform has no times.
    """
    if core.bytes_per_cycle is None:
        return None
    transfer = ceil(moved / core.bytes_per_cycle)
    return Cycles(compute, max(transfer - compute * beside, 0), 0)


def buffer_bytes(buffer: tirx.Buffer) -> int:
    return prod(int(d) for d in buffer.shape) * ELEMENT_BYTES[str(buffer.dtype)]

"""Estimates the time of a region's work from the speed of its device, which the platform states."""

from __future__ import annotations

from collections.abc import Iterable

from firmwright.ir.kernels import Cycles
from firmwright.ir.tensors import Tensor
from firmwright.toolchain.platforms import Throughput

SIXTEEN_BIT_TYPES = frozenset({"int16", "uint16"})
US_DECIMALS = 3
"""The number of decimals of a time in microseconds."""


def estimate_work_us(
    macs: int,
    ports: Iterable[Tensor],
    weight_bytes: int,
    engine: Throughput,
    modelled: Cycles | None = None,
    wide: bool = False,
) -> float:
    """Return the microseconds of a region's work. ``ports`` are the region's inputs and outputs.

    The device computes in 16 bits if ``wide`` is true, although the types of the ports differ, as
    for quantized floats.
    """
    if modelled:
        cycles = float(modelled.total)
    else:
        wide = wide or any(t.dtype in SIXTEEN_BIT_TYPES for t in ports)
        rate = engine.macs_per_cycle_16_bit if wide else engine.macs_per_cycle
        moved = sum(t.bytes for t in ports) + weight_bytes
        cycles = max(macs / rate, moved / engine.bytes_per_cycle)
    return round(cycles / engine.clock_mhz, US_DECIMALS)

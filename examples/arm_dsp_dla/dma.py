"""Device ``dma``: an engine that copies tensors between the memories of other devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from firmwright.device import Context, Target

if TYPE_CHECKING:
    import tvm

    from firmwright.device import LoweredRegion, Placement, Region


class DMA(Target):
    name = "dma"
    reason = "the DMA engine copies between memories"
    copies = True

    def place(self, _module: tvm.IRModule, _context: Context, /) -> Placement:
        from firmwright.device import Placement

        return Placement()

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.device import Cycles, LoweredRegion, lower_region

        numbers = context.platform.accelerators[self.name]
        kernel = lower_region(region, module, context.rounding).kernel
        size = kernel.inputs[0].bytes
        job = replace(
            kernel,
            body=f"    fw_dma_copy(input, output, {size}u);",
            functions=(),
            headers=("fw_dma.h",),
            cycles=Cycles(0, -(-size // numbers["bytes_per_cycle"]), numbers["start_cycles"]),
            wait_function="fw_dma_wait",
            events={f"fw_{n}_wait": f"fw_dma_after_{n}" for n in numbers.get("waits_for", ())},
        )
        return LoweredRegion(job, {})

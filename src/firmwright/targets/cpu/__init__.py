"""Device ``c``: plain C for any CPU. Takes every operator that TVM can lower."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmwright.targets import Context, Target

if TYPE_CHECKING:
    import tvm

    from firmwright.ir.kernels import LoweredRegion
    from firmwright.ir.regions import Region
    from firmwright.targets.placement import Placement


class CpuTarget(Target):
    """The device that everything falls back to."""

    name = "c"
    reason = "plain C runs everything"
    is_fallback = True
    is_portable = True

    def place(self, _module: tvm.IRModule, _context: Context, /) -> Placement:
        from firmwright.targets.placement import Placement

        return Placement()

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.lowering.region import lower_region

        return lower_region(region, module, context.rounding, context.strategies)


CPU = CpuTarget()

"""Device ``c``: plain C for any CPU. Takes every operator that TVM can lower."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tvm

    from firmwright.codegen.kernel import LoweredRegion
    from firmwright.partition.regions import Region


class CpuTarget:
    """The device that everything falls back to."""

    name = "c"
    reason = "plain C runs everything"
    options: frozenset[str] = frozenset()

    def lower(self, region: Region, module: tvm.IRModule, rounding: str) -> LoweredRegion:
        from firmwright.targets.cpu.lowering import lower_region

        return lower_region(region, module, rounding)


CPU = CpuTarget()

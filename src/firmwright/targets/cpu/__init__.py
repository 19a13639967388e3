"""Device ``c``: plain C for any CPU. Takes every operator that TVM can lower."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tvm

    from firmwright.codegen.kernel import LoweredRegion
    from firmwright.partition.placement import Placement
    from firmwright.partition.regions import Region
    from firmwright.targets import Context


class CpuTarget:
    """The device that everything falls back to."""

    name = "c"
    reason = "plain C runs everything"
    options: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    general = True
    rewrites = ()
    portable = True

    def prepare(self, module: tvm.IRModule, _context: Context, /) -> tvm.IRModule:
        return module

    def place(self, _module: tvm.IRModule, _context: Context, /) -> Placement:
        from firmwright.partition.placement import Placement

        return Placement()

    def layout(self, _context: Context, /) -> None:
        return None

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.lowering.region import lower_region

        return lower_region(region, module, context.rounding, context.strategies)


CPU = CpuTarget()

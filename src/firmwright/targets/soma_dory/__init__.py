"""Device ``soma_dory``: the digital accelerator of DIANA."""

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

SWITCH = ("0", "1")


class SomaDoryTarget:
    """DIANA's digital accelerator, under the name that HTVM gives it."""

    name = "soma_dory"
    reason = "it has DIANA's arithmetic, and breaks none of the accelerator's rules"
    options: Mapping[str, tuple[str, ...]] = MappingProxyType(
        {"layout_transform": SWITCH, "requant_transform": SWITCH}
    )
    general = False
    rewrites = ()
    portable = False

    def prepare(self, module: tvm.IRModule, _context: Context, /) -> tvm.IRModule:
        return module

    def place(self, module: tvm.IRModule, context: Context, /) -> Placement:
        from firmwright.targets.soma_dory.placing import place_layers

        return place_layers(module, context)

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        raise NotImplementedError


SOMA_DORY = SomaDoryTarget()

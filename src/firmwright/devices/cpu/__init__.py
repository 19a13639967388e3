"""Defines the device ``c``: plain C for any CPU.

The device accepts every operator that TVM can lower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from firmwright.targets import Context, Target

if TYPE_CHECKING:
    from firmwright.ir.kernels import LoweredRegion
    from firmwright.ir.nodes import IRModule
    from firmwright.ir.regions import Change, Region, Suggestion
    from firmwright.targets.placement import Placement


class CpuTarget(Target):
    """The fallback device, which runs every operator that no other device accepts."""

    name = "c"
    reason = "the device c runs all operators"
    is_fallback = True
    is_portable = True
    options: Mapping[str, tuple[str, ...]] = MappingProxyType(
        {"specialize": ("auto", "speed", "size")}
    )
    rewrites: Sequence[str] = (
        "MergePadLayer",
        "FoldBatchNorm",
        "SplitTransposedConvolutions",
        "UseChannelsLast",
        "RemoveConstantChannels",
        "UseIntegers",
    )

    def place(self, _module: IRModule, _context: Context, /) -> Placement:
        from firmwright.targets.placement import Placement

        return Placement()

    def lower(self, region: Region, module: IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.devices.cpu.lowering import lower_to_c

        return lower_to_c(region, module, context)

    def list_variants(self, region: Region, module: IRModule, context: Context, /) -> Sequence[str]:
        from firmwright.devices.cpu.lowering import list_variants

        return list_variants(region, module, context)

    def describe_kernel(self, region: Region, module: IRModule, context: Context, /) -> str:
        from firmwright.devices.cpu.lowering import describe_kernel

        return describe_kernel(region, module, context)

    def estimate_cycles(
        self,
        region: Region,
        module: IRModule,
        context: Context,
        _changes: Sequence[Change] = (),
        /,
    ) -> int | None:
        from firmwright.devices.cpu.advice import estimate_cycles

        return estimate_cycles(region, module, context)

    def suggest(
        self, region: Region, module: IRModule, context: Context, /
    ) -> Sequence[Suggestion]:
        from firmwright.devices.cpu.advice import suggest

        return tuple(suggest(region, module, context))


CPU = CpuTarget()

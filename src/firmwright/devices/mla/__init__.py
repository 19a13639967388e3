"""Defines the device ``mla``: the accelerator of SiMa's chips, which SiMa's compiler programs.

The input of SiMa's Model SDK (``afe``) is the whole network. The SDK places the layers. The rules
of this device follow SiMa's published tables. Without the SDK, C code replaces the layers of the
accelerator.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from firmwright.devices.mla.option_table import OPTIONS
from firmwright.targets import Context, Target
from firmwright.targets.device_options import list_values

if TYPE_CHECKING:
    from firmwright.ir.kernels import LoweredRegion
    from firmwright.ir.nodes import IRModule
    from firmwright.ir.regions import Region
    from firmwright.targets.placement import Placement

STAND_IN = "SiMa's MLA: the network's arithmetic in C, not the arithmetic of SiMa's compiler"


class MlaTarget(Target):
    """The MLA, as SiMa's published tables of operators describe it."""

    name = "mla"
    packages = ("onnx",)
    stages = ("firmwright.devices.mla.stages:ARTIFACTS",)
    archive_reader = "firmwright.devices.mla.inspected:inspect_archive"
    keeps_states = False
    reason = "by SiMa's tables, the MLA supports all operators of the region"
    options = list_values(OPTIONS)
    rewrites = (
        *("RemovePadByZero", "RemoveCopy", "RemoveIdentityReshape", "RemoveTrainingOperators"),
        *("MergePadLayer", "RemoveIdentityClip", "FoldBatchNorm"),
    )

    @property
    def operators(self) -> Collection[str]:
        from firmwright.devices.mla.options import mla_rules

        return mla_rules().operators

    def place(self, module: IRModule, context: Context, /) -> Placement:
        from firmwright.devices.mla.placing import place_layers

        return place_layers(module, context)

    def lower(self, region: Region, module: IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.planning.nested import lower_in_layers

        return lower_in_layers(region, module, context, STAND_IN)


MLA = MlaTarget()

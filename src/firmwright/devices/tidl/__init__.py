"""Defines the device ``tidl``: TI's deep-learning library on a C7x with its matrix multiplier.

TI's tools are closed, and their results run only on the chip. On other machines, a stand-in
replaces a region. The fallback device of the target compiles the stand-in, and the build reports
the stand-in.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from firmwright.devices.tidl.option_table import OPTIONS
from firmwright.targets import Context, Target
from firmwright.targets.device_options import list_values

if TYPE_CHECKING:
    from firmwright.ir.kernels import LoweredRegion
    from firmwright.ir.nodes import IRModule
    from firmwright.ir.regions import Region
    from firmwright.targets.placement import Placement

STAND_IN = "TIDL: the network's arithmetic in C, not TI's"
QUANTIZED_STAND_IN = (
    "TIDL quantizes float networks itself; this C has firmwright's quantization by the same samples"
)


class TidlTarget(Target):
    """The device TIDL, which runs the operators that TI's compilers place on TIDL."""

    name = "tidl"
    core = "c7x"
    quantizes = True
    keeps_states = False
    packages = ("onnx", "onnxruntime")
    stages = (
        "firmwright.devices.tidl.stages:STAND_IN",
        "firmwright.devices.tidl.stages:ARTIFACTS",
        "firmwright.devices.tidl.stages:APPLICATION",
    )
    reason = "TIDL supports all operators of the region"
    options = list_values(OPTIONS)
    rewrites = (
        *("RemoveMultiplyByOne", "RemovePadByZero", "RemoveCopy", "RemoveIdentityReshape"),
        *("RemoveTrainingOperators", "ConvertMaxMinToClip", "RemoveIdentityResize"),
        *("ConvertConvStride", "MergePadLayer", "RemoveIdentityClip", "EliminateCommonSubexpr"),
        *("ConvertTakeToSlice", "FoldBatchNorm"),
    )

    @property
    def operators(self) -> Collection[str]:
        from firmwright.devices.tidl.options import tidl_rules

        return tidl_rules().operators

    def place(self, module: IRModule, context: Context, /) -> Placement:
        from firmwright.devices.tidl.placing import place_regions

        return place_regions(module, context)

    def lower(self, region: Region, module: IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.devices.tidl.scale_facts import is_quantized_float
        from firmwright.planning.nested import lower_in_layers

        quantized = is_quantized_float(module[region.name])
        if quantized:
            context = replace(context, rounding="onnx")
        return lower_in_layers(
            region, module, context, QUANTIZED_STAND_IN if quantized else STAND_IN
        )


TIDL = TidlTarget()

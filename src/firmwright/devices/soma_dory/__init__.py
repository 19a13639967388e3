"""Defines the device ``soma_dory``: DIANA's digital accelerator, and its optional analog core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from firmwright.targets import Context, Target
from firmwright.targets.device_options import SWITCH

if TYPE_CHECKING:
    from firmwright.ir.kernels import LoweredRegion
    from firmwright.ir.nodes import IRModule
    from firmwright.ir.regions import Change, Region, RuleViolation, Suggestion
    from firmwright.targets.memory_layout import Layout
    from firmwright.targets.placement import Placement

ANALOG = "analog_conv2d"
"""The anchor of regions of the analog core. This core has no public cycle model."""


class SomaDoryTarget(Target):
    """DIANA's digital accelerator. The device name is HTVM's name for the accelerator."""

    name = "soma_dory"
    rewrites = ("UseIntegers",)
    reason = "it has DIANA's arithmetic, and meets the accelerator's rules"
    machines = MappingProxyType({"diana": "firmwright.devices.soma_dory.emulated_device:Diana"})
    operators = ("conv2d", "depthwise_conv2d", "dense", "add", "relu")
    stages = ("firmwright.devices.soma_dory.stages:CHIP_CHECK",)
    options: Mapping[str, tuple[str, ...]] = MappingProxyType(
        {"analog": SWITCH, "layout_transform": SWITCH, "requant_transform": SWITCH}
    )

    def prepare(self, module: IRModule, context: Context, /) -> IRModule:
        from firmwright.devices.soma_dory.placing import prepare_layers
        from firmwright.devices.soma_dory.requantization import narrow_operands, replace_divisions

        module = narrow_operands(module)
        if context.options.get("requant_transform") != "0":
            module = replace_divisions(module)
        return prepare_layers(module, context)

    def place(self, module: IRModule, context: Context, /) -> Placement:
        from firmwright.devices.soma_dory.placing import place_layers

        return place_layers(module, context)

    def layout(self, context: Context, /) -> Layout:
        from firmwright.devices.soma_dory.boundaries import DeviceLayout

        return DeviceLayout(allows_transforms=context.options.get("layout_transform") != "0")

    def lower(self, region: Region, module: IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.devices.soma_dory.analog import read_analog_layer
        from firmwright.devices.soma_dory.cost import Accelerator
        from firmwright.devices.soma_dory.lowering import lower_layer, lower_transform
        from firmwright.devices.soma_dory.matching import read_layer
        from firmwright.ir.regions import TRANSFORM

        if region.anchor == TRANSFORM:
            return lower_transform(region, module)
        numbers = context.platform.accelerators[self.name]
        read = read_analog_layer if region.anchor == ANALOG else read_layer
        layer = read(module[region.name])
        return lower_layer(region, layer, Accelerator.from_numbers(numbers))

    def estimate_cycles(
        self,
        region: Region,
        module: IRModule,
        context: Context,
        changes: Sequence[Change] = (),
        /,
    ) -> int | None:
        from firmwright.devices.soma_dory.advice import estimate_function

        if region.anchor == ANALOG:
            return None
        numbers = context.platform.accelerators[self.name]
        return estimate_function(module[region.name], numbers, changes)

    def complete_changes(
        self,
        region: Region,
        module: IRModule,
        context: Context,
        changes: Sequence[Change],
        /,
    ) -> Sequence[Change] | RuleViolation:
        from firmwright.devices.soma_dory.advice import complete_changes

        if region.anchor == ANALOG:
            return changes
        numbers = context.platform.accelerators[self.name]
        return complete_changes(module[region.name], numbers, changes)

    def list_idle_options(
        self, regions: Sequence[Region], module: IRModule, context: Context, /
    ) -> Sequence[str]:
        from firmwright.devices.soma_dory.placing import list_idle_options

        return list_idle_options(regions, module, context)

    def suggest(
        self, region: Region, module: IRModule, context: Context, /
    ) -> Sequence[Suggestion]:
        from firmwright.devices.soma_dory.advice import suggest

        if region.anchor == ANALOG:
            return ()
        return tuple(suggest(module[region.name], context.platform.accelerators[self.name]))


SOMA_DORY = SomaDoryTarget()

"""Defines the device ``c7x``: TI's digital signal processor.

The device runs every operator that TVM can lower. If the recipe's list of devices ends with
``c7x``, the whole network runs on the C7x. The Arm cores then make one call per inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from firmwright.devices.c7x.function_names import LIBRARIES_VARIABLE, MMALIB_MODES, NAME
from firmwright.devices.cpu import CPU
from firmwright.targets import Context, Target

if TYPE_CHECKING:
    from firmwright.ir.kernels import LoweredRegion
    from firmwright.ir.nodes import IRModule
    from firmwright.ir.regions import Region
    from firmwright.targets.placement import Placement


class C7xTarget(Target):
    name = NAME
    core = "c7x"
    reason = "the C7x runs all operators that the device c runs"
    is_fallback = True
    keeps_states = False
    stages = ("firmwright.devices.c7x.stages:LOADABLE",)
    libraries_variable = LIBRARIES_VARIABLE
    rewrites = CPU.rewrites
    options: Mapping[str, tuple[str, ...]] = MappingProxyType({"mmalib": MMALIB_MODES})

    def place(self, _module: IRModule, _context: Context, /) -> Placement:
        from firmwright.targets.placement import Placement

        return Placement()

    def lower(self, region: Region, module: IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.devices.c7x.lowering import lower_to_c7x

        return lower_to_c7x(region, module, context)

    def describe_kernel(self, region: Region, module: IRModule, context: Context, /) -> str:
        from firmwright.devices.c7x.lowering import describe_kernel

        return describe_kernel(region, module, context)

    def extend_project(
        self, project: Path, variables: Mapping[str, Any], context: Context, /
    ) -> None:
        """Write the folder of the loadable if the platform names a compiler for the loadable."""
        from firmwright.devices.c7x.loadable import make_loadable_build, write_loadable

        build = make_loadable_build(context.platform)
        if build is not None:
            write_loadable(variables, build, project)


C7X = C7xTarget()

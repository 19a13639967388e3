"""Device ``c7x``: TI's digital signal processor itself. Takes every operator that TVM can lower.

A mix that ends with it runs as a whole on the C7x; the Arm cores make one call an inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.targets import Context, Target

if TYPE_CHECKING:
    import tvm

    from firmwright.ir.kernels import LoweredRegion
    from firmwright.ir.regions import Region
    from firmwright.targets.placement import Placement


class C7xTarget(Target):
    """The C7x as a core that runs C."""

    name = "c7x"
    core = "c7x"
    reason = "the C7x runs everything that C runs"
    is_fallback = True
    stages = ("firmwright.targets.c7x.stages:LOADABLE",)
    libraries_variable = "CGT7X_EXT_LIBS"

    def place(self, _module: tvm.IRModule, _context: Context, /) -> Placement:
        from firmwright.targets.placement import Placement

        return Placement()

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        from firmwright.lowering.region import lower_region
        from firmwright.targets.c7x.cost import read_core
        from firmwright.targets.c7x.injective import schedule_for_c7x
        from firmwright.targets.c7x.strategies import STRATEGIES

        scheduler = partial(schedule_for_c7x, core=read_core(context.platform))
        strategies = (*context.strategies, *STRATEGIES)
        lowered = lower_region(region, module, context.rounding, strategies, scheduler)
        # Streams read ahead, and a message to this core lists what is read apart from the rest.
        return replace(lowered, kernel=replace(lowered.kernel, in_place=()))

    def extend_project(
        self, project: Path, variables: Mapping[str, Any], context: Context, /
    ) -> None:
        """Add the folder of the loadable on a platform that names a compiler for it."""
        from firmwright.targets.c7x.loadable import make_loadable_build
        from firmwright.targets.c7x.loadable_files import write_loadable

        build = make_loadable_build(context.platform)
        if build is not None:
            write_loadable(variables, build, project)


C7X = C7xTarget()

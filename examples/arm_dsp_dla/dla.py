"""Device ``dla``: an accelerator for convolutions, each with its batch normalization and ReLU.

This file describes the device for a build. ``dla_jobs.py`` contains the code of its methods and is
imported only if necessary, so a build with nothing to do imports no tvm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmwright.device import Context, Target

if TYPE_CHECKING:
    import tvm

    from firmwright.device import LoweredRegion, Placement, Region


class DLA(Target):
    name = "dla"
    reason = "a convolution with its normalization and ReLU is one job of the DLA"

    def place(self, module: tvm.IRModule, _context: Context, /) -> Placement:
        from dla_jobs import place_convolutions

        return place_convolutions(module)

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        from dla_jobs import lower_convolution

        numbers = context.platform.accelerators[self.name]
        return lower_convolution(region, module[region.name], numbers)

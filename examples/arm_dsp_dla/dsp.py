"""Device ``dsp``: a signal processor that sorts, gathers and computes element by element.

This file describes the device for a build. ``dsp_programs.py`` contains the code of its methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmwright.device import Context, Target

if TYPE_CHECKING:
    import tvm

    from firmwright.device import LoweredRegion, Placement, Region


class DSP(Target):
    name = "dsp"
    reason = "the DSP supports all operators of the region"

    def place(self, module: tvm.IRModule, _context: Context, /) -> Placement:
        from dsp_programs import place_programs

        return place_programs(module)

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        from dsp_programs import lower_program

        return lower_program(region, module, context)

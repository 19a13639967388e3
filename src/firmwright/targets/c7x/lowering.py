"""A region on the C7x: the C that any core gets, in loops of TI's schedule."""

from __future__ import annotations

from functools import partial

import tvm

from firmwright.ir.kernels import LoweredRegion
from firmwright.ir.regions import Region
from firmwright.lowering.region import lower_region
from firmwright.targets import Context
from firmwright.targets.c7x.cost import read_core
from firmwright.targets.c7x.injective import schedule_for_c7x
from firmwright.targets.c7x.strategies import STRATEGIES


def lower_for_c7x(region: Region, module: tvm.IRModule, context: Context) -> LoweredRegion:
    """Lower one region for the platform's C7x."""
    scheduler = partial(schedule_for_c7x, core=read_core(context.platform))
    strategies = (*context.strategies, *STRATEGIES)
    return lower_region(region, module, context.rounding, strategies, scheduler)

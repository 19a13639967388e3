"""Strategies: how an operator becomes loops where TVM's own way is not the best one.

A device hands its strategies to :func:`firmwright.lowering.region.lower_region`, the user's own
in front of them; for each operator, the first whose condition holds is taken, else TVM's own.
They see a region behind the integer arithmetic: an operator that was rebuilt on integers is none
any more, one that commutes with a scale (a max-pooling) works on the integers themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.s_tir import Schedule

from firmwright.errors import UserError
from firmwright.ir.relax import operator_name
from firmwright.lowering.loop_structure import ScheduledRegion

Condition = Callable[[tvm.ir.Call], bool]
"""Tells whether a strategy is for this call; its shapes, types and attributes are known."""

Compute = Callable[[relax.BlockBuilder, tvm.ir.Call], relax.Expr]
"""Gives what takes the call's place, mostly ``builder.call_te(function, *call.args)``."""

LoopSchedule = Callable[[Schedule], None]
"""Changes the loops of a region, which is one function ``main`` with a block for each step."""

Scheduler = Callable[[tirx.PrimFunc], ScheduledRegion]
"""Gives a region's function, whose blocks have plain loops, the loops it is to have."""


def always(_call: tvm.ir.Call) -> bool:
    return True


@dataclass(frozen=True)
class Strategy:
    """One way to make loops of an ``operator`` such as ``relax.nn.max_pool2d``.

    Without a ``compute`` TVM's own is taken, without a ``schedule`` the device's.
    """

    operator: str
    compute: Compute | None = None
    schedule: LoopSchedule | None = None
    condition: Condition = always


class Legalization:
    """Puts strategies in the places of one region's operators, and remembers what they ask for."""

    def __init__(self, strategies: Sequence[Strategy]) -> None:
        self.strategies = strategies
        self.schedules: list[LoopSchedule] = []
        self.errors: list[UserError] = []

    def apply(self, module: tvm.IRModule) -> tvm.IRModule:
        """Make TIR functions of all operators; UserError for what a strategy of the user's says."""
        names = {s.operator for s in self.strategies}
        legalized = relax.transform.LegalizeOps(dict.fromkeys(names, self.legalize))(module)
        if self.errors:
            raise self.errors[0]
        return legalized

    def choose_scheduler(self, own: Scheduler, finish: Scheduler) -> Scheduler:
        """Return what makes the region's loops: the first schedule that was asked for, or ``own``.

        ``finish`` gets the loops of the former. Call it behind :meth:`apply`.
        """
        if not self.schedules:
            return own

        def apply_schedule(function: tirx.PrimFunc) -> ScheduledRegion:
            schedule = Schedule(tvm.IRModule({"main": function}))
            self.schedules[0](schedule)
            return finish(schedule.mod["main"])

        return apply_schedule

    def legalize(self, builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        try:
            return self.apply_strategy(builder, call)
        except UserError as mistake:  # TVM would make a RuntimeError of it
            self.errors.append(mistake)
            return call

    def apply_strategy(self, builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        """Return what the first strategy that applies makes of the call."""
        name = operator_name(call)
        fitting = (s for s in self.strategies if s.operator == name and s.condition(call))
        strategy = next(fitting, Strategy(name))
        if strategy.schedule is not None:
            self.schedules.append(strategy.schedule)
        if strategy.compute is not None:
            return strategy.compute(builder, call)
        own = call.op.get_attr("FLegalize")
        return call if own is None else own(builder, call)

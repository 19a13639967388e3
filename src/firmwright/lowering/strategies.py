"""Selects strategies, which are custom loops that replace TVM's lowering of an operator.

A device passes the user's strategies, and then the device's strategies, to
:func:`firmwright.lowering.region.lower_region`. The first strategy whose condition is true lowers
an operator. TVM lowers the other operators. Strategies run after the integer arithmetic, so they do
not receive operators that were rebuilt on integers. An operator that commutes with a scale, such as
max-pooling, has integer operands.
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
"""Returns whether a strategy supports a call, whose shapes, types and attributes are known."""

Compute = Callable[[relax.BlockBuilder, tvm.ir.Call], relax.Expr]
"""Returns the replacement of a call, usually ``builder.call_te(function, *call.args)``."""

LoopSchedule = Callable[[Schedule], None]
"""Changes the loops of a region, which is one function ``main`` with one block per step."""

Scheduler = Callable[[tirx.PrimFunc], ScheduledRegion]
"""Returns the scheduled loops of a region's function, whose blocks have plain loops."""


def always(_call: tvm.ir.Call) -> bool:
    return True


@dataclass(frozen=True)
class Strategy:
    """A lowering of an ``operator``, such as ``relax.nn.max_pool2d``, to loops.

    If ``compute`` is None, TVM lowers the operator. If ``schedule`` is None, the device schedules
    the loops.
    """

    operator: str
    compute: Compute | None = None
    schedule: LoopSchedule | None = None
    condition: Condition = always


class Legalization:
    """Applies strategies to the operators of one region, and records schedules and errors."""

    def __init__(self, strategies: Sequence[Strategy]) -> None:
        self.strategies = strategies
        self.schedules: list[LoopSchedule] = []
        self.errors: list[UserError] = []

    def apply(self, module: tvm.IRModule) -> tvm.IRModule:
        """Lower all operators to TIR functions. Raises UserError if a user's strategy fails."""
        names = {s.operator for s in self.strategies}
        legalized = relax.transform.LegalizeOps(dict.fromkeys(names, self.legalize))(module)
        if self.errors:
            raise self.errors[0]
        return legalized

    def choose_scheduler(self, scheduler: Scheduler, finish: Scheduler) -> Scheduler:
        """Return the first schedule of the region's strategies, by default ``scheduler``.

        ``finish`` receives the loops of the strategy's schedule. Call this method after
        :meth:`apply`.
        """
        if not self.schedules:
            return scheduler

        def apply_schedule(function: tirx.PrimFunc) -> ScheduledRegion:
            schedule = Schedule(tvm.IRModule({"main": function}))
            self.schedules[0](schedule)
            return finish(schedule.mod["main"])

        return apply_schedule

    def legalize(self, builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        try:
            return self.apply_strategy(builder, call)
        except UserError as mistake:  # TVM would convert the exception to a RuntimeError
            self.errors.append(mistake)
            return call

    def apply_strategy(self, builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        name = operator_name(call)
        fitting = (s for s in self.strategies if s.operator == name and s.condition(call))
        strategy = next(fitting, Strategy(name))
        if strategy.schedule is not None:
            self.schedules.append(strategy.schedule)
        if strategy.compute is not None:
            return strategy.compute(builder, call)
        legalize = call.op.get_attr("FLegalize")
        return call if legalize is None else legalize(builder, call)

"""Assigns a network's operators to the devices of a mix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from firmwright.ir.nodes import IRModule, Var, VarBinding
from firmwright.ir.regions import RuleViolation
from firmwright.ir.relax import main_bindings, read_variables
from firmwright.targets import Device
from firmwright.targets.fact_context import kind_of
from firmwright.targets.placement import Composite


@dataclass(frozen=True)
class DeviceAssignment:
    """The composites of each device, and the rules that other operators break.

    ``offered`` contains all composites that each device accepts. ``taken`` contains the composites
    that each device runs.
    """

    mix: Sequence[Device]
    offered: Mapping[str, Sequence[Composite]]
    taken: Mapping[str, Sequence[Composite]]
    violations: Mapping[str, Mapping[Var, tuple[RuleViolation, ...]]]

    def device_of(self, name: str) -> Device:
        return next((d for d in self.mix if d.name == name), self.mix[-1])

    def find_refusals(
        self, bindings: Sequence[VarBinding], anchor: VarBinding, device: Device
    ) -> tuple[RuleViolation, ...]:
        """Return the reasons why the devices before ``device`` rejected a group's operators."""
        refusals: list[RuleViolation] = []
        for earlier in self.mix[: self.mix.index(device)]:
            name = earlier.name
            stated = [self.violations[name].get(b.var, ()) for b in (anchor, *bindings)]
            if earlier.target.copies and not any(stated):
                continue  # the device only copies tensors
            kind = kind_of(anchor.value)
            unknown = (RuleViolation("operator", f"{name} has no {kind}", operator=kind),)
            broken = next((violations for violations in stated if violations), unknown)
            refusals += [replace(violation, device=name) for violation in broken]
        return tuple(refusals)


CROSSING = RuleViolation(
    "cycle",
    "its group and a group of an earlier device would wait for each other; accept fewer operators "
    "in one group",
)
"""The rule that a group breaks if it reads a group, and this group also reads it."""


def find_crossing(
    bindings: Sequence[VarBinding], before: Sequence[Composite], free: Sequence[Composite]
) -> list[Composite]:
    """Return the composites that form a cycle with composites of earlier devices.

    A single operator cannot close a cycle.
    """
    kept = [c for c in before if len(c.variables) > 1]
    crossing: list[Composite] = []
    for composite in free if kept else ():
        if len(composite.variables) < 2:
            continue
        owners = {v: i for i, c in enumerate((*kept, composite)) for v in c.variables}
        if find_cycle(bindings, owners):
            crossing.append(composite)
        else:
            kept.append(composite)
    return crossing


def find_cycle(bindings: Sequence[VarBinding], owners: Mapping[Var, int]) -> list[object]:
    """Return the groups and variables of a cycle, or an empty list.

    ``owners`` has the numbers of groups of operators. Each element reads the previous element, and
    the first element equals the last.
    """
    bound = {binding.var for binding in bindings}
    reads: dict[object, dict[object, None]] = {}  # sorted, so that messages are reproducible
    for binding in bindings:
        node = owners.get(binding.var, binding.var)
        read = (owners.get(v, v) for v in read_variables(binding.value) if v in bound)
        reads.setdefault(node, {}).update((other, None) for other in read if other != node)
    try:
        TopologicalSorter(reads).prepare()
    except CycleError as error:
        cycle: list[object] = error.args[1]
        return cycle
    return []


def ask_devices(module: IRModule, mix: Sequence[Device]) -> DeviceAssignment:
    """Ask all devices except the last, in order.

    The first device that accepts an operator gets it.
    """
    offered: dict[str, Sequence[Composite]] = {}
    taken: dict[str, Sequence[Composite]] = {}
    violations = {}
    gone: set[Var] = set()
    for device in mix[:-1]:
        placement = device.target.place(module, device.context)
        free = [c for c in placement.composites if gone.isdisjoint(c.variables)]
        before = [c for composites in taken.values() for c in composites]
        crossing = find_crossing(main_bindings(module), before, free)
        free = [c for c in free if c not in crossing]
        gone.update(v for composite in free for v in composite.variables)
        offered[device.name] = [c for c in placement.composites if c not in crossing]
        taken[device.name] = free
        refused = dict.fromkeys((v for c in crossing for v in c.variables), (CROSSING,))
        violations[device.name] = {**placement.violations, **refused}
    return DeviceAssignment(mix, offered, taken, violations)

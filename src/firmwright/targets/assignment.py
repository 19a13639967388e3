"""Assigns a network's operators to the devices of a mix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from firmwright.ir.nodes import IRModule, Var, VarBinding
from firmwright.ir.regions import RuleViolation
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
        found: list[RuleViolation] = []
        for earlier in self.mix[: self.mix.index(device)]:
            name = earlier.name
            stated = [self.violations[name].get(b.var, ()) for b in (anchor, *bindings)]
            if earlier.target.copies and not any(stated):
                continue  # the device only copies tensors
            kind = kind_of(anchor.value)
            unknown = (RuleViolation("operator", f"{name} has no {kind}", operator=kind),)
            broken = next((violations for violations in stated if violations), unknown)
            found += [replace(violation, device=name) for violation in broken]
        return tuple(found)


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
        gone.update(v for composite in free for v in composite.variables)
        offered[device.name] = placement.composites
        taken[device.name] = free
        violations[device.name] = placement.violations
    return DeviceAssignment(mix, offered, taken, violations)

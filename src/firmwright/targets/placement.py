"""What a device takes of a network, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tvm
from tvm import relax

from firmwright.ir.operators import short_name
from firmwright.ir.regions import Refusal
from firmwright.targets import Device


@dataclass(frozen=True)
class Composite:
    """Operators that a device runs as one; nothing else joins them.

    ``variables`` are what they are bound to, in order of execution. No operator outside lies on a
    way from one of them to another. ``reason`` says more than the device does why it is one.
    """

    kind: str
    variables: tuple[relax.Var, ...]
    reason: str = ""


@dataclass(frozen=True)
class RuleViolation:
    """A rule of a device that an operator breaks; the sentence has the value that breaks it."""

    rule: str
    sentence: str


@dataclass(frozen=True)
class Placement:
    """A device's choice: what it takes, and its objections to other operators by variable."""

    composites: tuple[Composite, ...] = ()
    violations: Mapping[relax.Var, tuple[RuleViolation, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Choices:
    """What the devices of a mix chose: composites and objections, by the device's name."""

    mix: Sequence[Device]
    taken: Mapping[str, Sequence[Composite]]
    violations: Mapping[str, Mapping[relax.Var, tuple[RuleViolation, ...]]]

    def device_of(self, name: str) -> Device:
        """Return the device of that name; the last one has what none has taken."""
        return next((d for d in self.mix if d.name == name), self.mix[-1])

    def find_refusals(
        self, bindings: Sequence[relax.VarBinding], anchor: relax.VarBinding, device: Device
    ) -> tuple[Refusal, ...]:
        """Say why the devices before ``device`` did not take a group's operators."""
        found: list[Refusal] = []
        for earlier in self.mix[: self.mix.index(device)]:
            name = earlier.name
            stated = [self.violations[name].get(b.var, ()) for b in (anchor, *bindings)]
            unknown = (RuleViolation("operator", f"{name} has no {short_name(anchor.value)}"),)
            objections = next((o for o in stated if o), unknown)
            found += [Refusal(name, o.rule, o.sentence) for o in objections]
        return tuple(found)


def ask_devices(module: tvm.IRModule, mix: Sequence[Device]) -> Choices:
    """Ask all devices but the last, in order; what one has taken is no longer free."""
    taken: dict[str, Sequence[Composite]] = {}
    objections = {}
    gone: set[relax.Var] = set()
    for device in mix[:-1]:
        placement = device.target.place(module, device.context)
        free = [c for c in placement.composites if gone.isdisjoint(c.variables)]
        gone.update(v for composite in free for v in composite.variables)
        taken[device.name] = free
        objections[device.name] = placement.violations
    return Choices(mix, taken, objections)

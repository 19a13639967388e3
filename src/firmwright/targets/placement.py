"""A device's answer: the operators that it takes, and the rules that others break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firmwright.ir.nodes import Var
from firmwright.ir.regions import RuleViolation


@dataclass(frozen=True)
class Composite:
    """Operators that a device runs as one; nothing else joins them.

    ``variables`` are what they are bound to, in order of execution. No operator outside lies on a
    way from one of them to another. ``reason`` says more than the device does why it is one.
    """

    kind: str
    variables: tuple[Var, ...]
    reason: str = ""


@dataclass(frozen=True)
class Placement:
    """What a device takes, and why it does not take other operators, by their variables."""

    composites: tuple[Composite, ...] = ()
    violations: Mapping[Var, tuple[RuleViolation, ...]] = field(default_factory=dict)

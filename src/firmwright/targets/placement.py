"""Defines a device's placement: the operators to run, and the rules that other operators break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firmwright.ir.nodes import Var
from firmwright.ir.regions import RuleViolation


@dataclass(frozen=True)
class Composite:
    """Operators that a device runs as one function. No other operator joins the group.

    ``variables`` are the variables to which the operators are bound, in order of execution. No path
    between two of these operators contains an operator outside the group. ``reason`` states why the
    device runs this group, if the device's reason is not specific enough.
    """

    kind: str
    variables: tuple[Var, ...]
    reason: str = ""


@dataclass(frozen=True)
class Placement:
    """The operators that a device runs, and the rules that other operators break.

    ``violations`` maps the variable to which an operator is bound to the broken rules.
    """

    composites: tuple[Composite, ...] = ()
    violations: Mapping[Var, tuple[RuleViolation, ...]] = field(default_factory=dict)

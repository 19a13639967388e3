"""What a device asks of an operator, as data: rules on facts, each with its sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from math import inf
from typing import Any, TypeVar

import msgspec
import yaml

from firmwright.ir.regions import Change, Remedy, RuleViolation

T = TypeVar("T")

CONDITIONS: Mapping[str, Callable[[Any, Any, Mapping[str, Any]], bool]] = {
    "is": lambda value, wanted, _: bool(value == wanted),
    "are": lambda values, wanted, _: all(v == wanted for v in values),
    "one_of": lambda value, wanted, _: value in wanted,
    "within": lambda value, ends, _: value is not None and ends[0] <= value <= ends[1],
    "all_within": lambda values, ends, _: all(ends[0] <= v <= ends[1] for v in values),
    "up_to": lambda value, other, facts: bool(value <= facts[other]),
    "same_as": lambda value, other, facts: bool(value == facts[other]),
}
"""What a rule may ask of a fact: (the fact's value, the operand in the rule, all facts)."""

NEAREST: Mapping[str, Callable[[Any, Any, Mapping[str, Any]], Any]] = {
    "is": lambda _value, wanted, _facts: wanted,
    "are": lambda _values, wanted, _facts: wanted,
    "one_of": lambda value, wanted, _: min(wanted, key=lambda each: measure_distance(value, each)),
    "within": lambda value, ends, _: clamp(value, ends),
    "all_within": lambda values, ends, _: [clamp(v, ends) for v in values],
    "up_to": lambda _value, other, facts: facts[other],
    "same_as": lambda _value, other, facts: facts[other],
}
"""The nearest value with which each condition holds."""


@dataclass(frozen=True)
class Rule:
    """Conditions by the fact that they are about, and what to say where one does not hold.

    A rule is about some ``kinds`` of operators, without any about all; and only where the facts
    are as ``when`` says. ``change`` names the facts that whoever makes the model, or the build,
    can change, each with its quantity in words. ``remedy`` lifts the rule where no such change
    does; it may show facts, like the sentence.
    """

    name: str
    where: dict[str, dict[str, Any]]
    sentence: str
    kinds: tuple[str, ...] = ()
    when: dict[str, dict[str, Any]] = field(default_factory=dict)
    change: dict[str, str] = field(default_factory=dict)
    remedy: Remedy | None = None

    def is_violated(self, facts: Mapping[str, Any]) -> bool:
        """Return whether the rule is about these facts and does not hold."""
        asked = not self.kinds or facts["kind"] in self.kinds
        return asked and all_hold(self.when, facts) and not all_hold(self.where, facts)


def clamp(value: Any, ends: Any) -> Any:
    return None if value is None else min(max(value, ends[0]), ends[1])


def measure_distance(value: Any, other: Any) -> float:
    """Return how far numbers, or lists of numbers, are apart; all else is as far as can be."""
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return sum(map(measure_distance, value, other))
    numbers = isinstance(value, int | float) and isinstance(other, int | float)
    return abs(value - other) if numbers else inf


def find_changes(rule: Rule, facts: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return what to change for a broken rule to hold; nothing where that is not known."""
    changes = []
    for fact, asked in rule.where.items():
        if all_hold({fact: asked}, facts):
            continue
        wanted = facts[fact]
        if fact not in rule.change or wanted is None:
            return ()
        for condition, operand in asked.items():
            if not CONDITIONS[condition](wanted, operand, facts):
                wanted = NEAREST[condition](wanted, operand, facts)
        if not all_hold({fact: asked}, {**facts, fact: wanted}):
            return ()
        changes.append(Change(fact, rule.change[fact], facts[fact], wanted))
    return tuple(changes)


def all_hold(conditions: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any]) -> bool:
    return all(
        CONDITIONS[condition](facts[fact], operand, facts)
        for fact, asked in conditions.items()
        for condition, operand in asked.items()
    )


def read_rules(package: str, form: type[T], name: str = "rules.yaml") -> T:
    """Return a package's file of rules as ``form``, which is made of them."""
    text = files(package).joinpath(name).read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), form)


def find_violations(rules: Iterable[Rule], facts: Mapping[str, Any]) -> tuple[RuleViolation, ...]:
    """Return the rules that are broken, their sentences with the facts."""
    shown = {name: format_fact(value) for name, value in facts.items()}
    return tuple(
        RuleViolation(
            rule.name,
            rule.sentence.format(**shown),
            operator=facts.get("kind", ""),
            changes=find_changes(rule, facts),
            remedy=rule.remedy and replace(rule.remedy, change=rule.remedy.change.format(**shown)),
        )
        for rule in rules
        if rule.is_violated(facts)
    )


def format_fact(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return " and ".join(dict.fromkeys(value))
    return str(value)

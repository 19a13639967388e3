"""Defines the rules of a device for operators: conditions on facts, and a sentence."""

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
"""The conditions of rules. The arguments are the fact's value, the rule's operand and all facts."""

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
    """The conditions on facts, and the sentence to report if a condition does not hold.

    A rule applies to operators of its ``kinds``, or to all operators if it has no kinds. A rule
    applies only if the facts meet the conditions of ``when``. ``change`` has the facts that the
    model's supplier or the build can change, with a description of each quantity. The message has
    ``remedy`` if no change of these facts fulfills the rule. The text of the remedy may contain
    facts, like the sentence.
    """

    name: str
    where: dict[str, dict[str, Any]]
    sentence: str
    kinds: tuple[str, ...] = ()
    when: dict[str, dict[str, Any]] = field(default_factory=dict)
    change: dict[str, str] = field(default_factory=dict)
    remedy: Remedy | None = None

    def is_violated(self, facts: Mapping[str, Any]) -> bool:
        asked = not self.kinds or facts["kind"] in self.kinds
        return asked and all_hold(self.when, facts) and not all_hold(self.where, facts)


def clamp(value: Any, ends: Any) -> Any:
    return None if value is None else min(max(value, ends[0]), ends[1])


def measure_distance(value: Any, other: Any) -> float:
    """Return the distance of two numbers or two lists of numbers, or infinity for other types."""
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return sum(map(measure_distance, value, other))
    numbers = isinstance(value, int | float) and isinstance(other, int | float)
    return abs(value - other) if numbers else inf


def find_changes(rule: Rule, facts: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return the changes after which a broken rule holds, or () if no change is known."""
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
    """Return the rules in a YAML file of a package, converted to ``form``.

    Raises msgspec.ValidationError if the file does not fit ``form``.
    """
    text = files(package).joinpath(name).read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), form)


def find_violations(rules: Iterable[Rule], facts: Mapping[str, Any]) -> tuple[RuleViolation, ...]:
    """Return the rules that the facts break, with sentences that contain the facts."""
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

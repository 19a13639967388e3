"""What a device asks of an operator, as data: rules on facts, each with its sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
import yaml

from firmwright.ir.regions import RuleViolation

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


@dataclass(frozen=True)
class Rule:
    """Conditions by the fact that they are about, and what to say where one does not hold.

    A rule is about some ``kinds`` of operators, without any about all; and only where the facts
    are as ``when`` says.
    """

    name: str
    where: dict[str, dict[str, Any]]
    sentence: str
    kinds: tuple[str, ...] = ()
    when: dict[str, dict[str, Any]] = field(default_factory=dict)

    def is_violated(self, facts: Mapping[str, Any]) -> bool:
        """Tell whether the rule is about these facts and does not hold."""
        asked = not self.kinds or facts["kind"] in self.kinds
        return asked and all_hold(self.when, facts) and not all_hold(self.where, facts)


def all_hold(conditions: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any]) -> bool:
    return all(
        CONDITIONS[condition](facts[fact], operand, facts)
        for fact, asked in conditions.items()
        for condition, operand in asked.items()
    )


def read_rules(package: str, form: type[T]) -> T:
    """Return a package's ``rules.yaml`` as ``form``, which is made of rules."""
    text = files(package).joinpath("rules.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), form)


def find_violations(rules: Iterable[Rule], facts: Mapping[str, Any]) -> tuple[RuleViolation, ...]:
    """Return the rules that are broken, their sentences with the facts."""
    shown = {name: format_fact(value) for name, value in facts.items()}
    return tuple(
        RuleViolation(rule.name, rule.sentence.format(**shown))
        for rule in rules
        if rule.is_violated(facts)
    )


def format_fact(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return " and ".join(dict.fromkeys(value))
    return str(value)

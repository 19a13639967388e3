"""Whether the accelerator can run a layer: the rules of ``rules.yaml``, asked of its facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml

from firmwright.partition.placement import Objection
from firmwright.targets.soma_dory.facts import layer_facts, operator_facts
from firmwright.targets.soma_dory.layer import Kind, Layer
from firmwright.targets.soma_dory.matching import Match

CONDITIONS: Mapping[str, Callable[[Any, Any, Mapping[str, Any]], bool]] = {
    "is": lambda value, wanted, _: bool(value == wanted),
    "are": lambda values, wanted, _: all(v == wanted for v in values),
    "one_of": lambda value, wanted, _: value in wanted,
    "within": lambda value, ends, _: value is not None and ends[0] <= value <= ends[1],
    "same_as": lambda value, other, facts: bool(value == facts[other]),
}
"""What a rule may ask of a fact: (the fact's value, the operand in the rule, all facts)."""


@dataclass(frozen=True)
class Rule:
    """Conditions by the fact that they are about, and what to say where one does not hold."""

    name: str
    where: dict[str, dict[str, Any]]
    sentence: str
    kinds: tuple[Kind, ...] = tuple(Kind)

    def holds(self, facts: Mapping[str, Any]) -> bool:
        return all(
            CONDITIONS[condition](facts[fact], operand, facts)
            for fact, asked in self.where.items()
            for condition, operand in asked.items()
        )


@dataclass(frozen=True)
class Rules:
    """The rules for operators as the network has them, and for the layers that they make."""

    operators: tuple[Rule, ...]
    layer: tuple[Rule, ...]


@cache
def rules() -> Rules:
    text = files("firmwright.targets.soma_dory").joinpath("rules.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), Rules)


def broken_by_operators(match: Match) -> tuple[Objection, ...]:
    """Return the rules that operators break, before they are read as a layer."""
    return objections(rules().operators, operator_facts(match))


def broken_by_layer(layer: Layer, accelerator: Mapping[str, Any]) -> tuple[Objection, ...]:
    """Return the rules that a layer breaks; ``accelerator`` has the platform's numbers."""
    return objections(rules().layer, layer_facts(layer, accelerator))


def objections(asked: tuple[Rule, ...], facts: Mapping[str, Any]) -> tuple[Objection, ...]:
    shown = {name: as_text(value) for name, value in facts.items()}
    return tuple(
        Objection(rule.name, rule.sentence.format(**shown))
        for rule in asked
        if facts["kind"] in rule.kinds and not rule.holds(facts)
    )


def as_text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return " and ".join(dict.fromkeys(value))
    return str(value)

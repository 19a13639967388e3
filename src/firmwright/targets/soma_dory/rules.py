"""Whether the accelerator can run a layer: the rules of ``rules.yaml``, asked of its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from firmwright.ir.regions import RuleViolation
from firmwright.targets.rules import Rule, find_violations, read_rules
from firmwright.targets.soma_dory.facts import layer_facts, operator_facts
from firmwright.targets.soma_dory.layer import Layer
from firmwright.targets.soma_dory.matching import Match


@dataclass(frozen=True)
class SomaRules:
    """The rules for operators as the network has them, and for the layers that they make."""

    operators: tuple[Rule, ...]
    layer: tuple[Rule, ...]


@cache
def soma_rules() -> SomaRules:
    return read_rules("firmwright.targets.soma_dory", SomaRules)


def check_operators(match: Match) -> tuple[RuleViolation, ...]:
    """Return the rules that operators break, before they are read as a layer."""
    return find_violations(soma_rules().operators, operator_facts(match))


def check_layer(layer: Layer, accelerator: Mapping[str, Any]) -> tuple[RuleViolation, ...]:
    """Return the rules that a layer breaks; ``accelerator`` has the platform's numbers."""
    return find_violations(soma_rules().layer, layer_facts(layer, accelerator))

"""Whether the accelerator can run a layer: the rules of ``rules.yaml``, asked of its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from firmwright.targets.placement import Objection
from firmwright.targets.rules import Rule, objections, read_rules
from firmwright.targets.soma_dory.facts import layer_facts, operator_facts
from firmwright.targets.soma_dory.layer import Layer
from firmwright.targets.soma_dory.matching import Match


@dataclass(frozen=True)
class Rules:
    """The rules for operators as the network has them, and for the layers that they make."""

    operators: tuple[Rule, ...]
    layer: tuple[Rule, ...]


@cache
def rules() -> Rules:
    return read_rules("firmwright.targets.soma_dory", Rules)


def broken_by_operators(match: Match) -> tuple[Objection, ...]:
    """Return the rules that operators break, before they are read as a layer."""
    return objections(rules().operators, operator_facts(match))


def broken_by_layer(layer: Layer, accelerator: Mapping[str, Any]) -> tuple[Objection, ...]:
    """Return the rules that a layer breaks; ``accelerator`` has the platform's numbers."""
    return objections(rules().layer, layer_facts(layer, accelerator))

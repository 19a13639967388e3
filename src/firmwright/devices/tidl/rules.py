"""The operators that TIDL has and what it asks of them, from ``rules.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from firmwright.targets.rules import Rule, read_rules


@dataclass(frozen=True)
class TidlRules:
    """``operators`` by Relax's names; rules on operators, and on the target's options."""

    operators: tuple[str, ...]
    rules: tuple[Rule, ...]
    options: tuple[Rule, ...]


@cache
def tidl_rules() -> TidlRules:
    return read_rules("firmwright.devices.tidl", TidlRules)

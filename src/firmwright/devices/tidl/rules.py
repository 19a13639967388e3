"""Loads the operators of TIDL, and the rules on them, from ``rules.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from firmwright.targets.rules import Rule, read_rules


@dataclass(frozen=True)
class TidlRules:
    """The rules; ``operators`` has TIDL's operators by their Relax names.

    Some rules apply to operators, and others to the target's options.
    """

    operators: tuple[str, ...]
    rules: tuple[Rule, ...]
    options: tuple[Rule, ...]


@cache
def tidl_rules() -> TidlRules:
    return read_rules("firmwright.devices.tidl", TidlRules)

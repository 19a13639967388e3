"""Loads the operators of TIDL, and their rules, from ``rules.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from firmwright.targets.rules import Rule, read_rules


@dataclass(frozen=True)
class TidlRules:
    """The operators of TIDL, by their Relax names, and the rules for them.

    ``options`` has the rules for the target's options.
    """

    operators: tuple[str, ...]
    rules: tuple[Rule, ...]
    options: tuple[Rule, ...]


@cache
def tidl_rules() -> TidlRules:
    return read_rules("firmwright.devices.tidl", TidlRules)

"""The operators that SiMa's tables list and their conditions, from ``rules.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from firmwright.targets.rules import Rule, read_rules


@dataclass(frozen=True)
class MlaRules:
    """``operators`` has the precisions of each by Relax's name; ``fused`` joins what is before it.

    ``rules`` are on operators, ``options`` on the target's options.
    """

    operators: dict[str, tuple[str, ...]]
    fused: tuple[str, ...]
    rules: tuple[Rule, ...]
    options: tuple[Rule, ...]


@cache
def mla_rules() -> MlaRules:
    return read_rules("firmwright.devices.mla", MlaRules)

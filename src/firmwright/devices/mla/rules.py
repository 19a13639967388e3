"""Loads the operators in SiMa's tables, and their conditions, from ``rules.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from firmwright.targets.rules import Rule, read_rules


@dataclass(frozen=True)
class MlaRules:
    """The operators of the MLA and their rules.

    ``operators`` has the precisions of each operator by its Relax name. ``fused`` operators are
    part of the preceding operator. ``rules`` apply to operators. ``options`` apply to the target's
    options.
    """

    operators: dict[str, tuple[str, ...]]
    fused: tuple[str, ...]
    rules: tuple[Rule, ...]
    options: tuple[Rule, ...]


@cache
def mla_rules() -> MlaRules:
    return read_rules("firmwright.devices.mla", MlaRules)

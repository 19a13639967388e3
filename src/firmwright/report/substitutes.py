"""Finds substitutes for operators that a device does not support, in ``substitutes.yaml``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from firmwright.ir.regions import Remedy, Work
from firmwright.targets.fact_context import Facts
from firmwright.targets.rules import all_hold, read_rules

End = Literal["start", "end"]


@dataclass(frozen=True)
class Substitute:
    """A substitute for operators of some ``kinds``, on devices that support all of ``needs``.

    ``when`` has conditions on the operator's facts, ``at`` on its place in the network, if any.
    """

    kinds: tuple[str, ...]
    change: str
    needs: tuple[str, ...] = ()
    when: dict[str, dict[str, Any]] = field(default_factory=dict)
    at: End | None = None
    work: Work = "other"


@cache
def read_substitutes() -> tuple[Substitute, ...]:
    return read_rules("firmwright.report", tuple[Substitute, ...], "substitutes.yaml")


def find_substitute(
    facts: Facts, operators: Collection[str], ends: Collection[End]
) -> Remedy | None:
    """Return the substitute for an operator with these facts on a device with ``operators``.

    ``ends`` states whether the operator reads the network's inputs, and whether it writes the
    network's outputs.
    """
    kind = facts["kind"]
    for known in read_substitutes():
        fits = kind in known.kinds and {*known.needs} <= {*operators}
        if fits and (known.at is None or known.at in ends) and all_hold(known.when, facts):
            return Remedy(known.change.format(kind=kind), known.work)
    return None

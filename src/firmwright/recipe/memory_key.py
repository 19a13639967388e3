"""Checks the key ``memory``, which selects memories for all data of a kind, or for layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firmwright.errors import UserError, suggest_known
from firmwright.toolchain.platforms import Platform

WEIGHTS, ARENA = "weights", "arena"
KINDS = (WEIGHTS, ARENA)
"""The kinds of data that a pin names, in addition to layers: all constants, and the arenas."""


class PinError(UserError):
    """An invalid pin. ``key`` is the recipe's key for the pinned data."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)


def find_pin_errors(pins: Mapping[str, str], platform: Platform) -> Iterator[PinError]:
    """Yield the pins to memories that the platform does not have, or that are read-only."""
    for key, memory in pins.items():
        if not platform.memories:
            yield PinError(
                key, f"the platform '{platform.name}' states no memories; remove the key"
            )
        elif memory not in platform.memories:
            hint = suggest_known(memory, platform.memories)
            yield PinError(key, f"the platform '{platform.name}' has no memory '{memory}'{hint}")
        elif key == ARENA and platform.memories[memory].read_only:
            yield PinError(
                key,
                f"the program writes its arena, and '{memory}' is read-only; choose another memory",
            )


def rank(key: str) -> int:
    return 0 if key in KINDS else 1 if "*" in key or "?" in key else 2

"""What a recipe's ``memory`` may say: everything of a kind, or layers, and in which memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firmwright.errors import UserError, suggest_known
from firmwright.toolchain.platforms import Platform

WEIGHTS, ARENA = "weights", "arena"
KINDS = (WEIGHTS, ARENA)
"""What a pin names beside layers: all constants, and all that lies in an arena."""


class PinError(UserError):
    """A pin that cannot be followed: ``key`` is the recipe's word for what it pins."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)


def find_pin_errors(pins: Mapping[str, str], platform: Platform) -> Iterator[PinError]:
    """Yield the pins to memories that the platform does not have, or that are not written."""
    for key, memory in pins.items():
        if not platform.memories:
            yield PinError(key, f"the platform '{platform.name}' states no memories")
        elif memory not in platform.memories:
            hint = suggest_known(memory, platform.memories)
            yield PinError(key, f"the platform '{platform.name}' has no memory '{memory}'{hint}")
        elif key == ARENA and platform.memories[memory].read_only:
            yield PinError(key, f"the program writes its arena, and '{memory}' is read-only")


def rank(key: str) -> int:
    """Return how much a pin counts: a kind least, then a pattern, then a name."""
    return 0 if key in KINDS else 1 if "*" in key or "?" in key else 2

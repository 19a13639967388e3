"""Plans lifetimes and offsets of buffers, and checks the memory of the platform."""

from __future__ import annotations

from firmwright.planning.memory import (
    MemoryUse,
    Program,
    check_memory,
    list_taken,
    memory_uses,
)
from firmwright.planning.memory_assignment import MemoryChoices
from firmwright.planning.plan import Plan, make_plan

__all__ = [
    "MemoryChoices",
    "MemoryUse",
    "Plan",
    "Program",
    "check_memory",
    "list_taken",
    "make_plan",
    "memory_uses",
]

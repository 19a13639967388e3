"""Lifetimes, offsets, and whether a network fits the platform's memory."""

from __future__ import annotations

from firmwright.planning.plan import MemoryUse, Plan, Program, check_memory, make_plan, memory_uses

__all__ = ["MemoryUse", "Plan", "Program", "check_memory", "make_plan", "memory_uses"]

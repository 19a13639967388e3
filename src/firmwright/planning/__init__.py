"""Lifetimes, offsets, and whether a network fits the platform's memory."""

from __future__ import annotations

from firmwright.planning.plan import Plan, Program, check_memory, make_plan, ram_needed

__all__ = ["Plan", "Program", "check_memory", "make_plan", "ram_needed"]

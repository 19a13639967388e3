"""Reads the switches of the command line that show why stages run."""

from __future__ import annotations

from doit import get_var

WHY, DRY_RUN = "why", "dry_run"


def is_asked(switch: str) -> bool:
    """Return whether the command line contains a switch."""
    return get_var(switch) not in (None, "0")

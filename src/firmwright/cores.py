"""How many processors there are to work on."""

from __future__ import annotations

import os


def count_cores() -> int:
    """Return the processors that this process may use, which may be fewer than the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""Reads switches of the command line, and measures the time of each stage for ``profile=1``."""

from __future__ import annotations

import builtins
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from doit import get_var

PROFILE = "profile"

_spent: dict[str, float] = {"imports": 0.0, "hashing": 0.0}
"""The processor seconds of this process. Nested imports are part of the outermost import."""


@dataclass(frozen=True)
class Times:
    """The seconds of a stage.

    ``total`` is elapsed time, and the other fields are processor time. ``programs`` is the time of
    compilers and emulators, which may run in parallel. ``work`` is the time of the stage's code
    without ``imports`` and ``hashing``.
    """

    total: float
    imports: float
    hashing: float
    work: float
    programs: float


@contextmanager
def count_time(name: str) -> Iterator[None]:
    before, start = _spent[name], time.process_time()
    try:
        yield
    finally:
        _spent[name] = before + time.process_time() - start


@contextmanager
def measure(values: dict[str, Any]) -> Iterator[None]:
    """Store the :class:`Times` of a block in ``values`` if a profile is requested."""
    if not is_asked(PROFILE):
        yield
        return
    count_imports()
    before = read_clocks()
    try:
        yield
    finally:
        total, exclusive, programs, imports, hashing = (
            now - then for now, then in zip(read_clocks(), before, strict=True)
        )
        work = abs(exclusive - imports - hashing)  # only rounding makes the difference negative
        values["times"] = asdict(Times(total, imports, hashing, work, programs))


def read_clocks() -> tuple[float, ...]:
    """Return the elapsed time and the processor times.

    The processor times are the times of the process, its children, imports and hashing.
    """
    times = os.times()
    programs = times.children_user + times.children_system
    return (
        time.perf_counter(),
        time.process_time(),
        programs,
        _spent["imports"],
        _spent["hashing"],
    )


@cache
def count_imports() -> None:
    """Count the time of later imports in this process and its forks."""
    import_module = builtins.__import__

    def count(*arguments: Any, **named: Any) -> Any:
        with count_time("imports"):
            return import_module(*arguments, **named)

    builtins.__import__ = count


WHY, DRY_RUN = "why", "dry_run"
VERBOSE, DEBUG, LOG = "verbose", "debug", "log"
SHOWN = (WHY, DRY_RUN, VERBOSE, DEBUG, LOG)
"""The arguments that change the output of a build, but not its result."""


def is_asked(switch: str) -> bool:
    return get_var(switch) not in (None, "0")

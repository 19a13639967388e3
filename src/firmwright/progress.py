"""Reports the progress of a stage: long loops report steps, and a terminal shows the steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

PAUSE = 0.1
"""The minimum time in seconds between two reports, because a step may be a single byte."""

BYTES = "bytes"


@dataclass(frozen=True)
class Progress:
    """The progress of a task: ``done`` of ``total`` steps. ``unit`` is a step's plural name."""

    task: str
    unit: str
    done: int
    total: int


class _Reports:
    """The listener and the current task of this process, which has one task at a time."""

    listener: Callable[[Progress], None] | None = None
    task = ""
    last = 0.0


def listen(listener: Callable[[Progress], None] | None) -> None:
    """Pass every report to ``listener``, also the reports of processes that are forked later."""
    _Reports.listener = listener


def begin_task(name: str) -> None:
    _Reports.task, _Reports.last = name, 0.0


def get_task() -> str:
    """Return the name of this process's task, or '' before the first task."""
    return _Reports.task


def report(unit: str, done: int, total: int) -> None:
    """Report ``done`` of ``total`` steps. Most reports of a fast loop are dropped."""
    if _Reports.listener is None:
        return
    now = time.monotonic()
    if done in (0, total) or now - _Reports.last > PAUSE:
        _Reports.last = now
        _Reports.listener(Progress(_Reports.task, unit, done, total))


def track(items: Collection[T], unit: str) -> Iterator[T]:
    """Yield the items, and report the number of finished items."""
    for done, item in enumerate(items):
        report(unit, done, len(items))
        yield item
    report(unit, len(items), len(items))

"""How far a stage is. Whoever loops over something long says so; a terminal may listen."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

PAUSE = 0.1
"""Seconds between two reports: nobody reads faster, and a byte may be a step."""

BYTES = "bytes"


@dataclass(frozen=True)
class Progress:
    """``done`` of ``total`` steps of a task; ``unit`` says in the plural what a step is."""

    task: str
    unit: str
    done: int
    total: int


class _Reports:
    """Who listens, and what this process works on: one task at a time."""

    listener: Callable[[Progress], None] | None = None
    task = ""
    last = 0.0


def listen(listener: Callable[[Progress], None] | None) -> None:
    """Have every report passed on, also by processes that are forked from now on."""
    _Reports.listener = listener


def begin_task(name: str) -> None:
    """Let all that follows belong to the task of this name."""
    _Reports.task, _Reports.last = name, 0.0


def report(unit: str, done: int, total: int) -> None:
    """Say that so many steps are done; most of the reports of a quick loop are dropped."""
    if _Reports.listener is None:
        return
    now = time.monotonic()
    if done in (0, total) or now - _Reports.last > PAUSE:
        _Reports.last = now
        _Reports.listener(Progress(_Reports.task, unit, done, total))


def track(items: Collection[T], unit: str) -> Iterator[T]:
    """Yield the items, and report how many of them are done."""
    for done, item in enumerate(items):
        report(unit, done, len(items))
        yield item
    report(unit, len(items), len(items))

"""Defines the end of jobs and the receiver of their events, on this machine and on a cluster.

Each fleet imports this module, so it does not import asyncio or dask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from firmwright.errors import UserError

POLL = 0.5
"""The interval in seconds at which new and lost workers are detected."""


class ClusterError(UserError):
    """Raised if jobs cannot continue, because the scheduler or all workers are gone."""


@dataclass
class Stop:
    """The reason why jobs must stop; empty while they may continue.

    ``code`` is the exit code of the command if a signal stops it, and 0 in other cases.
    """

    reason: str = ""
    code: int = 0


class Watcher(Protocol):
    """Receives the events of jobs."""

    def refuse(self, worker: str, reasons: Sequence[str]) -> None: ...

    def start(self, job: str, worker: str) -> None: ...

    def lose(self, job: str) -> None: ...

"""Runs jobs on this machine alone, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from .lifeline import hold_lifeline
from .order import Order

T = TypeVar("T")


def run_here(orders: Sequence[Order], work: Callable[[Order, int], T], most: int) -> Iterator[T]:
    """Yield what ``work`` returns for each job, in the order in which they end.

    So many run at a time. ``work`` gets an end of a lifeline too: all programs end where the caller
    does not go on.
    """
    with ThreadPoolExecutor(most) as pool, hold_lifeline() as watched:
        running = [pool.submit(work, order, watched) for order in orders]
        try:
            for ended in as_completed(running):
                yield ended.result()
        finally:
            for waiting in running:
                waiting.cancel()

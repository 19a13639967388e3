"""Computes the offsets of buffers in one static arena.

Buffers that are not alive at the same time may overlap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate

from firmwright.ir.regions import RAM

ALIGNMENT = 16
"""The alignment in bytes, which is enough for any element type and for 128-bit vector loads."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor or scratch buffer that is in use from step ``first`` to step ``last``, inclusive.

    ``offset`` is the byte offset of the buffer in the arena. It is 0 before the buffer is placed.
    """

    name: str
    bytes: int
    first: int
    last: int
    memory: str = RAM
    offset: int = 0

    @property
    def end(self) -> int:
        return self.offset + self.bytes

    def is_alive_with(self, other: Buffer) -> bool:
        return self.first <= other.last and other.first <= self.last


ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.bytes, b.first),
    lambda b: (-(b.last - b.first), -b.bytes, b.first),
    lambda b: (-b.bytes * (b.last - b.first + 1), b.first),
    lambda b: (b.first, -b.bytes),
    lambda b: (-b.last, -b.bytes),
)
"""The orders of greedy placement. The planner tries all orders and keeps the smallest arena."""


IMPROVEMENTS = 32
"""The number of placements to try from each order."""


def place_buffers(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Return the buffers with offsets in a small arena.

    Buffers that are alive together do not overlap. The result is deterministic. The function tries
    greedy best-fit in several orders, improves each order, and stops at the lower bound.
    """
    floor, beside = lower_bound(buffers), find_neighbors(buffers)
    best: list[Buffer] = []
    least = 0
    for order in sort_in_orders(buffers) if buffers else ():
        trial = Trial(order, beside)
        for _ in range(IMPROVEMENTS):
            highest = trial.find_highest()
            taken = align(highest.end)
            if not best or taken < least:
                best, least = [*trial.placed.values()], taken
            if least == floor:
                return sort_by_offset(best)
            trial.give_first_choice(highest.name)
    return sort_by_offset(best)


def sort_by_offset(placed: Iterable[Buffer]) -> list[Buffer]:
    return sorted(placed, key=lambda p: (p.first, p.offset, p.name))


def sort_in_orders(buffers: Sequence[Buffer]) -> list[list[Buffer]]:
    by_name = sorted(buffers, key=lambda b: b.name)
    return [sorted(by_name, key=order) for order in ORDERS]


def find_neighbors(buffers: Iterable[Buffer]) -> dict[str, list[str]]:
    """Return for each buffer's name the names of the buffers that are alive at the same time."""
    beside: dict[str, list[str]] = {b.name: [] for b in buffers}
    alive: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda b: b.first):
        alive = [other for other in alive if other.is_alive_with(buffer)]
        for other in alive:
            beside[other.name].append(buffer.name)
            beside[buffer.name].append(other.name)
        alive.append(buffer)
    return beside


class Trial:
    """The placement of each buffer next to the earlier buffers of an order.

    If a buffer becomes the first in the order, only the buffers that it affects move. ``ends`` is a
    heap of the buffers' ends, which also contains outdated ends.
    """

    def __init__(self, order: Sequence[Buffer], beside: Mapping[str, Sequence[str]]) -> None:
        self.beside = beside
        self.placed = {b.name: b for b in order}
        self.rank = {b.name: rank for rank, b in enumerate(order)}
        self.least_rank = 0
        self.ends: list[tuple[int, int, str]] = []
        for buffer in order:
            self.place(buffer.name)

    def place(self, name: str) -> bool:
        """Place a buffer next to the earlier buffers, and return whether its offset changed."""
        before, rank = self.placed[name], self.rank[name]
        others = [self.placed[o] for o in self.beside[name] if self.rank[o] < rank]
        self.placed[name] = after = find_best_fit(before, others)
        heappush(self.ends, (-after.end, rank, name))
        return after.offset != before.offset

    def find_highest(self) -> Buffer:
        """Return the buffer with the highest end, or the first buffer if there are several.

        The order places this buffer too late.
        """
        end, rank, name = self.ends[0]
        while (-end, rank) != (self.placed[name].end, self.rank[name]):  # an outdated end
            heappop(self.ends)
            end, rank, name = self.ends[0]
        return self.placed[name]

    def give_first_choice(self, name: str) -> None:
        """Place all buffers again, with this buffer as the first in the order."""
        self.rank[name] = self.least_rank = self.least_rank - 1
        waiting, reached = [(self.rank[name], name)], {name}
        while waiting:
            rank, buffer = heappop(waiting)
            if self.place(buffer) or buffer == name:
                for other in self.beside[buffer]:
                    if self.rank[other] > rank and other not in reached:
                        reached.add(other)
                        heappush(waiting, (self.rank[other], other))


class Arena:
    """Buffers that are placed in one order, and the number of bytes that the arena needs."""

    def __init__(self) -> None:
        self.placed: list[Buffer] = []
        self.bytes = 0
        self._alive: dict[int, list[Buffer]] = defaultdict(list)

    def find_offset(self, buffer: Buffer) -> Buffer:
        """Return the buffer in the smallest sufficient gap between the buffers alive with it."""
        steps = range(buffer.first, buffer.last + 1)
        beside = {other.name: other for step in steps for other in self._alive[step]}
        return find_best_fit(buffer, beside.values())

    def add(self, buffer: Buffer) -> None:
        placed = self.find_offset(buffer)
        self.placed.append(placed)
        self.bytes = max(self.bytes, align(placed.end))
        for step in range(buffer.first, buffer.last + 1):
            self._alive[step].append(placed)


def find_best_fit(buffer: Buffer, neighbors: Iterable[Buffer]) -> Buffer:
    """Return the buffer in the smallest sufficient gap between its neighbors.

    If no gap is sufficient, the buffer is after the last neighbor.
    """
    best_gap, best_offset, end = None, 0, 0
    for neighbor in sorted(neighbors, key=lambda p: (p.offset, p.end)):
        gap = neighbor.offset - end
        if gap >= buffer.bytes and (best_gap is None or gap < best_gap):
            best_gap, best_offset = gap, end
        end = max(end, align(neighbor.end))
    return replace(buffer, offset=end if best_gap is None else best_offset)


def align(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def arena_bytes(placed: Sequence[Buffer]) -> int:
    return max((align(p.end) for p in placed), default=0)


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Return the maximum over all steps of the bytes that are alive.

    No placement can need fewer bytes.
    """
    changes: Counter[int] = Counter()
    for buffer in buffers:
        changes[buffer.first] += align(buffer.bytes)
        changes[buffer.last + 1] -= align(buffer.bytes)
    return max(accumulate(changes[step] for step in sorted(changes)), default=0)

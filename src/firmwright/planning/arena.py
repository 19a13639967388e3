"""Offsets in one static arena for buffers that do not all live at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

ALIGNMENT = 16
"""Bytes; enough for any element type and for 128-bit vector loads."""


@dataclass(frozen=True)
class Lifetime:
    """A buffer of ``bytes`` that is needed from step ``first`` to step ``last``, both included."""

    name: str
    bytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class PlacedBuffer:
    """A lifetime with its byte offset in the arena."""

    lifetime: Lifetime
    offset: int

    @property
    def end(self) -> int:
        return self.offset + self.lifetime.bytes


ORDERS: tuple[Callable[[Lifetime], tuple[int, ...]], ...] = (
    lambda b: (-b.bytes, b.first),
    lambda b: (-(b.last - b.first), -b.bytes, b.first),
    lambda b: (-b.bytes * (b.last - b.first + 1), b.first),
    lambda b: (b.first, -b.bytes),
    lambda b: (-b.last, -b.bytes),
)
"""Greedy placement depends on the order; these are tried and the smallest arena is kept."""


IMPROVEMENTS = 32
"""Placements tried from each order."""


def place_buffers(buffers: Sequence[Lifetime]) -> list[PlacedBuffer]:
    """Place the buffers so that those alive together do not overlap; keep the arena small.

    Deterministic. Tries greedy best-fit in several orders, improves each, and stops at the
    lower bound.
    """
    floor = lower_bound(buffers)
    best: list[PlacedBuffer] = []
    for order in sort_in_orders(buffers):
        placed = place_greedily(order)
        for _ in range(IMPROVEMENTS):
            if not best or arena_bytes(placed) < arena_bytes(best):
                best = placed
            if arena_bytes(best) == floor:
                break
            # What ends highest is what was placed too late: it gets first choice.
            highest = max(placed, key=lambda p: p.end).lifetime
            order = [highest, *(b for b in order if b is not highest)]
            placed = place_greedily(order)
    return sorted(best, key=lambda p: (p.lifetime.first, p.offset, p.lifetime.name))


def sort_in_orders(buffers: Sequence[Lifetime]) -> list[list[Lifetime]]:
    by_name = sorted(buffers, key=lambda b: b.name)
    return [sorted(by_name, key=order) for order in ORDERS]


def place_greedily(buffers: Sequence[Lifetime]) -> list[PlacedBuffer]:
    """Put each buffer into the smallest gap that fits it, between those alive with it."""
    placed: list[PlacedBuffer] = []
    for buffer in buffers:
        neighbours = sorted(
            (p for p in placed if p.lifetime.overlaps(buffer)), key=lambda p: (p.offset, p.end)
        )
        best_gap, best_offset, end = None, 0, 0
        for neighbour in neighbours:
            gap = neighbour.offset - end
            if gap >= buffer.bytes and (best_gap is None or gap < best_gap):
                best_gap, best_offset = gap, end
            end = max(end, align(neighbour.end))
        placed.append(PlacedBuffer(buffer, end if best_gap is None else best_offset))
    return placed


def align(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def arena_bytes(placed: Sequence[PlacedBuffer]) -> int:
    return max((align(p.end) for p in placed), default=0)


def lower_bound(buffers: Sequence[Lifetime]) -> int:
    """Return the most bytes alive at any one step: no placement can need less."""
    steps = sorted({b.first for b in buffers})
    return max(
        (sum(align(b.bytes) for b in buffers if b.first <= s <= b.last) for s in steps), default=0
    )

"""Orders a layer's taps in the largest groups whose sums fit 16 bits.

Two sums share a word of 32 bits if the lower sum fits 16 bits. After each group, the C separates
the sums, which costs as much as one and a half products. Taps may be added in any order. Large
weights in different groups allow larger groups. With one order of taps, channels with small weights
may have larger groups than other channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firmwright.ir.layer import Array

LARGEST_GROUP = 6
"""The maximum taps in a group. Larger groups save little, and each size needs a loop in flash."""

SMALL_GROUP = 4
"""The maximum taps of a group that is too small for a separate iteration of its loop."""

EXCHANGES = 300
"""The maximum exchanges of two taps in a search for groups of one size."""

PARTNERS = 192
"""The number of positions to try for a tap of the worst group."""

MARGINS = (1.15, 1.25, 1.35, 1.5)
"""Factors by which a channel's weights may be below the limit of its groups."""

ATTEMPTS = 24
"""The maximum number of splits of the channels to try."""


def largest_group_weight(input_dtype: str) -> int:
    """Return the limit of the sum of the magnitudes of a group's weights."""
    limits = np.iinfo(input_dtype)
    return 32767 // max(-int(limits.min), int(limits.max))


@dataclass(frozen=True, eq=False)
class Grouping:
    size: int
    channels: Array


@dataclass(frozen=True, eq=False)
class TapOrder:
    """The taps in the order of their products. The last group may have fewer taps."""

    order: Array
    groupings: tuple[Grouping, ...]


def find_tap_order(weights: Array, limit: int, block: int, reach: int) -> TapOrder:
    """Return an order of taps for large groups of one or two sizes, within ``limit``.

    ``weights`` is (O, taps). In each group, the magnitudes of each channel's weights add up to at
    most ``limit``. A single tap never exceeds ``limit``. Each grouping except one has a multiple of
    ``block`` channels. No tap moves by more than ``reach`` positions.
    """
    magnitudes = np.abs(weights).T.astype(np.int16)
    taps = Taps(magnitudes, limit, reach)
    size, order = 1, np.arange(len(magnitudes))
    for larger in range(2, LARGEST_GROUP + 1):
        candidate = taps.fill_groups([Grouping(larger, np.arange(len(weights)))])
        if candidate is None:
            break
        size, order = larger, candidate
    for groupings in split_channels(magnitudes, size, limit, block)[:ATTEMPTS]:
        candidate = taps.fill_groups(groupings)
        if candidate is not None:
            return TapOrder(candidate, tuple(groupings))
    return TapOrder(order, (Grouping(size, np.arange(len(weights))),))


def split_channels(magnitudes: Array, size: int, limit: int, block: int) -> list[list[Grouping]]:
    """Return splits that assign larger groups to some channels, the cheapest split first."""
    taps, count = magnitudes.shape
    possible = taps * limit / np.maximum(magnitudes.sum(0, dtype=np.int64), 1)
    order = np.argsort(possible, kind="stable")
    splits = {}
    for smaller in (size, size + 1):
        for larger in range(smaller + 1, LARGEST_GROUP + 1):
            for margin in MARGINS:
                few = count - int((possible >= margin * larger).sum()) // block * block
                if possible.min() >= smaller and 0 < few < count:
                    cost = few * cost_of(taps, smaller) + (count - few) * cost_of(taps, larger)
                    splits[cost, smaller, larger, few] = [
                        Grouping(smaller, np.sort(order[:few])),
                        Grouping(larger, np.sort(order[few:])),
                    ]
    return [splits[key] for key in sorted(splits) if key[0] < count * cost_of(taps, size)]


def groups_of_round(size: int) -> int:
    """Return the number of groups of a size in one iteration of the loop over taps."""
    return 2 if size <= SMALL_GROUP else 1


def count_groups(taps: int, size: int) -> int:
    """Return the number of groups of a sum, in whole iterations.

    Additional taps have zero weights.
    """
    taken = size * groups_of_round(size)
    return -(-taps // taken) * groups_of_round(size)


def cost_of(taps: int, size: int) -> float:
    """Return the approximate number of instructions for a sum.

    Twelve sums need 17 instructions per tap, 18 per group and 3 per iteration.
    """
    rounds = 3 / groups_of_round(size)
    return count_groups(taps, size) * (17 * size + 18 + rounds) / 12


class Taps:
    """Orders the taps of a layer. ``magnitudes`` is (taps, O).

    The sums of a group do not exceed ``limit``, and no tap moves by more than ``reach`` positions.
    """

    def __init__(self, magnitudes: Array, limit: int, reach: int) -> None:
        self.magnitudes, self.limit, self.reach = magnitudes, limit, reach
        self.placed: dict[int, Array] = {}

    def fill_groups(self, groupings: list[Grouping]) -> Array | None:
        """Return an order whose groups do not exceed the limit, or None if the search fails."""
        tables = [
            TapMagnitudes(g.size, self.magnitudes[:, g.channels], self.limit) for g in groupings
        ]
        order = np.arange(len(self.magnitudes))
        sums = (table.sum_groups(order) for table in tables)
        if not any(sum_excess(each, self.limit).any() for each in sums):
            return order
        order = self.arrange(groupings[0].size).copy()
        return order if exchange_taps(tables, order, self.reach) else None

    def arrange(self, size: int) -> Array:
        if size not in self.placed:
            span = self.reach + 1
            starts = range(0, len(self.magnitudes), span)
            parts = [place_greedily(self.magnitudes[i : i + span], size) + i for i in starts]
            self.placed[size] = np.concatenate(parts)
        return self.placed[size]


def place_greedily(magnitudes: Array, size: int) -> Array:
    """Return the taps by group.

    Taps are placed from the largest to the smallest, in the group with the smallest peak.
    """
    taps, channels = magnitudes.shape
    count = -(-taps // size)
    sums = np.zeros((count, channels), np.int16)
    free = np.full(count, size)
    free[-1] = taps - (count - 1) * size
    full = np.iinfo(np.int16).max
    groups: list[list[int]] = [[] for _ in range(count)]
    for tap in np.argsort(-magnitudes.max(1), kind="stable"):
        peaks = np.where(free > 0, (sums + magnitudes[tap]).max(1), full)
        group = int(np.argmin(peaks))
        free[group] -= 1
        groups[group].append(int(tap))
        sums[group] += magnitudes[tap]
    return np.concatenate(groups)


@dataclass(frozen=True, eq=False)
class TapMagnitudes:
    """The magnitudes (taps, channels) of channels that have groups of one size."""

    size: int
    magnitudes: Array
    limit: int

    def sum_groups(self, order: Array) -> Array:
        """Return the sums (groups, channels). The last group may have fewer taps."""
        starts = np.arange(0, len(order), self.size)
        sums: Array = np.add.reduceat(self.magnitudes[order], starts, dtype=np.int16)
        return sums


def sum_excess(sums: Array, limit: int) -> Array:
    """Return the total over all channels by which sums (..., channels) exceed the limit."""
    over = sums - np.int16(limit)
    np.maximum(over, 0, out=over)
    total: Array = np.add.reduce(over, -1, dtype=np.int32)
    return total


class Groups:
    """The ``sums`` (groups, channels) of a table's groups for an order, and their excess."""

    def __init__(self, table: TapMagnitudes, order: Array) -> None:
        self.table, self.sums = table, table.sum_groups(order)
        self.excess = sum_excess(self.sums, table.limit)

    def change(self, order: Array, taps: Array, others: Array) -> Array:
        """Return the change of the excess for each exchange of a position in ``taps`` with a
        position in ``others``."""
        size, magnitudes, limit = self.table.size, self.table.magnitudes, self.table.limit
        mine, theirs = taps // size, others // size
        difference = magnitudes[order[others]][None] - magnitudes[order[taps]][:, None]
        here, there = self.sums[mine][:, None], self.sums[theirs][None]
        changes: Array = sum_excess(here + difference, limit) - self.excess[mine][:, None]
        changes += sum_excess(there - difference, limit) - self.excess[theirs][None]
        changes[mine[:, None] == theirs[None]] = 0
        return changes

    def exchange(self, order: Array, first: int, second: int) -> None:
        """Update the sums for an exchange of two taps.

        ``order`` is the order before the exchange.
        """
        size, magnitudes = self.table.size, self.table.magnitudes
        difference = magnitudes[order[second]] - magnitudes[order[first]]
        groups = [first // size, second // size]
        self.sums[groups[0]] += difference
        self.sums[groups[1]] -= difference
        self.excess[groups] = sum_excess(self.sums[groups], self.table.limit)


def exchange_taps(tables: list[TapMagnitudes], order: Array, reach: int) -> bool:
    """Exchange taps of the worst group with other taps until no group exceeds the limit.

    Only taps within ``reach`` are exchanged. Returns whether all groups meet the limit.
    """
    stride = -(-len(order) // PARTNERS)
    failures = 0
    grouped = [Groups(table, order) for table in tables]
    for number in range(EXCHANGES):
        worst = max(grouped, key=lambda groups: int(groups.excess.max()))
        if not worst.excess.any():
            return True
        size, group = worst.table.size, int(worst.excess.argmax())
        taps = np.arange(group * size, min(group * size + size, len(order)))
        others = np.arange(number % stride, len(order), stride)
        changes = np.sum([groups.change(order, taps, others) for groups in grouped], axis=0)
        changes[np.abs(order[taps][:, None] - others[None]) > reach] = 0
        changes[np.abs(order[others][None] - taps[:, None]) > reach] = 0
        mine, other = divmod(int(np.argmin(changes)), len(others))
        if changes[mine, other] < 0:
            first, second = int(taps[mine]), int(others[other])
            for groups in grouped:
                groups.exchange(order, first, second)
            order[first], order[second] = order[second], order[first]
            failures = 0
        elif (failures := failures + 1) == stride:
            return False
    return False

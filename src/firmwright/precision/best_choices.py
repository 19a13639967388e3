"""Assigns a choice to each layer, with the minimum total error within a limit of bytes.

This is a knapsack problem with one choice per layer. Dynamic programming over the bytes solves the
problem exactly. With the table of minimum errors, a search then lists all assignments in the order
of their errors.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MOST_CELLS = 1 << 16
"""The maximum number of steps of the limit. Bytes are rounded up to whole steps."""


@dataclass(frozen=True)
class Choice:
    """A type of weights for a layer, its bytes, and the error that it adds to the outputs."""

    weights: str
    bytes: int
    error: float


Choices = Sequence[Sequence[Choice]]
"""The choices of each layer, in the order of the layers."""


def list_assignments(choices: Choices, limit: int) -> Iterator[tuple[Choice, ...]]:
    """Yield every assignment with at most ``limit`` bytes, in the order of the errors.

    The order is exact if the limit is at most MOST_CELLS bytes. Above this number, an assignment
    may be missing if its bytes are within one step per layer of the limit. Assignments with equal
    errors follow the order of the choices.
    """
    if limit < 0:
        return
    unit = -(-limit // MOST_CELLS) or 1
    sizes = [[-(-choice.bytes // unit) for choice in each] for each in choices]
    table = tabulate(choices, sizes, limit // unit)
    opened: list[tuple[float, tuple[int, ...], int, float]] = []

    def open_state(chosen: tuple[int, ...], left: int, error: float) -> None:
        bound = error + float(table[len(chosen)][left])
        if np.isfinite(bound):
            heapq.heappush(opened, (bound, chosen, left, error))

    open_state((), limit // unit, 0.0)
    while opened:
        _, chosen, left, error = heapq.heappop(opened)
        layer = len(chosen)
        if layer == len(choices):
            yield tuple(each[number] for each, number in zip(choices, chosen, strict=True))
            continue
        for number, choice in enumerate(choices[layer]):
            if sizes[layer][number] <= left:
                open_state((*chosen, number), left - sizes[layer][number], error + choice.error)


def tabulate(
    choices: Choices, sizes: Sequence[Sequence[int]], limit: int
) -> list[npt.NDArray[np.float64]]:
    """Return the minimum error of a layer and all later layers, per number of remaining steps."""
    table = [np.zeros(limit + 1)]
    for each, steps in zip(reversed(choices), reversed(sizes), strict=True):
        later, best = table[-1], np.full(limit + 1, np.inf)
        for choice, size in zip(each, steps, strict=True):
            if size <= limit:
                np.minimum(best[size:], later[: limit + 1 - size] + choice.error, out=best[size:])
        table.append(best)
    return table[::-1]


def remove_inferior(choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices with a smaller error than all smaller choices, in order of size."""
    kept: list[Choice] = []
    for choice in sorted(choices, key=lambda one: (one.bytes, one.error)):
        if not kept or choice.error < kept[-1].error:
            kept.append(choice)
    return kept


def count_bytes(assignment: Sequence[Choice]) -> int:
    return sum(choice.bytes for choice in assignment)

"""Chooses the largest batch that fits the platform's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from firmwright.errors import UserError
from firmwright.planning.memory import MemoryUse


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """The requested and the actual batch, which are in the file ``batch/batch.json``.

    ``memory`` is the fullest memory, and ``capacity`` is the memory's size in bytes. The batch
    needs ``needs`` bytes of this memory. ``next_needs`` is the number of bytes for one more sample,
    or None if no more samples were requested. The names of the two batch sizes are the names in
    vendors' archives.
    """

    desired_batch_size: int
    actual_batch_size: int
    memory: str
    capacity: int
    needs: int
    next_needs: int | None

    def __str__(self) -> str:
        used = f"{self.memory}: {self.needs:,} of {self.capacity:,} bytes"
        if self.next_needs is not None:
            used += f"; {self.actual_batch_size + 1:,} would need {self.next_needs:,}"
        wanted, fits = self.desired_batch_size, self.actual_batch_size
        return f"batch {wanted:,} wanted, {fits:,} fits ({used})"


def choose_batch(
    wanted: int, require: bool, uses: Callable[[int], Sequence[MemoryUse]]
) -> BatchChoice:
    """Return the largest batch up to ``wanted`` that fits.

    ``uses`` returns the memory use of a size. A single sample must fit. Raises UserError if fewer
    samples than wanted fit and ``require`` is true.
    """
    used = cache(uses)
    actual = find_largest(wanted, used)
    following = None if actual == wanted else used(actual + 1)
    limit = max(following or used(actual), key=lambda use: use.needs / use.capacity)
    choice = BatchChoice(
        desired_batch_size=wanted,
        actual_batch_size=actual,
        memory=limit.memory,
        capacity=limit.capacity,
        needs=sum_needs(limit.memory, used(actual)),
        next_needs=limit.needs if following else None,
    )
    if require and actual < wanted:
        raise UserError(
            f"batch: {choice}; the recipe requires all {wanted:,}: lower `batch`, drop `require`, "
            "or use a platform with more memory"
        )
    return choice


def sum_needs(memory: str, uses: Sequence[MemoryUse]) -> int:
    return sum(use.needs for use in uses if use.memory == memory)


def find_largest(wanted: int, used: Callable[[int], Sequence[MemoryUse]]) -> int:
    """Return the largest batch that fits, assuming that one sample fits.

    Memory grows almost in proportion to the batch. A straight line through the first two sizes is
    the estimate, and the function checks the sizes next to the estimate. If the estimate is wrong,
    steps of doubled length find one size that fits and one size that does not fit. Then a binary
    search finds the limit between them.
    """
    if wanted == 1:
        return 1

    def fits(size: int) -> bool:
        return all(use.fits for use in used(size))

    step, size = 1, min(wanted, extrapolate_size(used(1), used(2)))
    if fits(size):
        while size < wanted and fits(min(size + step, wanted)):
            size, step = min(size + step, wanted), 2 * step
        low, high = size, min(size + step, wanted + 1)
    else:
        while size - step > 1 and not fits(size - step):
            size, step = size - step, 2 * step
        low, high = max(size - step, 1), size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def extrapolate_size(one: Sequence[MemoryUse], two: Sequence[MemoryUse]) -> int:
    """Return the size at which the first memory is full.

    The growth from size 1 to size 2 is extrapolated.
    """
    growths = [(use, max(sum_needs(use.memory, two) - use.needs, 1)) for use in one]
    return 1 + max(0, min((use.capacity - use.needs) // growth for use, growth in growths))

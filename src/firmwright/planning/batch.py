"""The largest batch that fits the platform's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import tvm

from firmwright.errors import UserError
from firmwright.models.interface import ModelInterface
from firmwright.partition.outline import with_output_names
from firmwright.planning.batch_axis import with_batch
from firmwright.planning.plan import capacity
from firmwright.toolchain import Platform
from firmwright.transforms.rewriting import static_shape


@dataclass(frozen=True)
class BatchChoice:
    """What was wanted and what fits (file ``batch/batch.json``); bytes of RAM.

    ``next_needs`` is what one sample more would need, None where no more were wanted. The two
    sizes have the names that SiMa's users search their archives for.
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
    wanted: int, require: bool, platform: Platform, ram_needed: Callable[[int], int]
) -> BatchChoice:
    """Find the largest batch up to ``wanted``; ``ram_needed`` gives the bytes for a batch size.

    A single sample has to fit. Raises UserError where fewer than wanted do, with ``require``.
    """
    memory, available = capacity(platform)
    needed = cache(ram_needed)
    actual = largest(wanted, available, needed)
    choice = BatchChoice(
        desired_batch_size=wanted,
        actual_batch_size=actual,
        memory=memory,
        capacity=available,
        needs=needed(actual),
        next_needs=None if actual == wanted else needed(actual + 1),
    )
    if require and actual < wanted:
        raise UserError(
            f"batch: {choice}; the recipe requires all {wanted:,}: lower `batch`, drop `require`, "
            "or take a platform with more memory"
        )
    return choice


def largest(wanted: int, available: int, needed: Callable[[int], int]) -> int:
    """Return the largest batch that fits; one sample does.

    Memory grows with the batch almost in proportion, so a straight line through the first two
    sizes comes close; from there every size is tried, for a placement need not be as tight for
    each.
    """
    if wanted == 1:
        return 1
    growth = max(needed(2) - needed(1), 1)
    size = min(wanted, 1 + (available - needed(1)) // growth)
    while size > 1 and needed(size) > available:
        size -= 1
    while size < wanted and needed(size + 1) <= available:
        size += 1
    return size


def batched_interface(
    interface: ModelInterface, module: tvm.IRModule, size: int
) -> tuple[tvm.IRModule, ModelInterface, tuple[int | None, ...]]:
    """Return module and interface for ``size`` samples, and the batch axis of each output."""
    module, axes = with_batch(with_output_names(module, interface), size)
    parameters = module["main"].params
    returned = module["main"].ret_ty
    types = list(getattr(returned, "fields", [returned]))
    inputs = zip(interface.inputs, parameters, strict=True)
    outputs = zip(interface.outputs, types, strict=True)
    return (
        module,
        replace(
            interface,
            inputs=tuple(replace(t, shape=static_shape(p)) for t, p in inputs),
            outputs=tuple(replace(t, shape=tuple(int(d) for d in k.shape)) for t, k in outputs),
        ),
        axes,
    )

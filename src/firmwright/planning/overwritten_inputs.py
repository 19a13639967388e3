"""Lets a kernel overwrite one of its inputs with the result if no later kernel reads the input."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from firmwright.ir.kernels import Kernel, Kernels, describe
from firmwright.ir.regions import Partition
from firmwright.planning.arena import Buffer
from firmwright.planning.schedule import Schedule

Candidate = tuple[int, str, str]
"""A step, a tensor that the step's kernel may overwrite, and the tensor that the kernel writes."""

MANY = 4


def join_in_place(
    partition: Partition, kernels: Kernels, schedule: Schedule, buffers: Sequence[Buffer]
) -> tuple[list[Buffer], dict[str, str]]:
    """Join the buffers of inputs that kernels may overwrite with the results' buffers.

    If a kernel may overwrite two inputs, the function selects the older input. Therefore the state
    of a recurrent layer stays in one location. Returns the remaining buffers. The second result
    maps each tensor without a buffer to the buffer that contains the tensor.
    """
    left = {b.name: b for b in buffers}
    last = {b.name: b.last for b in buffers}
    holders = {b.name: b.name for b in buffers}
    candidates = [
        candidate
        for candidate in list_candidates(partition, kernels, schedule)
        if candidate[1] in last and last[candidate[1]] == candidate[0]
    ]
    candidates = drop_odd_calls(candidates, kernels)
    for _, group in groupby(candidates, itemgetter(0)):
        for _, read, written in sorted(group, key=lambda c: left[holders[c[1]]].first):
            if written in left:
                holder, result = left[holders[read]], left[written]
                if (holder.bytes, holder.memory) == (result.bytes, result.memory):
                    holders[written] = holder.name
                    left[holder.name] = replace(holder, last=result.last)
                    del left[written]
    return [*left.values()], {n: holder for n, holder in holders.items() if n not in left}


def drop_odd_calls(candidates: Sequence[Candidate], kernels: Kernels) -> list[Candidate]:
    """Drop a candidate if it is the only candidate among :data:`MANY` or more calls of a function.

    This call, such as the last step of a recurrent layer, would need a separate function.
    """
    calls = defaultdict(list)
    for kernel in kernels.kernels:
        if kernel.in_place:
            constants = tuple(p.tensor for p in kernel.weights)
            calls[describe(kernel), constants].append(kernel.outputs[0].tensor)
    may = {written for _, _, written in candidates}
    alike = (may.intersection(made) for made in calls.values() if len(made) >= MANY)
    odd = {name for names in alike if len(names) == 1 for name in names}
    return [candidate for candidate in candidates if candidate[2] not in odd]


def list_candidates(
    partition: Partition, kernels: Kernels, schedule: Schedule
) -> Iterator[Candidate]:
    """Yield each step with a tensor that its kernel may overwrite, and the tensor that it writes.

    A kernel that also reads another view of the tensor must not overwrite the tensor.
    """
    roots = partition.view_roots
    kernel_of = {kernel.region: kernel for kernel in kernels.kernels if kernel.in_place}
    for number, step in enumerate(schedule.steps):
        if kernel := kernel_of.get(step.region):
            read = [roots[p.tensor] for p in kernel.inputs]
            for parameter, tensor in zip(kernel.inputs, read, strict=True):
                if parameter.name in kernel.in_place and read.count(tensor) == 1:
                    yield number, tensor, kernel.outputs[0].tensor


def share_pointers(kernel: Kernel, locations: Mapping[str, object]) -> Kernel:
    """Return a kernel whose call has one pointer for an output and the overwritten input."""
    for read in kernel.inputs:
        location = locations[read.tensor]
        if read.name in kernel.in_place and location == locations[kernel.outputs[0].tensor]:
            return kernel.write_over(read.name)
    return kernel

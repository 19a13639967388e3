"""Results that lie where an input of their kernel was, which nothing reads later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from firmwright.ir.kernels import Kernel, Kernels
from firmwright.ir.regions import Partition
from firmwright.planning.arena import Buffer
from firmwright.planning.schedule import Schedule


def join_in_place(
    partition: Partition, kernels: Kernels, schedule: Schedule, buffers: Sequence[Buffer]
) -> tuple[list[Buffer], dict[str, str]]:
    """Give inputs that kernels may write over, and what they write, one buffer.

    Return the buffers that are left, and for each tensor without one the buffer that it lies in.
    """
    left = {b.name: b for b in buffers}
    last = {b.name: b.last for b in buffers}
    holders = {b.name: b.name for b in buffers}
    for number, read, written in list_candidates(partition, kernels, schedule):
        if read in holders and written in left and last[read] == number:
            holder, result = left[holders[read]], left[written]
            if (holder.bytes, holder.memory) == (result.bytes, result.memory):
                holders[written] = holder.name
                left[holder.name] = replace(holder, last=result.last)
                del left[written]
    return [*left.values()], {n: holder for n, holder in holders.items() if n not in left}


def list_candidates(
    partition: Partition, kernels: Kernels, schedule: Schedule
) -> Iterator[tuple[int, str, str]]:
    """Yield steps, a tensor that the step's kernel may write over, and what it writes.

    A kernel that reads another view of the tensor may not.
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
    """Return a kernel as it is called: with one pointer where its output lies on an input."""
    for read in kernel.inputs:
        place = locations[read.tensor]
        if read.name in kernel.in_place and place == locations[kernel.outputs[0].tensor]:
            return kernel.write_over(read.name)
    return kernel

"""In which order regions run, and where the processor waits for devices that run beside it.

A kernel that names a function in ``waits`` only starts a job; its device runs its jobs one after
the other, in their order. Whoever reads what a job writes on another device, or on the processor,
waits for it first. Without such kernels the order is the partition's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firmwright.ir.kernels import Kernel, Kernels
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Tensor


@dataclass(frozen=True)
class Wait:
    """A call of ``function``: until ``pending`` of its device's jobs, or fewer, are not done."""

    function: str
    pending: int


@dataclass(frozen=True)
class ScheduleStep:
    """A region's turn, and what is waited for before it.

    ``until`` is the number of the step, from 0, in front of which its job is known to be done; its
    own successor's where nothing runs beside the processor.
    """

    region: Region
    waits: tuple[Wait, ...]
    until: int


@dataclass(frozen=True)
class Schedule:
    """The steps of an inference, views among them, and the waits behind the last one."""

    steps: tuple[ScheduleStep, ...]
    last_waits: tuple[Wait, ...]

    @property
    def regions(self) -> list[Region]:
        return [step.region for step in self.steps]


def schedule(partition: Partition, kernels: Kernels) -> Schedule:
    """Order the regions so that devices run beside each other, and say who waits for whom."""
    waits = {k.region: k.wait_function for k in kernels.kernels if k.wait_function}
    if not waits:
        in_order = enumerate(partition.regions, 1)
        return Schedule(tuple(ScheduleStep(region, (), after) for after, region in in_order), ())
    regions = order_regions(partition, kernels)
    reads = find_dependencies(partition)
    queues: dict[str, list[int]] = {function: [] for function in sorted(waits.values())}
    done = dict.fromkeys(queues, 0)
    until: dict[int, int] = {}
    number = {region.name: step for step, region in enumerate(regions)}

    def waits_for(needed: Mapping[str, int], step: int) -> tuple[Wait, ...]:
        """Wait until so many jobs of each queue are done."""
        found = []
        for function, jobs in needed.items():
            if jobs > done[function]:
                until.update(dict.fromkeys(queues[function][done[function] : jobs], step))
                done[function] = jobs
                found.append(Wait(function, len(queues[function]) - jobs))
        return tuple(found)

    waited = []
    for step, region in enumerate(regions):
        own = waits.get(region.name)
        needed: dict[str, int] = {}
        for name in () if region.view else reads[region.name]:
            function = waits.get(name)
            if function and function != own:
                place = queues[function].index(number[name]) + 1
                needed[function] = max(needed.get(function, 0), place)
        waited.append(waits_for(dict(sorted(needed.items())), step))
        if own:
            queues[own].append(step)
        else:
            until[step] = step + 1
    last = waits_for({function: len(jobs) for function, jobs in queues.items()}, len(regions))
    steps = zip(regions, waited, (until[step] for step in range(len(regions))), strict=True)
    return Schedule(tuple(ScheduleStep(*step) for step in steps), last)


def find_dependencies(partition: Partition) -> dict[str, list[str]]:
    """Return for each region those that write what it reads; a view shows what another wrote."""
    writer: dict[str, str] = {}
    reads: dict[str, list[str]] = {}
    for region in partition.regions:
        reads[region.name] = sorted({writer[name] for name in region.inputs if name in writer})
        if not region.view:
            writer.update(dict.fromkeys(region.outputs, region.name))
        elif region.inputs[0] in writer:
            writer[region.outputs[0]] = writer[region.inputs[0]]
    return reads


def order_regions(partition: Partition, kernels: Kernels) -> list[Region]:
    """Order regions by list scheduling: always the one that can begin first is the next.

    Of several, it is one that does not keep the processor busy, then the one with the longest way
    to the end, then the first of the partition. A view goes in front of its first reader.
    """
    regions = {region.name: region for region in partition.regions if not region.view}
    kernel_of = {kernel.region: kernel for kernel in kernels.kernels}
    tensors = {tensor.name: tensor for tensor in partition.tensors}
    cost = {n: estimate_cycles(r, kernel_of[n], tensors) for n, r in regions.items()}
    reads = find_dependencies(partition)
    ways = longest_paths(regions, reads, cost)
    place = {name: i for i, name in enumerate(regions)}
    now, free, ends = 0, dict[str, int](), dict[str, int]()

    def rank(name: str) -> tuple[int, bool, int, int]:
        own = kernel_of[name].wait_function
        others = [ends[r] for r in reads[name] if kernel_of[r].wait_function != own]
        return (max([now, *others]), not own, -ways[name], place[name])

    ordered: list[Region] = []
    waiting = list(regions)
    while waiting:
        ready = [name for name in waiting if all(r in ends for r in reads[name])]
        name = min(ready, key=rank)
        begin, own = rank(name)[0], kernel_of[name].wait_function
        ends[name] = max(begin, free.get(own, 0) if own else 0) + cost[name]
        now = begin if own else ends[name]
        if own:
            free[own] = ends[name]
        waiting.remove(name)
        ordered.append(regions[name])
    return insert_views(ordered, partition)


def estimate_cycles(region: Region, kernel: Kernel, tensors: Mapping[str, Tensor]) -> int:
    """Return what a region takes by its device's model.

    A device without one is taken to need a cycle a multiplication, or a tensor's element. That is
    only a guess, on which the order of regions depends and nothing else.
    """
    if kernel.cycles is not None:
        return kernel.cycles.total
    return max(region.macs, *(tensors[n].elements for n in (*region.inputs, *region.outputs)))


def longest_paths(
    regions: dict[str, Region], reads: Mapping[str, Sequence[str]], cost: Mapping[str, int]
) -> dict[str, int]:
    """Return the cycles of the longest chain of regions that begins with each."""
    behind = dict.fromkeys(regions, 0)
    for name in reversed(regions):
        for read in reads[name]:
            behind[read] = max(behind[read], behind[name] + cost[name])
    return {name: behind[name] + cost[name] for name in regions}


def insert_views(ordered: Sequence[Region], partition: Partition) -> list[Region]:
    """Put every view in front of the first region that reads it."""
    view_of = {name: r for r in partition.regions if r.view for name in r.outputs}
    result: list[Region] = []

    def put(region: Region) -> None:
        for name in region.inputs:
            if name in view_of:
                put(view_of.pop(name))
        result.append(region)

    for region in ordered:
        put(region)
    return result + [r for r in partition.regions if r.view and r not in result]

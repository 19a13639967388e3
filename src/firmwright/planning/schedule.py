"""Orders the regions, and inserts waits for devices that run in parallel to the processor.

A kernel with a ``wait_function`` only starts a job. A device runs its jobs one after the other, in
order. A region on another device, or on the processor, waits for a job before it reads the job's
result. If the job's device can signal the reader's device with an event, the processor starts the
reader at once, and the reader's device waits. Without such kernels, the order is the partition's
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from firmwright.ir.kernels import Kernel, Kernels
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Wait:
    """A call of ``function``, which waits until at most ``pending`` jobs of its device remain."""

    function: str
    pending: int


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """A region in the order of execution, and the waits before the region.

    ``events`` are calls that make the region's job wait until at most ``pending`` started jobs of
    another device remain. ``done_before`` is the index of the first step that may use this step's
    results. The value is the next step, unless this step only starts a job.
    """

    region: str
    waits: tuple[Wait, ...]
    done_before: int
    events: tuple[Wait, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of an inference, including the views, and the waits after the last step."""

    steps: tuple[ScheduleStep, ...]
    last_waits: tuple[Wait, ...]


def schedule_regions(partition: Partition, kernels: Kernels) -> Schedule:
    """Order the regions so that devices run in parallel, and insert the waits between them."""
    queues = JobQueues(kernels)
    regions = order_regions(partition, kernels) if queues.started else partition.regions
    dependencies = find_dependencies(partition)
    before = []
    for step, region in enumerate(regions):
        reads = [] if region.view else dependencies[region.name]
        before.append(queues.prepare(region.name, reads, step))
    last_waits = queues.wait({q: len(jobs) for q, jobs in queues.started.items()}, len(regions))
    steps = (
        ScheduleStep(region.name, waits, queues.done_before.get(step, step + 1), events)
        for step, (region, (waits, events)) in enumerate(zip(regions, before, strict=True))
    )
    return Schedule(tuple(steps), last_waits)


class JobQueues:
    """Jobs that run in parallel to the processor, in one queue per function that waits for them.

    ``started`` contains the steps that start each queue's jobs. ``done_before`` maps each of these
    steps to the first step before which its job is known to be done. ``implied`` maps each job of a
    queue to the number of jobs of other queues that are done when the job is done.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.queue_of = {k.region: k.wait_function for k in kernels.kernels if k.wait_function}
        self.events = {k.region: k.events for k in kernels.kernels if k.wait_function}
        self.started: dict[str, list[int]] = {queue: [] for queue in self.queue_of.values()}
        self.done = dict.fromkeys(self.started, 0)
        self.implied: dict[str, list[dict[str, int]]] = {queue: [] for queue in self.started}
        self.job_number: dict[str, int] = {}
        self.done_before: dict[int, int] = {}

    def prepare(
        self, region: str, reads: Iterable[str], step: int
    ) -> tuple[tuple[Wait, ...], tuple[Wait, ...]]:
        """Return the waits and the events before a region, and start the region's job."""
        needed = self.find_needed(region, reads)
        paths = self.events.get(region, {})
        waits = self.wait({q: n for q, n in needed.items() if q not in paths}, step)
        if region not in self.queue_of:
            return waits, ()
        queue = self.queue_of[region]
        known = dict(self.implied[queue][-1]) if self.implied[queue] else {}
        events = []
        for other, count in sorted(needed.items()):
            if other in paths and count > max(self.done[other], known.get(other, 0)):
                events.append(Wait(paths[other], len(self.started[other]) - count))
                for name, number in {**self.implied[other][count - 1], other: count}.items():
                    known[name] = max(known.get(name, 0), number)
        self.started[queue].append(step)
        self.implied[queue].append(known)
        self.job_number[region] = len(self.started[queue])
        return waits, tuple(events)

    def find_needed(self, region: str, reads: Iterable[str]) -> dict[str, int]:
        """Return the number of each other queue's jobs that a region needs.

        These jobs must be done before the region reads ``reads``.
        """
        region_queue = self.queue_of.get(region)
        needed: dict[str, int] = {}
        for name in reads:
            queue = self.queue_of.get(name)
            if queue and queue != region_queue:
                needed[queue] = max(needed.get(queue, 0), self.job_number[name])
        return needed

    def wait(self, needed: Mapping[str, int], step: int) -> tuple[Wait, ...]:
        """Return the waits before a step after which the needed jobs of each queue are done."""
        open_jobs = {q: n for q, n in needed.items() if n > self.done[q]}
        waits = []
        for queue, count in sorted(open_jobs.items()):
            others = (self.implied[q][n - 1] for q, n in open_jobs.items() if q != queue)
            if all(known.get(queue, 0) < count for known in others):
                waits.append(Wait(queue, len(self.started[queue]) - count))
        for queue, count in open_jobs.items():
            self.finish(queue, count, step)
        return tuple(waits)

    def finish(self, queue: str, count: int, step: int) -> None:
        """Record that jobs are done, and that the jobs that they waited for are done."""
        done = self.done[queue]
        if count > done:
            self.done_before.update(dict.fromkeys(self.started[queue][done:count], step))
            self.done[queue] = count
            for other, number in self.implied[queue][count - 1].items():
                self.finish(other, number, step)


def find_dependencies(partition: Partition) -> dict[str, list[str]]:
    """Return for each region the regions that wrote its inputs.

    A view has the writers of its source.
    """
    writers: dict[str, set[str]] = {}
    reads: dict[str, list[str]] = {}
    for region in partition.regions:
        read = set[str]().union(*(writers.get(name, ()) for name in region.inputs))
        reads[region.name] = sorted(read)
        writers.update(dict.fromkeys(region.outputs, read if region.view else {region.name}))
    return reads


def order_regions(partition: Partition, kernels: Kernels) -> list[Region]:
    """Return the regions in the order in which they can begin, based on list scheduling.

    Ties are resolved in this order: a region that does not occupy the processor, the longest path
    to the end, the partition's order. A view comes before its first reader.
    """
    regions = {region.name: region for region in partition.regions if not region.view}
    queue_of = {kernel.region: kernel.wait_function for kernel in kernels.kernels}
    events = {kernel.region: kernel.events for kernel in kernels.kernels}
    tensors = {tensor.name: tensor for tensor in partition.tensors}
    cost = {k.region: estimate_cycles(regions[k.region], k, tensors) for k in kernels.kernels}
    reads = find_dependencies(partition)
    paths = longest_paths(regions, reads, cost)
    now, free, ends = 0, dict[str, int](), dict[str, int]()

    def begin(name: str) -> int:
        awaited = [r for r in reads[name] if queue_of[r] not in (queue_of[name], *events[name])]
        return max([now, *(ends[r] for r in awaited)])

    def rank(name: str) -> tuple[int, bool, int]:
        return begin(name), not queue_of[name], -paths[name]

    ordered: list[Region] = []
    waiting = list(regions)
    while waiting:
        ready = [name for name in waiting if ends.keys() >= set(reads[name])]
        name = min(ready, key=rank)
        start, queue = begin(name), queue_of[name]
        if queue:
            now = start
            ready_at = max([start, *(ends[r] for r in reads[name])])
            ends[name] = free[queue] = max(ready_at, free.get(queue, 0)) + cost[name]
        else:
            now = ends[name] = start + cost[name]
        waiting.remove(name)
        ordered.append(regions[name])
    return insert_views(ordered, partition)


def estimate_cycles(region: Region, kernel: Kernel, tensors: Mapping[str, Tensor]) -> int:
    """Return the cycles of a region according to the device's cost model.

    Without a model, the estimate is one cycle per multiply-accumulate, or one cycle per element if
    the layer has no multiply-accumulates. Only the order of the regions depends on this estimate.
    """
    if kernel.cycles is not None:
        return kernel.cycles.total
    return max(region.macs, *(tensors[n].elements for n in (*region.inputs, *region.outputs)))


def longest_paths(
    regions: dict[str, Region], reads: Mapping[str, Sequence[str]], cost: Mapping[str, int]
) -> dict[str, int]:
    """Return the cycles of the longest chain of regions that begins with each region."""
    behind = dict.fromkeys(regions, 0)
    for name in reversed(regions):
        for read in reads[name]:
            behind[read] = max(behind[read], behind[name] + cost[name])
    return {name: behind[name] + cost[name] for name in regions}


def insert_views(ordered: Sequence[Region], partition: Partition) -> list[Region]:
    """Return the regions with every view before the first region that reads the view."""
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

"""Devices next to the processor: the order of regions, the waits, and memory until the waits."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from firmwright.ir.kernels import Cycles, Kernel, Kernels, Parameter
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Tensor
from firmwright.planning.plan import Plan, Slot, make_plan
from firmwright.planning.schedule import Schedule, Wait, schedule_regions


def region(name: str, inputs: tuple[str, ...], view: bool = False) -> Region:
    return Region(name, "", "", "", (), (), inputs, (f"{name}_result",), 0, view, ())


def kernel(
    name: str, waits: str = "", cycles: int = 10, scratch: int = 0, after: str = ""
) -> Kernel:
    """Return a kernel of the device ``waits``, with events from the devices ``after``."""
    memory = (Parameter("memory", "uint8", scratch, f"{name}_memory"),) if scratch else ()
    return Kernel(
        *(name, (), (), (), memory, "", (), 0, ()),
        cycles=Cycles(cycles, 0, 0),
        wait_function=waits or None,
        events={other: f"{waits}_after_{other}" for other in after if waits and other != waits},
    )


def network(outputs: tuple[str, ...], *regions: Region, bytes_each: int = 16) -> Partition:
    names = ["image", *(name for r in regions for name in r.outputs)]
    tensors = tuple(Tensor(name, (bytes_each,), "int8") for name in names)
    return Partition(("image",), outputs, tensors, regions)


HEADS = network(
    ("join_result",),
    region("trunk", ("image",)),
    region("first", ("trunk_result",)),
    region("sort_first", ("first_result",)),
    region("second", ("trunk_result",)),
    region("flat", ("second_result",), view=True),
    region("sort_second", ("flat_result",)),
    region("join", ("sort_first_result", "sort_second_result")),
)
NAMES = ("trunk", "first", "sort_first", "second", "sort_second", "join")


def test_without_devices_beside_it_the_processor_takes_the_regions_in_their_order() -> None:
    found = schedule_regions(HEADS, Kernels(tuple(kernel(name) for name in NAMES)))
    assert [step.region for step in found.steps] == [region.name for region in HEADS.regions]
    assert not any(step.waits for step in found.steps) and found.last_waits == ()


def test_a_device_has_its_next_job_before_the_processor_waits_for_another() -> None:
    beside = {"trunk": "a", "first": "a", "second": "a", "sort_first": "b", "sort_second": "b"}
    found = schedule_regions(HEADS, Kernels(tuple(kernel(n, beside.get(n, "")) for n in NAMES)))
    assert [(s.region, [(w.function, w.pending) for w in s.waits]) for s in found.steps] == [
        ("trunk", []),
        ("first", []),
        ("second", []),
        ("sort_first", [("a", 1)]),
        ("flat", []),
        ("sort_second", [("a", 0)]),
        ("join", [("b", 0)]),
    ]
    assert found.last_waits == ()


def test_what_only_the_network_returns_is_waited_for_at_the_end() -> None:
    part = network(("last_result",), region("last", ("image",)))
    found = schedule_regions(part, Kernels((kernel("last", "a"),)))
    assert found.last_waits == (Wait("a", 0),)
    assert found.steps[0].done_before == 1


def test_a_device_that_hears_of_another_is_started_before_that_one_is_done() -> None:
    beside = {"trunk": "a", "first": "a", "second": "a", "sort_first": "b", "sort_second": "b"}
    kernels = Kernels(tuple(kernel(n, beside.get(n, ""), after="a") for n in NAMES))
    found = schedule_regions(HEADS, kernels)
    assert [
        (s.region, *([(w.function, w.pending) for w in calls] for calls in (s.waits, s.events)))
        for s in found.steps
    ] == [
        ("trunk", [], []),
        ("first", [], []),
        ("second", [], []),
        ("sort_first", [], [("b_after_a", 1)]),
        ("flat", [], []),
        ("sort_second", [], [("b_after_a", 0)]),
        ("join", [("b", 0)], []),  # it is done after all jobs of a
    ]
    assert found.last_waits == ()
    assert [s.done_before for s in found.steps if s.region != "flat"] == [6] * 5 + [7]


class Machine:
    """Simulates the worst case of a plan: a job writes from its start on, and reads until its wait.

    A job may read an input at once if no job that it waits for writes this input.
    """

    def __init__(self, partition: Partition, kernels: Kernels, plan: Plan) -> None:
        self.partition, self.plan = partition, plan
        self.kernels = {k.region: k for k in kernels.kernels}
        self.bytes = {t.name: t.bytes for t in partition.tensors}
        self.bytes.update((p.tensor, p.bytes) for k in kernels.kernels for p in k.scratch)
        self.roots = partition.view_roots
        self.memory: dict[tuple[str, int], str] = {}
        self.queues: dict[str, list[Region]] = defaultdict(list)
        self.started: Counter[str] = Counter()
        self.awaited: dict[str, list[tuple[str, int]]] = {}

    def cells(self, name: str) -> list[tuple[str, int]]:
        place = self.plan.locations[name]
        start, kind = (place.offset, "arena") if isinstance(place, Slot) else (0, repr(place))
        return [(kind, start + i) for i in range(self.bytes[name])]

    def write(self, name: str, token: str) -> None:
        self.memory.update(dict.fromkeys(self.cells(name), token))

    def holds(self, name: str) -> bool:
        return {self.memory.get(cell) for cell in self.cells(name)} == {self.roots[name]}

    def written(self, region: Region) -> list[str]:
        return [*region.outputs, *(p.tensor for p in self.kernels[region.name].scratch)]

    def start(self, region: Region, events: Sequence[Wait] = ()) -> None:
        others = [(event.function.rpartition("_")[2], event.pending) for event in events]
        self.awaited[region.name] = [(q, self.started[q] - pending) for q, pending in others]
        queue = self.kernels[region.name].wait_function or ""
        waited = [(queue, self.started[queue]), *self.awaited[region.name]]
        coming = {name for q, count in waited for name in self.find_coming(q, count)}
        assert all(self.holds(n) or self.roots[n] in coming for n in region.inputs), region.name
        for name in self.written(region):
            self.write(name, "half done")
        self.queues[queue].append(region)
        self.started[queue] += 1

    def find_coming(self, queue: str, count: int) -> Iterator[str]:
        """Yield the tensors that are written when this number of a queue's jobs are done."""
        pending = self.queues[queue]
        done = self.started[queue] - len(pending)
        for region in pending[: max(0, count - done)]:
            yield from region.outputs
            for other, number in self.awaited[region.name]:
                yield from self.find_coming(other, number)

    def finish(self, region: Region) -> None:
        for queue, count in self.awaited[region.name]:
            self.wait((Wait(queue, self.started[queue] - count),))
        assert all(self.holds(name) for name in region.inputs), region.name
        for name in self.written(region):
            self.write(name, name)

    def wait(self, waits: tuple[Wait, ...]) -> None:
        for wait in waits:
            queue = self.queues[wait.function]
            while len(queue) > wait.pending:
                self.finish(queue.pop(0))

    def play(self) -> bool:
        """Return whether every job read the expected tensors, and all outputs are present."""
        regions = {r.name: r for r in self.partition.regions}
        self.write("image", "image")
        try:
            for step in self.plan.schedule.steps:
                self.wait(step.waits)
                if regions[step.region].view:
                    continue
                self.start(regions[step.region], step.events)
                if not self.kernels[step.region].wait_function:
                    self.wait((Wait("", 0),))
            self.wait(self.plan.schedule.last_waits)
        except AssertionError:
            return False
        return not any(self.queues.values()) and all(map(self.holds, self.partition.outputs))


def random_network(seed: int, after: str = "") -> tuple[Partition, Kernels]:
    choose = random.Random(seed)
    regions: list[Region] = []
    kernels = []
    tensors = ["image"]
    for number in range(14):
        name = f"r{number}"
        view = choose.random() < 0.15
        read = choose.sample(tensors[-6:], 1 if view else min(len(tensors), choose.randint(1, 3)))
        regions.append(region(name, tuple(read), view))
        tensors.append(f"{name}_result")
        if not view:
            device, scratch = choose.choice(["", "a", "b"]), choose.choice([0, 0, 32])
            kernels.append(kernel(name, device, choose.randint(1, 50), scratch, after))
    computed = [r.outputs[0] for r in regions if not r.view]
    outputs = tuple(dict.fromkeys([computed[-1], *choose.sample(computed, 2)]))
    return network(outputs, *regions, bytes_each=32), Kernels(tuple(kernels))


EVENTS = ("", "a", "ab")
"""The devices whose jobs other devices wait for."""


@pytest.mark.parametrize("after", EVENTS)
@pytest.mark.parametrize("seed", range(100))
def test_no_job_is_disturbed_between_its_start_and_its_wait(seed: int, after: str) -> None:
    partition, kernels = random_network(seed, after)
    plan = make_plan(partition, kernels)
    assert {s.region for s in plan.schedule.steps} == {r.name for r in partition.regions}
    assert Machine(partition, kernels, plan).play()


def without_one(schedule: Schedule) -> Iterator[Schedule]:
    """Yield the schedule without one of its waits or events, for each of them in turn."""
    for number, step in enumerate(schedule.steps):
        for kind in ("waits", "events"):
            calls = getattr(step, kind)
            for left in range(len(calls)):
                changed = replace(step, **{kind: calls[:left] + calls[left + 1 :]})
                steps = (*schedule.steps[:number], changed, *schedule.steps[number + 1 :])
                yield replace(schedule, steps=steps)
    for left in range(len(schedule.last_waits)):
        waits = schedule.last_waits[:left] + schedule.last_waits[left + 1 :]
        yield replace(schedule, last_waits=waits)


@pytest.mark.parametrize("after", EVENTS)
def test_no_wait_and_no_event_can_be_left_out(after: str) -> None:
    left_out = 0
    for seed in range(100):
        partition, kernels = random_network(seed, after)
        plan = make_plan(partition, kernels)
        for schedule in without_one(plan.schedule):
            left_out += 1
            changed = replace(plan, schedule=schedule)
            assert not Machine(partition, kernels, changed).play(), (seed, schedule)
    assert left_out > 200

"""Devices beside the processor: the order of regions, the waits, and memory until the waits."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from firmwright.ir.kernels import Cycles, Kernel, Kernels, Parameter
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Tensor
from firmwright.planning.plan import Plan, Slot, make_plan
from firmwright.planning.schedule import Wait, schedule_regions


def region(name: str, inputs: tuple[str, ...], view: bool = False) -> Region:
    return Region(name, "", "", "", (), (), inputs, (f"{name}_result",), 0, view, ())


def kernel(name: str, waits: str = "", cycles: int = 10, scratch: int = 0) -> Kernel:
    memory = (Parameter("memory", "uint8", scratch, f"{name}_memory"),) if scratch else ()
    modelled = Cycles(cycles, 0, 0)
    return Kernel(
        name, (), (), (), memory, "", (), 0, (), cycles=modelled, wait_function=waits or None
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


class Machine:
    """Plays a plan at its worst: a job writes from its start on, and reads until its wait."""

    def __init__(self, partition: Partition, kernels: Kernels, plan: Plan) -> None:
        self.partition, self.plan = partition, plan
        self.kernels = {k.region: k for k in kernels.kernels}
        self.bytes = {t.name: t.bytes for t in partition.tensors}
        self.bytes.update((p.tensor, p.bytes) for k in kernels.kernels for p in k.scratch)
        self.roots = partition.view_roots
        self.memory: dict[tuple[str, int], str] = {}
        self.queues: dict[str, list[Region]] = defaultdict(list)

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

    def start(self, region: Region) -> None:
        for name in self.written(region):
            self.write(name, "half done")
        self.queues[self.kernels[region.name].wait_function or ""].append(region)

    def finish(self, region: Region) -> None:
        assert all(self.holds(name) for name in region.inputs), region.name
        for name in self.written(region):
            self.write(name, name)

    def wait(self, waits: tuple[Wait, ...]) -> None:
        for wait in waits:
            queue = self.queues[wait.function]
            while len(queue) > wait.pending:
                self.finish(queue.pop(0))


def random_network(seed: int) -> tuple[Partition, Kernels]:
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
            kernels.append(kernel(name, device, choose.randint(1, 50), scratch))
    computed = [r.outputs[0] for r in regions if not r.view]
    outputs = tuple(dict.fromkeys([computed[-1], *choose.sample(computed, 2)]))
    return network(outputs, *regions, bytes_each=32), Kernels(tuple(kernels))


@pytest.mark.parametrize("seed", range(150))
def test_no_job_is_disturbed_between_its_start_and_its_wait(seed: int) -> None:
    partition, kernels = random_network(seed)
    plan = make_plan(partition, kernels)
    regions = {r.name: r for r in partition.regions}
    assert {step.region for step in plan.schedule.steps} == regions.keys()
    machine = Machine(partition, kernels, plan)
    machine.write("image", "image")
    for step in plan.schedule.steps:
        machine.wait(step.waits)
        if regions[step.region].view:
            continue
        machine.start(regions[step.region])
        if not machine.kernels[step.region].wait_function:
            machine.wait((Wait("", 0),))
    machine.wait(plan.schedule.last_waits)
    assert not any(machine.queues.values())
    assert all(machine.holds(name) for name in partition.outputs)

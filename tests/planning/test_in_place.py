"""A result may overwrite an input if its kernel allows it and no later region reads the input."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from firmwright.ir.kernels import Kernel, Kernels, Parameter
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Tensor
from firmwright.planning.overwritten_inputs import share_pointers
from firmwright.planning.plan import Plan, Slot, make_plan


@dataclass(frozen=True)
class Step:
    """The tensors that a region reads and writes, and the inputs that it may overwrite."""

    reads: tuple[str, ...]
    writes: str
    over: tuple[int, ...] = ()
    view: bool = False


def plan(
    steps: Sequence[Step], outputs: tuple[str, ...], sizes: dict[str, int]
) -> tuple[Partition, Kernels, Plan]:
    """Plan a network whose input is ``image``; tensors have 64 bytes by default."""
    names = ["image", *(step.writes for step in steps)]
    tensors = {name: Tensor(name, (sizes.get(name, 64),), "int8") for name in names}
    regions, kernels = [], []
    for step in steps:
        name = f"region_{step.writes}"
        regions.append(
            Region(name, "", "", "", (), (), step.reads, (step.writes,), 0, step.view, ())
        )
        inputs, (output,) = (
            tuple(Parameter(f"{stem}{i}", "int8", tensors[t].elements, t) for i, t in enumerate(ts))
            for stem, ts in (("input_", step.reads), ("output_", (step.writes,)))
        )
        over = tuple(f"input_{i}" for i in step.over)
        scratch = (Parameter("scratch", "int8", 16, f"{name}_scratch"),)
        if not step.view:
            kernels.append(
                Kernel(name, inputs, (), (output,), scratch, "", (), 0, (), in_place=over)
            )
    partition = Partition(("image",), outputs, tuple(tensors.values()), tuple(regions))
    made = Kernels(tuple(kernels))
    return partition, made, make_plan(partition, made)


def joined(steps: Sequence[Step], outputs: tuple[str, ...], **sizes: int) -> list[str]:
    """Return the tensors that overwrite an input of their kernel."""
    _, kernels, made = plan(steps, outputs, sizes)
    return [k.region[7:] for k in kernels.kernels if share_pointers(k, made.locations) is not k]


A = Step(("image",), "a")


def test_a_chain_lies_in_one_place() -> None:
    steps = [A, Step(("a",), "b", (0,)), Step(("b",), "c", (0,)), Step(("c",), "d")]
    assert joined(steps, ("d",)) == ["b", "c"]
    _, _, made = plan(steps, ("d",), {})
    assert made.arena_bytes == made.arena_lower_bound_bytes == 64 + 16


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([A, Step(("a",), "b"), Step(("b",), "d")], "its kernel does not say so"),
        ([A, Step(("a",), "b", (0,)), Step(("a", "b"), "d")], "it is read later"),
        ([A, Step(("a",), "v", view=True), Step(("a",), "b", (0,)), Step(("b", "v"), "d")],
         "a view of it is read later"),
        ([A, Step(("a",), "v", view=True), Step(("a", "v"), "b", (0,)), Step(("b",), "d")],
         "the kernel reads it as a view, too"),
        ([Step(("image",), "b", (0,)), Step(("b",), "d")], "it is the caller's"),
        ([A, Step(("a",), "d", (0,))], "the result is the caller's"),
    ],
)  # fmt: skip
def test_nothing_is_written_over_where(steps: list[Step], why: str) -> None:
    assert joined(steps, ("d",)) == [], why


def test_another_size_has_its_own_place() -> None:
    steps = [A, Step(("a",), "b", (0,)), Step(("b",), "d")]
    assert joined(steps, ("d",), b=48) == [] and joined(steps, ("d",)) == ["b"]


def test_another_memory_has_its_own_place() -> None:
    partition, kernels, _ = plan([A, Step(("a",), "b", (0,)), Step(("b",), "d")], ("d",), {})
    made = make_plan(replace(partition, tensor_memories={"b": "l2"}), kernels)
    assert made.locations["b"] == Slot("l2", 0) and made.locations["a"] == Slot("ram", 0)


def test_of_two_inputs_one_is_written_over() -> None:
    steps = [A, Step(("image",), "b"), Step(("a", "b"), "c", (0, 1)), Step(("c",), "d")]
    _, _, made = plan(steps, ("d",), {})
    assert joined(steps, ("d",)) == ["c"]
    assert made.locations["c"] == made.locations["a"] != made.locations["b"]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_read_is_what_was_written(seed: int) -> None:
    """Simulate random plans: a reader finds the bytes of the expected writer."""
    generator = random.Random(seed)
    steps: list[Step] = [A]
    for number in range(12):
        known = ["image", *(step.writes for step in steps)]
        reads = tuple(dict.fromkeys(generator.choices(known[-4:], k=generator.choice([1, 2, 2]))))
        if generator.random() < 0.2:
            steps.append(Step(reads[:1], f"t{number}", view=True))
        else:
            over = tuple(i for i in range(len(reads)) if generator.random() < 0.7)
            steps.append(Step(reads, f"t{number}", over))
    partition, kernels, made = plan(steps, (steps[-1].writes, steps[-4].writes), {})
    assert made.arena_bytes <= plan([Step(s.reads, s.writes, (), s.view) for s in steps],
                                    partition.outputs, {})[2].arena_bytes  # fmt: skip
    roots = partition.view_roots
    writer: dict[int, str] = {}
    kernel_of = {kernel.region: kernel for kernel in kernels.kernels}
    for region in partition.regions:
        if region.view:
            continue
        kernel = kernel_of[region.name]
        (output,) = kernel.outputs
        places = {p.name: find_bytes(made, p) for p in (*kernel.inputs, output, *kernel.scratch)}
        for parameter in kernel.inputs:
            assert all(writer[b] == roots[parameter.tensor] for b in places[parameter.name])
            shared = {*places[parameter.name]} & {*places[output.name]}
            if shared:
                assert parameter.name in kernel.in_place
                assert places[parameter.name] == places[output.name]
                assert [roots[p.tensor] for p in kernel.inputs].count(roots[parameter.tensor]) == 1
        for written in (output, *kernel.scratch):
            others = [p for p in places if p not in (written.name, *kernel.in_place)]
            assert not any({*places[written.name]} & {*places[p]} for p in others)
            writer |= dict.fromkeys(places[written.name], written.tensor)


def find_bytes(made: Plan, parameter: Parameter) -> list[int]:
    """Return the offsets of a tensor's bytes in the arena; empty if the caller owns it."""
    place = made.locations[parameter.tensor]
    if not isinstance(place, Slot):
        return []
    return [*range(place.offset, place.offset + parameter.bytes)]

"""Tensors are in a memory that all their users reach, and are copied if there is no such memory."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from firmwright.devices.cpu import CPU
from firmwright.errors import UserError
from firmwright.ir.kernels import Kernel, Kernels, Parameter
from firmwright.ir.regions import COPY, Partition, Region
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.partition.memory_choice import assign_memories
from firmwright.planning import Program, check_memory, make_plan
from firmwright.targets import Context, Device
from firmwright.toolchain import Platform
from firmwright.toolchain.platforms import Memory


class Npu(type(CPU)):  # type: ignore[misc]
    """A device of which only the name is used."""

    def __init__(self, name: str, copies: bool = False) -> None:
        self.name, self.copies = name, copies


def platform(**reach: list[str]) -> Platform:
    memories = {"ram": Memory(0, 4096), "near": Memory(4096, 64)}
    numbers = {device: {"memories": list(m)} for device, m in reach.items()}
    return Platform("chip", "", "", "", (), (), memories=memories, accelerators=numbers)


def mix(chip: Platform, *engines: str) -> list[Device]:
    copying = (Npu(name, copies=True) for name in engines)
    return [Device(t, Context(chip, "onnx", {})) for t in (Npu("a"), Npu("b"), *copying, CPU)]


def region(name: str, device: str, *inputs: str, view: bool = False) -> Region:
    return Region(name, device, "", "", (), (), inputs, (f"{name}_result",), 0, view, ())


def placed(
    chip: Platform, outputs: tuple[str, ...], *regions: Region, engines: tuple[str, ...] = ()
) -> Partition:
    tensors = tuple(
        Tensor(n, (8, 4), "int8") for n in ("image", *(n for r in regions for n in r.outputs))
    )
    partition = Partition(("image",), outputs, tensors, regions)
    return assign_memories(tvm.IRModule(), partition, mix(chip, *engines))[1]


def copies(partition: Partition) -> list[str]:
    return [r.name for r in partition.regions if r.anchor == COPY]


CHAIN = (
    region("first", "a", "image"),
    region("flat", "c", "first_result", view=True),
    region("second", "b", "flat_result"),
    region("third", "c", "second_result"),
)


def test_without_a_word_of_the_platform_all_is_in_the_processors_memory() -> None:
    found = placed(Platform("chip", "", "", "", (), ()), ("third_result",), *CHAIN)
    assert (found.regions, found.tensor_memories) == (CHAIN, {})


def test_a_memory_that_both_reach_passes_a_tensor_on() -> None:
    found = placed(platform(a=["far", "near"], b=["near"]), ("third_result",), *CHAIN)
    assert copies(found) == ["image_to_far"]
    assert found.tensor_memories == {
        "image_to_far_result": "far",
        "first_result": "near",
        "flat_result": "near",
        "second_result": "near",
    }
    assert found.copied_bytes == 32


def test_between_memories_of_their_own_a_tensor_is_copied_once() -> None:
    again = region("again", "b", "flat_result")
    found = placed(platform(a=["far"], b=["near"]), ("third_result",), *CHAIN, again)
    assert copies(found) == ["image_to_far", "flat_to_near"]
    readers = [r.inputs for r in found.regions if r.name in ("second", "again")]
    assert readers == [("flat_to_near_result",)] * 2
    (copy,) = (r for r in found.regions if r.name == "flat_to_near")
    assert (copy.device, copy.reason) == ("c", "b does not reach far: 32 bytes to near")
    assert [r.memory for r in found.regions if r.name in ("first", "second")] == ["far", "near"]


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (["far", "near"], ["c", "engine", "c"]),
        (["ram", "far", "near"], ["engine"] * 3),
        (["near"], ["c", "c", "c"]),
    ],
)
def test_an_engine_copies_between_the_memories_that_it_reaches(
    engine: list[str], expected: list[str]
) -> None:
    chip = platform(a=["far"], b=["near"], engine=engine)
    found = placed(chip, ("second_result",), *CHAIN[:3], engines=("engine",))
    assert copies(found) == ["image_to_far", "flat_to_near", "second_to_ram"]
    assert [r.device for r in found.regions if r.anchor == COPY] == expected


def test_the_program_gets_its_outputs_in_its_own_memory() -> None:
    found = placed(
        platform(a=["ram", "near"], b=["near"]), ("first_result", "second_result"), *CHAIN
    )
    assert found.outputs == ("first_result", "second_to_ram_result")
    assert copies(found) == ["flat_to_near", "second_to_ram"]


def test_a_copy_is_a_function_of_the_device_that_takes_the_rest() -> None:
    chip = platform(a=["near"])
    part = Partition(
        ("image",),
        ("r",),
        (Tensor("image", (2, 3), "int16"), Tensor("r", (2, 3), "int16")),
        (Region("r0", "a", "", "", (), (), ("image",), ("r",), 0, False, ()),),
    )
    module, found = assign_memories(tvm.IRModule(), part, mix(chip))
    assert isinstance(module["image_to_near"], relax.Function)
    kernel = CPU.lower(found.regions[0], module, Context(chip, "onnx", {})).kernel
    assert "output[ax0] = input[ax0]" in kernel.body
    assert (kernel.inputs[0].elements, kernel.outputs[0].dtype) == (6, "int16")


def test_a_memory_that_is_too_small_is_named_with_its_largest_buffers() -> None:
    chip = platform(a=["near"], b=["near"])
    part = placed(chip, ("third_result",), *CHAIN)
    memory = (Parameter("memory", "uint8", 48, "first_memory"),)
    kernels = Kernels((Kernel("first", (), (), (), memory, "", (), 0, ()),))
    plan = make_plan(part, kernels)
    assert plan.other_arenas == {"near": 112} and plan.arena_bytes == 0
    with pytest.raises(UserError) as raised:
        check_memory(Program(plan, part, kernels, ModelInterface("", "", (), (), ())), chip)
    assert "it needs 112 bytes of near; 64 are available" in str(raised.value)
    assert "48 bytes  first_memory" in str(raised.value)

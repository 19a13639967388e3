"""Each tensor and constant is in the cheapest memory with space; the most read ones come first."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from firmwright.ir.kernels import Kernel, Kernels, Parameter
from firmwright.ir.regions import RAM, Partition, Region
from firmwright.ir.tensors import Tensor
from firmwright.planning import MemoryChoices, Plan, make_plan
from firmwright.planning.arena import arena_bytes
from firmwright.planning.memory_assignment import count_accesses
from firmwright.planning.pinned_memories import resolve_pins
from firmwright.recipe.memory_key import PinError
from firmwright.toolchain import Platform, load_platform
from firmwright.toolchain.platforms import Memory

COSTS = {"flash": 3.0, "ram": 2.0, "dtcm": 1.0, "qspi": 9.0}
SIZES = {"flash": 4096, "ram": 4096, "dtcm": 256, "qspi": 65536}


def make_platform(**sizes: int) -> Platform:
    """Return a platform of four memories, with changed sizes if given."""
    memories = {
        name: Memory(0, sizes.get(name, SIZES[name]), cost, name in ("flash", "qspi"))
        for name, cost in COSTS.items()
    }
    return replace(load_platform("cortex-m7-bare"), memories=memories, stack=0)


def make_layer(
    name: str, reads: str, result: Tensor, weights: int, macs: int, device: str = "c"
) -> tuple[Region, Kernel]:
    """Return a layer with an array of weights and an array of four sums."""
    region = Region(
        name, device, "", "", (f"model/{name}",), (), (reads,), (result.name,), macs, False, ()
    )
    given = (Parameter("input_0", "int8", 64, reads),)
    constants = (
        Parameter("weights", "int8", weights, f"{name}_weights"),
        Parameter("sums", "int32", 4, f"{name}_sums"),
    )
    made = (Parameter("output_0", "int8", result.elements, result.name),)
    return region, Kernel(name, given, constants, made, (), "", (), 0, ())


def make_network(device: str = "c") -> tuple[Partition, Kernels]:
    """Return two layers: each weight of the first is read 100 times, of the second 10 times."""
    tensors = [Tensor(n, (64,), "int8") for n in ("image", "a", "b")]
    layers = [
        make_layer("first", "image", tensors[1], 128, 12_800, device),
        make_layer("second", "a", tensors[2], 512, 5_120),
    ]
    regions, kernels = zip(*layers, strict=True)
    return Partition(("image",), ("b",), tuple(tensors), regions), Kernels(kernels)


def place(platform: Platform, **pins: str) -> Plan:
    partition, kernels = make_network()
    found = resolve_pins(pins, partition, kernels, platform)
    return make_plan(partition, kernels, MemoryChoices(platform, found))


def test_accesses_are_counted_by_the_products_that_read_them() -> None:
    assert count_accesses(*make_network()) == {
        "image": 12_800,
        "first_weights": 12_800,
        "first_sums": 4 * 64,
        "a": 64 + 5_120,  # written by the first, read by the products of the second
        "second_weights": 5_120,
        "second_sums": 4 * 64,
        "b": 64,
    }


def test_the_most_read_for_its_size_lies_in_the_cheapest_memory() -> None:
    plan = place(make_platform())  # of 256 bytes: 128 weights, 64 of `a`, twice 16 of sums
    assert plan.constants == dict.fromkeys(("first_sums", "first_weights", "second_sums"), "dtcm")
    assert (plan.arena_bytes, plan.other_arenas) == (0, {"dtcm": 64})


def test_what_does_not_fit_goes_to_the_next() -> None:
    plan = place(make_platform(dtcm=64, flash=672))
    assert plan.other_arenas == {"dtcm": 64}  # `a`, whose bytes are accessed 81 times each
    assert plan.constants == {}
    plan = place(make_platform(dtcm=64, flash=256))  # the second layer's 512 weights do not fit
    assert plan.constants == {"second_weights": "qspi"}


def test_a_copy_needs_room_in_flash_too() -> None:
    plan = place(make_platform(dtcm=4096, flash=256))
    assert plan.constants["second_weights"] == "qspi"
    assert plan.constants["first_weights"] == "dtcm"


def test_constants_leave_ram_to_variables() -> None:
    platform = make_platform(dtcm=16)
    memories = {**platform.memories, "ram": replace(platform.memories["ram"], cost=0.5)}
    assert "ram" not in place(replace(platform, memories=memories)).constants.values()


def test_states_are_in_ram_and_take_their_room() -> None:
    partition, kernels = make_network()
    platform = make_platform(ram=64)
    memories = {**platform.memories, "ram": replace(platform.memories["ram"], cost=0.5)}
    choices = MemoryChoices(replace(platform, memories=memories))
    assert make_plan(partition, kernels, choices).other_arenas == {}
    plan = make_plan(replace(partition, states=1), kernels, choices)
    assert (plan.arena_bytes, plan.state_bytes) == (64, 64)
    assert plan.other_arenas == {"dtcm": 64}


def test_of_two_memories_of_one_cost_constants_lie_where_they_need_no_copy() -> None:
    platform = make_platform()
    flash = replace(platform.memories["flash"], cost=1)
    memories = {"dtcm": platform.memories["dtcm"], **platform.memories, "flash": flash}
    assert place(replace(platform, memories=memories)).constants == {}


def test_without_costs_nothing_moves() -> None:
    platform = make_platform()
    plain = {name: replace(m, cost=None) for name, m in platform.memories.items()}
    plan = place(replace(platform, memories=plain))
    assert plan == make_plan(*make_network())


def test_an_accelerators_constants_are_in_the_read_only_memory_that_it_reaches() -> None:
    partition, kernels = make_network("dla")
    numbers = {"dla": {"memories": ["ram", "qspi"]}}
    platform = replace(make_platform(), accelerators=numbers)
    plan = make_plan(partition, kernels, MemoryChoices(platform))
    assert plan.constants["first_weights"] == plan.constants["first_sums"] == "qspi"
    assert plan.constants.get("second_sums") != "qspi"


def test_what_an_accelerator_reads_stays() -> None:
    partition, kernels = make_network("dla")
    platform = replace(make_platform(), accelerators={"dla": {}})
    plan = make_plan(partition, kernels, MemoryChoices(platform))
    assert plan.constants == {"second_sums": "dtcm"}
    assert (plan.arena_bytes, plan.other_arenas) == (64, {})
    with pytest.raises(PinError, match="an accelerator uses this tensor"):
        resolve_pins({"first": "dtcm"}, partition, kernels, platform)
    assert resolve_pins({"weights": "qspi"}, partition, kernels, platform).keys() == {
        "second_weights",
        "second_sums",
    }


def test_a_pin_counts_more_than_costs() -> None:
    plan = place(make_platform(), weights="qspi", arena="ram")
    assert {*plan.constants.values()} == {"qspi"}
    assert (plan.arena_bytes, plan.other_arenas) == (64, {})
    plan = place(make_platform(), **{"weights": "qspi", "model/f*": "dtcm"})
    assert plan.constants["first_weights"] == "dtcm" and plan.constants["second_sums"] == "qspi"
    assert plan.other_arenas == {"dtcm": 64}
    plan = place(make_platform(), **{"model/*": "qspi", "model/first": "dtcm"})
    assert plan.constants["first_weights"] == "dtcm", "a name counts more than a pattern"


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({"model/fist": "dtcm"}, "no layer named 'model/fist'; did you mean 'model/first'?"),
        ({"model/f*": "dtcm", "model/*t": "ram"}, "assigns one of these layers to 'ram'"),
    ],
)
def test_a_pin_that_cannot_be_followed(pins: dict[str, str], message: str) -> None:
    with pytest.raises(PinError) as caught:
        place(make_platform(), **pins)
    assert message in str(caught.value)


@pytest.mark.parametrize("seed", range(20))
def test_no_memory_is_filled_beyond_its_size(seed: int) -> None:
    draw = random.Random(seed)
    tensors = [Tensor(f"t{i}", (draw.randrange(1, 200),), "int8") for i in range(12)]
    layers = [
        make_layer(f"l{i}", f"t{i}", t, draw.randrange(1, 300), draw.randrange(10_000))
        for i, t in enumerate(tensors[1:])
    ]
    regions, kernels = zip(*layers, strict=True)
    partition = Partition(("t0",), ("t11",), tuple(tensors), regions)
    platform = make_platform(dtcm=draw.randrange(1000), flash=draw.randrange(3000), ram=100_000)
    plan = make_plan(partition, Kernels(kernels), MemoryChoices(platform))
    sizes = {p.tensor: p.bytes for kernel in kernels for p in kernel.weights}
    for memory in ("dtcm", "qspi"):
        held = sum(size for name, size in sizes.items() if plan.constants.get(name) == memory)
        assert held + plan.other_arenas.get(memory, 0) <= platform.memories[memory].size
    for memory in (RAM, "dtcm"):
        inside = [b for b in plan.buffers if b.memory == memory]
        assert arena_bytes(inside) == (
            plan.arena_bytes if memory == RAM else plan.other_arenas.get(memory, 0)
        )
        for one in inside:
            for other in inside:
                apart = one.end <= other.offset or other.end <= one.offset
                assert one is other or apart or not one.is_alive_with(other)

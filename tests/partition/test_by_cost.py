"""Devices chosen by modelled costs, compared with the order of the target and with all choices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm

from firmwright.builder import Graph, random_array
from firmwright.errors import UserError
from firmwright.ir.kernels import Kernel, LoweredRegion
from firmwright.ir.regions import Region, RuleViolation
from firmwright.ir.relax import main_bindings, operator_name
from firmwright.ir.tensors import ModelInterface
from firmwright.models.relax.importer import import_model
from firmwright.models.relax.python_call import portable_json
from firmwright.partition.by_cost import partition_by_cost
from firmwright.partition.outline import (
    partition_module,
)
from firmwright.partition.prices import CostError, PriceList
from firmwright.recipe.target import parse_target
from firmwright.report.explanation import check_offload, explain, format_table
from firmwright.targets import Context, Device, Target
from firmwright.targets.load_devices import load_mix
from firmwright.targets.placement import Composite, Placement
from firmwright.toolchain import load_platform
from firmwright.toolchain.platforms import Throughput, Timing
from firmwright.transforms import canonicalize

Imported = tuple[tvm.IRModule, ModelInterface]

DIANA = load_platform("diana")
MIX = load_mix(parse_target("soma_dory, c"), DIANA, "onnx")


def imported(graph: Graph) -> Imported:
    module, interface = import_model(portable_json(graph.module()), "graph", {})
    return canonicalize(module), interface


def small_sum() -> Imported:
    """Return a sum of two pooled tensors, smaller than the cost of their transforms."""
    graph = Graph()
    x, y = (graph.input(name, (1, 16, 4, 4)) for name in ("x", "y"))
    x, y = graph.max_pool2d(x, "pool_x", (2, 2)), graph.max_pool2d(y, "pool_y", (2, 2))
    return imported(graph.output(graph.max_pool2d(graph.add(x, y, "sum"), "last", (2, 2))))


def large_convolution() -> Imported:
    graph = Graph()
    x = graph.input("x", (1, 16, 16, 16))
    weights = random_array((16, 16, 3, 3), seed=1)
    return imported(graph.output(graph.conv2d(x, "conv", weights, shift_bits=7)))


def random_network(seed: int) -> Imported:
    """Return up to five operators, of which the accelerator accepts up to three."""
    random = np.random.default_rng(seed)
    graph = Graph()
    channels, size = int(random.choice([4, 16])), int(random.choice([2, 4, 8]))
    values = [graph.input("x", (1, channels, size, size))]
    for number in range(int(random.integers(2, 6))):
        x = values[int(random.integers(max(0, len(values) - 2), len(values)))]
        kind = random.choice(["conv2d", "add", "max_pool2d"])
        if kind == "max_pool2d":
            values.append(graph.max_pool2d(x, f"pool{number}", (1, 1)))
        elif kind == "add":
            values.append(graph.add(x, values[-1], f"add{number}", shift_bits=1))
        else:
            kernel = int(random.choice([1, 3]))
            weights = random_array((channels, channels, kernel, kernel), seed=number)
            values.append(graph.conv2d(x, f"conv{number}", weights, shift_bits=7))
    return imported(graph.output(values[-1]))


def price(built: tuple[tvm.IRModule, object], mix: tuple[Device, ...] = MIX) -> float:
    return PriceList(mix, built[0]).price_partition(*built)[1]  # type: ignore[arg-type]


def test_a_small_sum_between_poolings_stays_on_the_core() -> None:
    module, interface = small_sum()
    by_order = partition_module(module, interface, MIX)
    by_cost = partition_by_cost(module, interface, MIX)
    assert "soma_dory" in {r.device for r in by_order[1].regions}
    assert {r.device for r in by_cost[1].regions} == {"c"}
    assert price(by_cost) < price(by_order)
    shown = format_table(explain(by_cost[1], ["soma_dory", "c"]))
    assert "soma_dory: cost: the network, including moves, is not slower on c: soma_dory " in shown
    assert "cycles (its cost model), c " in shown


def test_a_large_convolution_runs_on_the_accelerator() -> None:
    _, partition = partition_by_cost(*large_convolution(), MIX)
    (conv,) = (r for r in partition.regions if r.anchor == "conv2d")
    assert conv.device == "soma_dory"
    assert "; compared: soma_dory " in conv.reason
    assert conv.reason.endswith(" cycles (its cost model), c 2,949,120 cycles (its cost model)")


def test_without_transforms_the_layouts_agree() -> None:
    mix = load_mix(parse_target("soma_dory -layout_transform=0, c"), DIANA, "onnx")
    _, partition = partition_by_cost(*large_convolution(), mix)
    assert [r.device for r in partition.regions] == ["soma_dory"]
    with pytest.raises(UserError, match="layout transforms are off"):
        partition_by_cost(*small_sum(), mix)


class Pooler(Target):
    """A device with a number for every pooling, or without one."""

    reason = "it pools"

    def __init__(self, name: str, cycles: int | None) -> None:
        self.name, self.cycles = name, cycles

    def place(self, module: tvm.IRModule, _context: Context, /) -> Placement:
        pooled = [
            b for b in main_bindings(module) if operator_name(b.value) == "relax.nn.max_pool2d"
        ]
        return Placement(tuple(Composite("pooling", (b.var,)) for b in pooled))

    def estimate_cycles(self, *_: object) -> int | None:
        return self.cycles

    def lower(self, region: Region, *_: object) -> LoweredRegion:
        kernel = Kernel(region.name, (), (), (), (), "", (), 0, ())
        return LoweredRegion(kernel, {})


def mix_with(*devices: Target, timing: Timing | None = None) -> tuple[Device, ...]:
    context = replace(MIX[-1].context, platform=replace(DIANA, timing=timing))
    return (*(Device(d, context) for d in devices), replace(MIX[-1], context=context))


@pytest.mark.parametrize(
    ("fast", "slow", "device"), [(9, 5, "second"), (5, 9, "first"), (9**9, 9**8, "c")]
)
def test_the_cheapest_of_three_devices_runs_a_group(fast: int, slow: int, device: str) -> None:
    mix = mix_with(Pooler("first", fast), Pooler("second", slow))
    _, partition = partition_by_cost(*small_sum(), mix)
    pools = [r for r in partition.regions if "max_pool2d" in r.operators]
    assert {r.device for r in pools} == {device}
    passed = ["first", "second", "c"][: ["first", "second", "c"].index(device)]
    assert [(r.device, r.rule) for r in pools[0].refusals] == [(name, "cost") for name in passed]


def test_a_device_without_a_number_is_an_error_in_words() -> None:
    with pytest.raises(CostError) as raised:
        partition_by_cost(*small_sum(), mix_with(Pooler("npu", None)))
    assert str(raised.value).startswith(
        "cost, but the device 'npu' states no cycles for pooling ('pool_x'); return them from"
    )


def test_a_second_device_without_a_number_is_not_an_option() -> None:
    mix = mix_with(Pooler("first", 9), Pooler("second", None))
    _, partition = partition_by_cost(*small_sum(), mix)
    assert {r.device for r in partition.regions if r.anchor == "pooling"} == {"first"}


def test_a_platform_whose_timing_lacks_a_device_is_an_error_in_words() -> None:
    timing = Timing(1, {"c": Throughput(100, 1, 1, 1)}, ())
    with pytest.raises(CostError, match="timing: the platform states no engine for 'npu'"):
        partition_by_cost(*small_sum(), mix_with(Pooler("npu", 1), timing=timing))


@pytest.mark.parametrize(("rate", "device"), [(1000.0, "npu"), (0.001, "c")])
def test_timing_decides_before_cost_models(rate: float, device: str) -> None:
    engines = {"c": Throughput(100, 1, 1, 1), "npu": Throughput(100, rate, rate, rate)}
    mix = mix_with(Pooler("npu", None), timing=Timing(1, engines, ()))
    _, partition = partition_by_cost(*small_sum(), mix)
    pools = [r for r in partition.regions if "max_pool2d" in r.operators]
    assert {r.device for r in pools} == {device}
    stated = pools[0].reason if device == "npu" else pools[0].refusals[0].sentence
    assert " us (timing of diana)" in stated


class Refuser(Target):
    """A device that rejects every operator."""

    name = "refuser"
    reason = ""

    def place(self, module: tvm.IRModule, _context: Context, /) -> Placement:
        violation = (RuleViolation("never", "it accepts nothing"),)
        return Placement((), {b.var: violation for b in main_bindings(module)})

    def lower(self, region: Region, *_: object) -> LoweredRegion:
        raise NotImplementedError


def test_operators_that_every_device_rejects_have_the_messages_of_the_order() -> None:
    mix = mix_with(Refuser())
    by_order = partition_module(*small_sum(), mix)[1]
    by_cost = partition_by_cost(*small_sum(), mix)[1]
    assert by_cost == by_order
    demands = check_offload(explain(by_cost, ["refuser", "c"]), False, None)
    assert "refuser: never: it accepts nothing" in demands["allow_fallback"]


def test_one_device_has_no_choice() -> None:
    assert partition_by_cost(*small_sum(), MIX[1:])[1] == partition_module(*small_sum(), MIX[1:])[1]

"""A mix of devices: the operators of each device, and the messages about the others."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from firmwright.builder import Graph, random_array
from firmwright.ir.kernels import LoweredRegion
from firmwright.ir.regions import Partition, Region, RuleViolation
from firmwright.ir.relax import main_bindings, operator_name
from firmwright.models.relax.importer import import_model
from firmwright.models.relax.python_call import portable_json
from firmwright.partition.outline import partition_module
from firmwright.recipe.target import parse_target
from firmwright.report.explanation import (
    Explanation,
    OperatorPlacement,
    Summary,
    check_offload,
    explain,
    format_summary,
    format_table,
)
from firmwright.targets import Context, Device, Target
from firmwright.targets.load_devices import load_mix
from firmwright.targets.placement import Composite, Placement
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize

DIANA = load_platform("diana")


def network() -> Graph:
    """A convolution, another with strides that DIANA lacks, a pooling, and a dense layer."""
    graph = Graph()
    x = graph.input("input", (1, 16, 8, 8))
    weights, bias = random_array((16, 16, 3, 3), seed=1), np.ones(16, "int32")
    x = graph.conv2d(x, "first", weights, bias, act=True, shift_bits=7)
    x = graph.conv2d(x, "second", weights, bias, strides=(1, 2), shift_bits=7)
    x = graph.max_pool2d(x, "pool", (2, 1))
    return graph.output(graph.dense(x, "scores", random_array((10, 256), seed=2), shift_bits=9))


def partitioned(
    graph: Graph, mix: tuple[Device, ...]
) -> tuple[tvm.IRModule, Partition, Explanation]:
    module, interface = import_model(portable_json(graph.module()), "graph", {})
    module, partition = partition_module(canonicalize(module), interface, mix)
    return module, partition, explain(partition, [device.name for device in mix])


def mix_of(target: str, fuse_layers: bool = True) -> tuple[Device, ...]:
    return load_mix(parse_target(target), DIANA, "onnx", fuse_layers)


def own(partition: Partition) -> list[Region]:
    """Return the regions of the network's operators, without regions that devices insert."""
    return [r for r in partition.regions if r.anchor != "layout_transform"]


def test_the_first_device_takes_what_it_can_and_the_last_one_the_rest() -> None:
    _, partition, _ = partitioned(network(), mix_of("soma_dory, c"))
    placed = [(r.anchor, r.sources, r.device) for r in own(partition) if not r.view]
    assert placed == [
        ("conv2d", ("first",), "soma_dory"),
        ("conv2d", ("second",), "c"),
        ("max_pool2d", ("pool",), "c"),
        ("dense", ("scores",), "soma_dory"),
    ]
    refused = {r.anchor: [(x.device, x.rule) for x in r.refusals] for r in own(partition)}
    assert refused["conv2d"] == [("soma_dory", "strides")]
    assert refused["max_pool2d"] == [("soma_dory", "operator")]
    assert refused["dense"] == []


def test_the_whole_network_runs_on_one_device_without_a_reason() -> None:
    _, partition, explanation = partitioned(network(), mix_of("c"))
    assert {r.device for r in partition.regions} == {"c"}
    assert not any(r.refusals for r in partition.regions)
    assert format_summary(explanation.summary) == (
        "100.0 % of MACs on c, 0 boundaries, 4 operators on c"
    )
    assert explanation.summary.macs_by_device == {"c": partition.macs}


def test_the_explanation_counts_macs_boundaries_and_operators() -> None:
    _, _, explanation = partitioned(network(), mix_of("soma_dory, c"))
    first, second, scores = 147456, 73728, 2560
    summary = explanation.summary
    assert summary.macs_by_device == {"soma_dory": first + scores, "c": second}
    assert summary.operators_by_device == {"soma_dory": 2, "c": 2}  # without layout transforms
    # In: the input and the pooled tensor; out: the first convolution's result and the scores.
    assert summary.boundaries == 4
    assert format_summary(summary) == "67.0 % of MACs on soma_dory, 4 boundaries, 2 operators on c"
    assert "soma_dory: strides: its strides are [1, 2]; the acc" in format_table(explanation)


class PoolingTarget(Target):
    """A device that has only poolings of some sizes."""

    name = "pooler"
    reason = "it pools"

    def __init__(self, most: int) -> None:
        self.most = most

    def place(self, module: tvm.IRModule, _context: Context, /) -> Placement:
        poolings = [
            b for b in main_bindings(module) if operator_name(b.value) == "relax.nn.max_pool2d"
        ]
        fits = [b for b in poolings if int(b.value.attrs.pool_size[0]) <= self.most]
        too_large = (RuleViolation("size", f"windows are at most {self.most} high"),)
        return Placement(
            tuple(Composite("max_pool2d", (b.var,)) for b in fits),
            {b.var: too_large for b in poolings if b not in fits},
        )

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        raise NotImplementedError


@pytest.mark.parametrize(("most", "device"), [(2, "pooler"), (1, "c")])
def test_devices_are_asked_in_order(most: int, device: str) -> None:
    accelerator, cpu = mix_of("soma_dory, c")
    pooler = Device(PoolingTarget(most), cpu.context)
    _, partition, _ = partitioned(network(), (accelerator, pooler, cpu))
    (pool,) = (r for r in partition.regions if r.anchor == "max_pool2d")
    assert pool.device == device
    refusals = [(r.device, r.sentence) for r in pool.refusals]
    assert (
        refusals
        == [
            ("soma_dory", "soma_dory has no max_pool2d"),
            ("pooler", "windows are at most 1 high"),
        ][: 3 - most]
    )


def test_without_fusion_every_operator_is_a_region_but_composites_stay() -> None:
    fused, separate = (
        own(partitioned(network(), mix_of("soma_dory, c", fuse))[1]) for fuse in (True, False)
    )
    second = next(r for r in fused if r.sources == ("second",))
    assert second.operators[0] == "conv2d"
    assert second.operators[-1] == "astype"
    alone = [r.operators for r in separate if r.device == "c"]
    assert all(len(operators) == 1 for operators in alone)
    assert ("conv2d",) in alone
    on_device = [[r.operators for r in rs if r.device == "soma_dory"] for rs in (fused, separate)]
    assert on_device[0] == on_device[1]


def test_demands_name_operators_and_rules() -> None:
    _, _, explanation = partitioned(network(), mix_of("soma_dory, c"))
    assert check_offload(explanation, allow_fallback=True, require_offload=67.0) == {}
    demands = check_offload(explanation, allow_fallback=False, require_offload=None)
    fallen = demands["allow_fallback"]
    assert "false, but on c are" in fallen
    assert "conv2d ('second'), 73,728 MACs\n    soma_dory: strides: its strides are" in fallen
    assert "max_pool2d ('pool'), 0 MACs\n    soma_dory: operator: " in fallen
    demands = check_offload(explanation, allow_fallback=True, require_offload=67.1)
    missing = demands["require_offload"]
    assert "67.1 %, but 67.0 % of MACs are on soma_dory" in missing
    assert "second" in missing
    assert "pool" not in missing


def test_a_target_of_one_device_meets_every_demand() -> None:
    _, _, explanation = partitioned(network(), mix_of("c"))
    assert check_offload(explanation, allow_fallback=False, require_offload=100.0) == {}


@pytest.mark.parametrize("width", [40, 80, 120])
def test_an_explanation_fits_the_terminal(width: int) -> None:
    sentence = "its strides are [1, 2]; they may be [1, 1], [2, 2]"
    refusal = RuleViolation(device="npu", rule="strides", sentence=sentence)
    placed = OperatorPlacement(
        "block/conv/with/a/long/name", "conv2d", (1, 16, 32, 32), 2359296, "c", "", (refusal,),
        False, False, "dot products",
    )  # fmt: skip
    summary = Summary(2359296, {"npu": 0, "c": 2359296}, {"npu": 0, "c": 1}, 0, 0)
    explanation = Explanation((placed,), summary)
    lines = format_table(explanation, width).splitlines()
    assert max(map(len, lines)) <= width
    whole = " ".join(" ".join(lines).split())
    assert "npu: strides: its strides are [1, 2]; they may be [1, 1], [2, 2]" in whole
    assert ("block/conv/with/a/long/name" in whole) == (width == 120)
    assert "block/conv" in whole
    assert len(format_table(explanation).splitlines()) == 4

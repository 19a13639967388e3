"""Cost models and placements of custom devices with faults: each has a message in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.builder import Graph
from firmwright.errors import UserError
from firmwright.partition.by_cost import partition_by_cost
from firmwright.partition.outline import partition_module
from firmwright.report.explanation import check_offload, explain
from firmwright.targets import Device
from firmwright.targets.custom import load_custom_target

from .test_by_cost import MIX, Imported, imported, small_sum

DEVICE = """
from firmwright.device import (
    Composite, Placement, RuleViolation, Target, lower_region, main_bindings
)


class NPU(Target):
    name = "npu"
    reason = "it pools"

    def place(self, module, context):
        bindings = main_bindings(module)
        return Placement(PLACED)

    def estimate_cycles(self, region, module, context, changes=()):
        return CYCLES

    def lower(self, region, module, context):
        return lower_region(region, module, context.rounding)
"""
POOLS = "tuple(Composite('pooling', (b.var,)) for b in bindings if 'pool' in b.var.name)"
REFUSED = "(), {b.var: (RuleViolation('never', 'it accepts no operator'),) for b in bindings}"


def make_mix(folder: Path, *placed: str, cycles: str = "1") -> tuple[Device, ...]:
    """Return custom devices with these placements and cycles, and the device c."""
    devices = []
    for number, text in enumerate(placed):
        name = f"npu{number}"
        source = (
            DEVICE.replace("PLACED", text).replace("CYCLES", cycles).replace('"npu"', f'"{name}"')
        )
        (folder / f"{name}.py").write_text(source, "utf-8")
        target = load_custom_target(name, f"{name}:NPU", folder)
        devices.append(Device(target, MIX[-1].context))
    return *devices, MIX[-1]


@pytest.mark.parametrize(
    ("cycles", "message"),
    [
        ("float('nan')", "estimate_cycles: returned a float; expected an int or None"),
        ("-3", "estimate_cycles: -3 cycles are negative; expected 0 or more"),
        ("float('inf')", "estimate_cycles: returned a float; expected an int or None"),
        ("1 << 70", "estimate_cycles: the cycles need more than 63 bits; expected fewer"),
        ("None", "cost, but the device 'npu0' states no cycles for pooling ('pool_x')"),
        ("'9'", "estimate_cycles: returned a str; expected an int or None"),
    ],
)
def test_wrong_cycles(cycles: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        partition_by_cost(*small_sum(), make_mix(tmp_path, POOLS, cycles=cycles))
    assert message in str(raised.value)


def test_a_platform_without_times_compares_cycles(tmp_path: Path) -> None:
    mix = make_mix(tmp_path, POOLS)
    assert mix[0].context.platform.timing is None
    _, partition = partition_by_cost(*small_sum(), mix)
    reasons = [r.reason for r in partition.regions if r.device == "npu0"]
    assert reasons
    assert all("compared: npu0 1 cycles (its cost model), c " in reason for reason in reasons)


def test_every_device_rejects_every_operator(tmp_path: Path) -> None:
    mix = make_mix(tmp_path, REFUSED, REFUSED)
    _, partition = partition_by_cost(*small_sum(), mix)
    assert {region.device for region in partition.regions} == {"c"}
    demands = check_offload(explain(partition, ["npu0", "npu1", "c"]), False, None)
    for name in ("npu0", "npu1"):
        assert f"{name}: never: it accepts no operator" in demands["allow_fallback"]


def crossed() -> Imported:
    """Return two chains of which each has an operator that reads the other chain."""
    graph = Graph()
    x, y = (graph.input(name, (1, 16, 4, 4)) for name in ("x", "y"))
    first, second = graph.max_pool2d(x, "a_1", (2, 2)), graph.max_pool2d(y, "b_1", (2, 2))
    last, other = (
        graph.max_pool2d(second, "a_2", (2, 2)), graph.max_pool2d(first, "b_2", (2, 2))
    )  # fmt: skip
    return imported(graph.output(graph.add(last, other, "sum")))


def test_groups_of_two_devices_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Each group has no path through another operator, but both groups together form a cycle."""
    pairs = [
        f"(Composite('pair', tuple(b.var for b in bindings if '{letter}_' in b.var.name)),)"
        for letter in "ab"
    ]
    mix = make_mix(tmp_path, *pairs)
    for partition in (partition_module, partition_by_cost):
        _, found = partition(*crossed(), mix)
        assert {r.device for r in found.regions} == {"npu0", "c"}
        (refused,) = {o.sentence for r in found.regions for o in r.refusals if o.rule == "cycle"}
        assert refused.startswith("its group and a group of an earlier device would wait for each")

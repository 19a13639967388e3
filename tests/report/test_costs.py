"""The modelled cost of two mixes: calls between cores, bytes, and time, computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firmwright.ir.kernels import Cycles, Kernel, Kernels, Parameter
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Tensor
from firmwright.report.comparison import compare_costs, format_costs
from firmwright.report.estimates import Cost, LayerEstimate, estimate_layers
from firmwright.toolchain import load_platform, platform_names
from firmwright.toolchain.platforms import Throughput, Timing

TIMING = Timing(
    call_us=500,
    engines={
        "c": Throughput(2000, 0.5, 0.5, 2),
        "tidl": Throughput(1000, 400, 100, 10),
        "c7x": Throughput(1000, 4, 4, 10),
    },
    unverified=("call_us",),
)
CORES = {"tidl": "c7x", "c": "", "c7x": "c7x"}


def region(name: str, device: str, reads: str, writes: str, macs: int = 0) -> Region:
    return Region(name, device, "", name, (name,), (name,), (reads,), (writes,), macs, False, ())


def network(rest: str, dtype: str = "int8", weights_of_conv: str = "") -> tuple[Partition, Kernels]:
    """A convolution on TIDL, a table on the ``rest``, a product on TIDL; a view between them."""
    tensors = [Tensor(n, (1, 1000), dtype) for n in "abcde"]
    view = replace(region("view", rest, "c", "d"), view=True)
    regions = (
        region("conv", "tidl", "a", "b", 4_000_000),
        region("table", rest, "b", "c", 8_000),
        view,
        region("dense", "tidl", "d", "e", 1_000),
    )
    weights = {"dense": (Parameter("w", "int8", 60_000, "w"),)}
    if weights_of_conv:
        weights["conv"] = (Parameter("v", weights_of_conv, 10, "v"),)
    kernels = [Kernel(r.name, (), weights.get(r.name, ()), (), (), "", (), 0, ())
               for r in regions if not r.view]  # fmt: skip
    return Partition(("a",), ("e",), tuple(tensors), regions), Kernels(tuple(kernels))


def cores(rest: str) -> dict[str, str]:
    return {device: CORES[device] for device in ("tidl", rest)}


def costs(rest: str, dtype: str = "int8") -> dict[str, Cost]:
    layers = estimate_layers(*network(rest, dtype), TIMING, cores(rest), "network_run")
    return {layer.name: layer.cost for layer in layers}


def test_mapped_to_the_processor_every_region_of_the_accelerator_is_a_call() -> None:
    found = costs("c")
    assert found["conv"] == Cost(2, 2000, work_us=10.0, calls_us=500)
    assert found["table"] == Cost(0, 0, work_us=8.0, calls_us=0)
    assert found["network_run"] == Cost(0, 0, 0, 0)
    assert list(found) == ["conv", "table", "dense", "network_run"]


def test_mapped_to_the_accelerators_core_the_network_is_one_call() -> None:
    found = costs("c7x")
    assert found["conv"] == Cost(0, 0, work_us=10.0, calls_us=0)
    assert found["table"] == Cost(0, 0, work_us=2.0, calls_us=0)
    assert found["network_run"] == Cost(2, 2000, work_us=0, calls_us=500)


def test_moving_weights_may_take_longer_than_multiplying() -> None:
    assert costs("c")["dense"].work_us == 6.2


def test_16_bits_are_multiplied_at_their_own_rate_and_are_twice_the_bytes() -> None:
    assert costs("c", "int16")["conv"] == Cost(2, 4000, work_us=40.0, calls_us=500)


@pytest.mark.parametrize(("weights", "work_us"), [("int8", 10.0), ("int16", 40.0)])
def test_weights_show_the_bits_of_floats_that_a_device_quantizes(
    weights: str, work_us: float
) -> None:
    partition, kernels = network("c", "float32", weights)
    layers = estimate_layers(partition, kernels, TIMING, cores("c"), "network_run")
    assert layers[0].cost.work_us == work_us


def test_what_a_device_says_of_its_cycles_goes_first() -> None:
    partition, kernels = network("c7x")
    conv, table_, dense = kernels.kernels
    kernels = Kernels((conv, replace(table_, cycles=Cycles(3000, 100, 0)), dense))
    layers = estimate_layers(partition, kernels, TIMING, cores("c7x"), "network_run")
    assert layers[1].cost.work_us == 3.1


def test_both_mappings_side_by_side() -> None:
    mixes = ("tidl, c", "tidl, c7x")
    own, other = (
        estimate_layers(*network(rest), TIMING, cores(rest), "network_run") for rest in ("c", "c7x")
    )
    found = compare_costs(own, mixes[0], other, mixes[1], TIMING.unverified)
    assert [row.sources for row in found.layers] == [("conv",), ("table",), ("dense",), ()]
    assert (found.layers[1].devices, found.layers[1].other_devices) == (("c",), ("c7x",))
    assert found.total.base == Cost(4, 4000, 24.2, 1000)
    assert found.total.other == Cost(2, 2000, 18.2, 500)
    assert found.origin == "modelled, not measured"
    lines = [line.split() for line in format_costs(found).splitlines()]
    assert lines[1] == ["conv", "2", "2,000", "510.0", "0", "0", "10.0"]
    assert lines[-2] == ["call", "0", "0", "0.0", "2", "2,000", "500.0"]
    assert lines[-1] == ["total", "4", "4,000", "1,024.2", "2", "2,000", "518.2"]


def test_branches_grouped_otherwise_share_a_row() -> None:
    layer = LayerEstimate("x", "c", ("a", "b"), Cost(0, 0, 5, 0))
    parts = [replace(layer, sources=(s,)) for s in "ab"]
    (row,) = compare_costs([layer], "c", parts, "c", ()).layers
    assert (row.base.work_us, row.other.work_us) == (5, 10)


@pytest.mark.parametrize("name", [n for n in platform_names() if load_platform(n).timing])
def test_a_platforms_timing_knows_its_devices_and_names_what_is_assumed(name: str) -> None:
    platform = load_platform(name)
    assert platform.timing is not None
    assert {"c", *platform.accelerators} <= set(platform.timing.engines)
    assert "call_us" in platform.timing.unverified

"""The accelerator computes all products of MLPerf Tiny, with a minimum of layout changes."""

from __future__ import annotations

import pytest

from firmwright.ir.regions import TRANSFORM
from firmwright.partition.by_cost import partition_by_cost
from firmwright.partition.outline import partition_module
from firmwright.partition.prices import PriceList
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize
from tests.lowering.test_tflite_networks import NETWORKS

from .shift_networks import shifted_network

TRANSFORMS = {"ad": 2}
"""Layout changes: to device layout and back; other networks also change it around the average."""


@pytest.mark.parametrize("network", NETWORKS)
def test_all_products_run_on_the_accelerator(network: str) -> None:
    module, interface, _ = shifted_network(network)
    mix = load_mix(parse_target("soma_dory, c"), load_platform("diana"), "onnx")
    _, partition = partition_module(canonicalize(module), interface, mix)
    assert [r.name for r in partition.regions if r.macs and r.device != "soma_dory"] == []
    anchors = [r.anchor for r in partition.regions]
    assert anchors.count(TRANSFORM) == TRANSFORMS.get(network, 4)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_choice_by_cost_never_costs_more_than_the_order(network: str) -> None:
    module, interface, _ = shifted_network(network)
    module = canonicalize(module)
    mix = load_mix(parse_target("soma_dory, c"), load_platform("diana"), "onnx")
    by_order = partition_module(module, interface, mix)
    by_cost = partition_by_cost(module, interface, mix)
    order, cost = (PriceList(mix, m).price_partition(m, p)[1] for m, p in (by_order, by_cost))
    assert 0 < cost <= order

"""Devices chosen by modelled times for TI's chips, compared with the order of the target."""

from __future__ import annotations

import pytest

from firmwright.models import FORMATS
from firmwright.partition.by_cost import partition_by_cost
from firmwright.partition.outline import partition_module
from firmwright.partition.prices import PriceList
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize
from tests.lowering.test_tflite_networks import NETWORKS, mirrored


@pytest.mark.parametrize(
    ("network", "target", "platform", "is_faster"),
    [
        ("resnet8", "tidl, c7x", "am62a", False),
        ("kws", "tidl, c", "j721s2", False),
        ("ad", "tidl, c", "j721s2", True),  # its products need less time than a call of the C7x
    ],
)
def test_a_choice_by_cost_never_costs_more_than_the_order(
    network: str, target: str, platform: str, is_faster: bool
) -> None:
    data = mirrored(NETWORKS[network]).read_bytes()
    module, interface = FORMATS["tflite"].load().import_model(data, network, {})[:2]
    module = canonicalize(module)
    mix = load_mix(parse_target(target), load_platform(platform), "tflite")
    by_order = partition_module(module, interface, mix)
    by_cost = partition_by_cost(module, interface, mix)
    order, cost = (PriceList(mix, m).price_partition(m, p)[1] for m, p in (by_order, by_cost))
    assert 0 < cost <= order
    assert (cost < order) == is_faster

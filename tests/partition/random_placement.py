"""Compares placements by cost with all placements of random networks.

    python -m tests.partition.random_placement 100

Every combination of devices of a network is really built, with its layout transforms, and priced.
The placement by cost must have the lowest price. It must never cost more than the placement by the
order of the target.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np

from firmwright.builder import random_array
from firmwright.errors import UserError
from firmwright.partition.by_cost import PricedNetwork, partition_by_cost
from firmwright.partition.outline import (
    build_regions,
    insert_moves,
    partition_module,
    prepare_network,
)
from firmwright.partition.prices import PriceList
from firmwright.targets.device_assignment import ask_devices
from tests.devices.soma_dory.test_boundaries import execute

from .test_by_cost import MIX, Imported, price, random_network


def price_all(module: Imported) -> list[float]:
    """Return the prices of all combinations of devices that can be built."""
    prepared, macs = prepare_network(*module, MIX)
    asked = ask_devices(prepared, MIX)
    functions, partition, groups = build_regions(prepared, module[1], asked, macs)
    network = PricedNetwork(functions, partition, groups, asked, PriceList(MIX, functions))
    found = {}
    for chosen in product(*network.options):
        devices = tuple(option.device for option in chosen)
        if devices not in found:
            try:
                regions = build_regions(prepared, module[1], network.assign(chosen), macs)
                found[devices] = price(insert_moves(*regions[:2], MIX))
            except UserError:  # operators that fusion has joined cannot have a layout
                continue
    return [*found.values()]


def find_fault(seed: int, runs: bool = False) -> str:
    """Return what is wrong with the placement of a random network, or '' if it is the cheapest.

    If ``runs`` is true, the results of both placements are also compared.
    """
    network = random_network(seed)
    by_order = partition_module(*network, MIX)
    by_cost = partition_by_cost(*network, MIX)
    own, cheapest = price(by_cost), min(price_all(network))
    if own > cheapest or own > price(by_order):
        return f"it costs {own}, the order {price(by_order)}, the cheapest {cheapest}"
    if runs:
        samples = [random_array(tensor.shape, seed=seed) for tensor in network[1].inputs]
        (expected,), (found,) = (execute(*built, samples) for built in (by_order, by_cost))
        if not np.array_equal(found, expected):
            return "its results differ from those of the order"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="the number of random networks")
    count = parser.parse_args().count
    faults = {seed: fault for seed in range(count) if (fault := find_fault(seed))}
    for seed, fault in faults.items():
        print(f"network {seed}: {fault}")
    print(f"{count} networks, {len(faults)} wrong")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()

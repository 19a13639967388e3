"""Regions whose kernels are the same C call one function, such as the steps of an LSTM."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from firmwright.ir.kernels import Kernels, describe
from firmwright.ir.regions import Partition
from firmwright.planning.in_place import share_pointers


def find_shared_functions(
    partition: Partition, kernels: Kernels, locations: Mapping[str, object]
) -> dict[str, str]:
    """Return the regions that have no function of their own, each with the one whose it calls."""
    owners = find_functions(partition, kernels, locations)
    return {region: owner for region, owner in owners.items() if region != owner}


def find_functions(
    partition: Partition, kernels: Kernels, locations: Mapping[str, object]
) -> dict[str, str]:
    """Return for each region with a kernel the one whose function it calls, the first of them.

    A kernel that starts a job keeps its own function: what it hands over may outlive the call.
    """
    devices = {region.name: region.device for region in partition.regions}
    first: dict[Hashable, str] = {}
    owners = {}
    for kernel in kernels.kernels:
        called = share_pointers(kernel, locations)
        owner = first.setdefault((devices[kernel.region], describe(called)), kernel.region)
        owners[kernel.region] = kernel.region if kernel.wait_function else owner
    return owners

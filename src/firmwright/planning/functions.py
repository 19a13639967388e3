"""Finds regions with equal C kernels that can call one function, such as the steps of an LSTM."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from firmwright.ir.kernels import Kernels, describe
from firmwright.ir.regions import Partition
from firmwright.planning.in_place import share_pointers


def find_shared_functions(
    partition: Partition, kernels: Kernels, locations: Mapping[str, object]
) -> dict[str, str]:
    """Return the regions that call the function of another region, each with this other region."""
    owners = find_functions(partition, kernels, locations)
    return {region: owner for region, owner in owners.items() if region != owner}


def find_functions(
    partition: Partition, kernels: Kernels, locations: Mapping[str, object]
) -> dict[str, str]:
    """Return for each region with a kernel the first region whose function it can call.

    A kernel that starts a job has a separate function, because its arguments may still be in use
    after the call.
    """
    devices = {region.name: region.device for region in partition.regions}
    first: dict[Hashable, str] = {}
    owners = {}
    for kernel in kernels.kernels:
        called = share_pointers(kernel, locations)
        owner = first.setdefault((devices[kernel.region], describe(called)), kernel.region)
        owners[kernel.region] = kernel.region if kernel.wait_function else owner
    return owners

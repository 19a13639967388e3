"""Regions whose kernels are the same C call one function, such as the steps of an LSTM."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from firmwright.ir.kernels import Kernel, Kernels, Parameter
from firmwright.ir.regions import Partition
from firmwright.planning.in_place import share_pointers


def find_shared_functions(
    partition: Partition, kernels: Kernels, locations: Mapping[str, object]
) -> dict[str, str]:
    """Return the regions that have no function of their own, each with the one whose it calls.

    A kernel that starts a job keeps its own function: what it hands over may outlive the call.
    """
    devices = {region.name: region.device for region in partition.regions}
    first: dict[Hashable, str] = {}
    shared = {}
    for kernel in kernels.kernels:
        called = share_pointers(kernel, locations)
        owner = first.setdefault((devices[kernel.region], describe(called)), kernel.region)
        if owner != kernel.region and not kernel.wait_function:
            shared[kernel.region] = owner
    return shared


def describe(kernel: Kernel) -> Hashable:
    """Return what a kernel's C is written from, without the names of what it is called with."""
    ports = (kernel.inputs, kernel.weights, kernel.outputs, kernel.scratch)
    return (
        *(tuple(strip(parameter) for parameter in each) for each in ports),
        kernel.body,
        kernel.definitions,
        kernel.functions,
        kernel.headers,
        kernel.library_functions,
        kernel.files,
        kernel.note,
        kernel.stand_in,
    )


def strip(parameter: Parameter) -> Parameter:
    return replace(parameter, tensor="")

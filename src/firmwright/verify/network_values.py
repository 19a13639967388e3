"""Describes the values of a network's inputs and outputs for later stages."""

from __future__ import annotations

from firmwright.ir.nodes import IRModule
from firmwright.ir.tensors import ModelInterface

from .input_ranges import find_input_ranges, find_whole_inputs
from .output_steps import find_output_steps
from .run_records import NetworkValues


def describe_values(module: IRModule, interface: ModelInterface) -> NetworkValues:
    """Return the facts that the network states about its inputs and outputs."""
    names = [tensor.name for tensor in interface.parameters]
    ranges = dict(zip(names, find_input_ranges(module), strict=True))
    whole = zip(names, find_whole_inputs(module), strict=True)
    return NetworkValues(
        ranges={name: limits for name, limits in ranges.items() if limits is not None},
        whole=tuple(name for name, is_whole in whole if is_whole),
        output_steps=find_output_steps(module),
    )

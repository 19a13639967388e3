"""Converts the results of all layers to network outputs, so that a run prints the results."""

from __future__ import annotations

from dataclasses import replace

from firmwright.planning.plan import make_plan
from firmwright.project.network import Network


def observe_layers(network: Network) -> Network:
    """Return the network with every result as an output, between the outputs and the states.

    The additional outputs have the names of the partition's tensors. Each result has separate
    memory, so an error in the memory plan is not visible.
    """
    partition, interface = network.partition, network.interface
    tensors = {tensor.name: tensor for tensor in partition.tensors}
    computed = (region for region in partition.regions if not region.view)
    more = [n for region in computed for n in region.outputs if n not in partition.outputs]
    count = len(interface.outputs)
    outputs = (*partition.outputs[:count], *more, *partition.outputs[count:])
    partition = replace(partition, outputs=outputs)
    return replace(
        network,
        partition=partition,
        interface=replace(
            interface, outputs=(*interface.outputs, *(tensors[name] for name in more))
        ),
        plan=make_plan(partition, network.kernels),
        hooks=False,
    )

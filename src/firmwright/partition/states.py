"""States that are the next values of others, such as taps of a delay line, are copied before."""

from __future__ import annotations

from dataclasses import replace

import tvm

from firmwright.ir.regions import COPY, Partition, Region, make_move_region
from firmwright.ir.relax import set_functions
from firmwright.partition.memories import make_copy_function


def copy_passed_states(
    module: tvm.IRModule, partition: Partition, device: str
) -> tuple[tvm.IRModule, Partition]:
    """Insert a copy where a state becomes another one; ``device`` executes it.

    All states change at once, so that one may be overwritten before another reads it.
    """
    roots = partition.view_roots
    tensors = {tensor.name: tensor for tensor in partition.tensors}
    states = {state for state, _ in partition.state_pairs}
    copies: list[Region] = []
    functions = {}
    results = []
    for number, (state, result) in enumerate(partition.state_pairs):
        if roots[result] in states - {state}:
            region = f"state_{number}_{COPY}"
            copied = replace(tensors[result], name=f"{region}_result")
            reason = "a state becomes another one"
            copies.append(
                make_move_region(region, device, reason, COPY, read=result, result=copied.name)
            )
            functions[region] = make_copy_function(copied)
            tensors[copied.name] = copied
            result = copied.name
        results.append(result)
    if not copies:
        return module, partition
    return set_functions(module, functions), replace(
        partition,
        outputs=(*partition.outputs[: -len(results)], *results),
        tensors=tuple(tensors.values()),
        regions=(*partition.regions, *copies),
    )

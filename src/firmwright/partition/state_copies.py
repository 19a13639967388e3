"""Inserts copies so that a state's next value can be stored in the state's memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from firmwright.ir.nodes import IRModule
from firmwright.ir.operators import ELEMENTWISE
from firmwright.ir.regions import COPY, Partition, Region, make_move_region
from firmwright.ir.relax import set_functions
from firmwright.partition.memory_choice import make_copy_function


def copy_next_values(
    module: IRModule, partition: Partition, device: str
) -> tuple[IRModule, Partition]:
    """Insert copies of next values, which ``device`` runs. Later regions read the copies.

    A state that becomes another state, such as a tap of a delay line, is copied because all states
    change at once. A next value is copied immediately if later regions still read the state.
    Therefore the value needs no memory until the end of the run.
    """
    functions = {}
    for number, reason in find_copied(partition):
        name = f"state_{number}_{COPY}"
        partition = insert_copy(partition, number, name, device, reason)
        copied = next(t for t in partition.tensors if t.name == f"{name}_result")
        functions[name] = make_copy_function(copied)
    return (set_functions(module, functions) if functions else module), partition


def find_copied(partition: Partition) -> Iterator[tuple[int, str]]:
    """Yield the number of each state whose next value is copied, and the reason."""
    roots = partition.view_roots
    pairs = partition.state_pairs
    states = {state for state, _ in pairs}
    shown = [roots[name] for name in partition.outputs]
    for number, (state, result) in enumerate(pairs):
        root = roots[result]
        if root in states - {state}:
            yield number, "a state becomes another one"
        elif shown.count(root) == 1 and is_made_at_last_read(partition, state, root, roots):
            yield number, "the operator that makes a state's next value reads the state"


def is_made_at_last_read(
    partition: Partition, state: str, result: str, roots: Mapping[str, str]
) -> bool:
    """Return whether the last region that reads a state makes its next value in other memory.

    The result is False for elementwise regions, because the planner may write over the state.
    """
    reads = [r for r in partition.regions if not r.view and state in {roots[n] for n in r.inputs}]
    makes = [r for r in partition.regions if not r.view and result in r.outputs]
    if not reads or reads[-1:] != makes or state in {roots[n] for n in partition.outputs}:
        return False
    return not all(f"relax.{kind}" in ELEMENTWISE for kind in reads[-1].operators)


def insert_copy(
    partition: Partition, number: int, name: str, device: str, reason: str
) -> Partition:
    """Copy a state's next value after the region that makes it, or after all regions."""
    (_, result) = partition.state_pairs[number]
    root = partition.view_roots[result]
    made = next((i for i, r in enumerate(partition.regions) if root in r.outputs), None)
    source = result if made is None else root
    tensor = next(t for t in partition.tensors if t.name == source)
    copied = replace(tensor, name=f"{name}_result")
    copy = make_move_region(name, device, reason, COPY, read=source, result=copied.name)
    outputs = list(partition.outputs)
    if made is None:
        outputs[len(outputs) - partition.states + number] = copied.name
        regions = (*partition.regions, copy)
    else:
        outputs = [copied.name if o == root else o for o in outputs]
        behind = (read_copy(r, root, copied.name) for r in partition.regions[made + 1 :])
        regions = (*partition.regions[: made + 1], copy, *behind)
    return replace(
        partition,
        outputs=tuple(outputs),
        tensors=(*partition.tensors, copied),
        regions=regions,
    )


def read_copy(region: Region, tensor: str, copied: str) -> Region:
    inputs, dequantized = (
        tuple(copied if n == tensor else n for n in names)
        for names in (region.inputs, region.dequantized)
    )
    return replace(region, inputs=inputs, dequantized=dequantized)

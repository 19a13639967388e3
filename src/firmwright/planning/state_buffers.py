"""Places states at the beginning of the arena. A run writes their next values there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import RAM, Partition
from firmwright.planning.arena import Buffer, align
from firmwright.planning.in_place import list_candidates
from firmwright.planning.schedule import Schedule


def list_states(partition: Partition, schedule: Schedule) -> list[Buffer]:
    """Return the states' buffers, one after the other; no other buffer overlaps them."""
    tensors = {tensor.name: tensor for tensor in partition.tensors}
    buffers: list[Buffer] = []
    for state, _ in partition.state_pairs:
        offset = align(buffers[-1].end) if buffers else 0
        last = max(len(schedule.steps) - 1, 0)
        buffers.append(Buffer(state, tensors[state].bytes, 0, last, RAM, offset))
    return buffers


def find_written_states(
    partition: Partition,
    kernels: Kernels,
    schedule: Schedule,
    buffers: Sequence[Buffer],
) -> dict[str, str]:
    """Return the buffers that can be in a state's location as its next value, each with the state.

    This requires that the state's last reader is done before, or that the kernel may overwrite
    the state. All other next values are copied after the last step.
    """
    sizes = {tensor.name: tensor.bytes for tensor in partition.tensors}
    roots = partition.view_roots
    left = {buffer.name: buffer for buffer in buffers}
    over = set(list_candidates(partition, kernels, schedule))
    last = find_last_reads(partition, schedule)
    written = {}
    for state, result in partition.state_pairs:
        buffer = left.get(roots[result])
        if buffer is None or (buffer.memory, buffer.bytes) != (RAM, sizes[state]):
            continue
        read = last[state]
        if read < buffer.first or (read, state, buffer.name) in over:
            written[buffer.name] = state
            del left[buffer.name]
    return written


def find_last_reads(partition: Partition, schedule: Schedule) -> dict[str, int]:
    """Return the step that reads each state last, or -1 if no step reads it.

    A state that an output shows is read after the last step.
    """
    roots = partition.view_roots
    regions = {region.name: region for region in partition.regions}
    last = {state: -1 for state, _ in partition.state_pairs}
    for step in schedule.steps:
        for name in {roots[n] for n in regions[step.region].inputs}.intersection(last):
            last[name] = max(last[name], step.done_before - 1)
    shown = {roots[name] for name in partition.outputs}
    return {state: len(schedule.steps) if state in shown else n for state, n in last.items()}


def list_next_values(partition: Partition) -> Iterator[str]:
    """Yield the tensors that contain the states' next values."""
    roots = partition.view_roots
    return (roots[result] for _, result in partition.state_pairs)

"""Plans the location of every tensor, which the file ``plan/plan.json`` contains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import RAM, Partition
from firmwright.planning.arena import (
    Buffer,
    align,
    arena_bytes,
    lower_bound,
    place_buffers,
    sort_by_offset,
)
from firmwright.planning.loops import (
    Call,
    Loop,
    Slice,
    find_loops,
    find_shared_functions,
    fold_loops,
    keep_small_loops,
    list_calls,
)
from firmwright.planning.memory_assignment import (
    MemoryAssignment,
    MemoryChoices,
    choose_memories,
    pin_buffers,
)
from firmwright.planning.overwritten_inputs import join_in_place, list_candidates
from firmwright.planning.schedule import Schedule, schedule_regions


class Input(msgspec.Struct, frozen=True, tag=True):
    """A byte offset in the caller's buffer for the network's input of this index."""

    index: int
    offset: int = 0


class Output(msgspec.Struct, frozen=True, tag=True):
    """A byte offset in the caller's buffer for the network's output of this index."""

    index: int
    offset: int = 0


class Slot(msgspec.Struct, frozen=True, tag=True):
    """A byte offset in the arena of a memory."""

    memory: str
    offset: int


Location = Input | Output | Slot


@dataclass(frozen=True, slots=True)
class Plan:
    """The schedule and the static memory plan.

    ``locations`` contains the location of every tensor and scratch buffer. A view has the location
    of its source. A result that overwrites an input has the input's location and buffer.
    ``output_copies`` are (output index, location) pairs for outputs that no region writes directly.
    ``other_arenas`` contains the bytes of the arenas in memories other than RAM.
    ``shared_functions`` are regions that call another region's function, because their C code is
    equal. The states are in the first ``state_bytes`` of the arena. ``state_copies`` are (state
    index, location) pairs. If no region writes the next value of a state to the state's location,
    the program copies the value. ``constants`` contains the memories of the arrays that are not in
    flash with the other arrays. ``loops`` are calls that repeat. From one repetition to the next,
    each tensor moves by a constant number of bytes, or stays.
    """

    schedule: Schedule
    arena_bytes: int
    arena_lower_bound_bytes: int
    buffers: tuple[Buffer, ...]
    locations: dict[str, Location]
    output_copies: tuple[tuple[int, Location], ...]
    other_arenas: dict[str, int] = field(default_factory=dict)
    shared_functions: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    states: tuple[Buffer, ...] = ()
    state_copies: tuple[tuple[int, Location], ...] = ()
    loops: tuple[Loop, ...] = ()

    @property
    def state_bytes(self) -> int:
        return align(self.states[-1].end) if self.states else 0

    def name_functions(self, kernels: Kernels, prefix: str) -> dict[str, str]:
        """Return the C function that each region calls, in the order of the calls."""
        computed = {kernel.region for kernel in kernels.kernels}
        regions = [step.region for step in self.schedule.steps if step.region in computed]
        return {r: f"{prefix}_{self.shared_functions.get(r, r)}" for r in regions}


def make_plan(partition: Partition, kernels: Kernels, choices: MemoryChoices | None = None) -> Plan:
    """Return the schedule and each tensor's location.

    ``choices`` determine the choice among several memories. Inputs and outputs of the network are
    in the caller's buffers, and all other tensors are in arenas.
    """
    schedule = schedule_regions(partition, kernels)
    views = partition.view_locations
    states = list_states(partition, schedule)
    ports = locate_ports(partition, views) | {s.name: Slot(RAM, s.offset) for s in states}
    results = [b for b in list_results(partition, schedule) if b.name not in ports]
    scratch = [*list_scratch(partition, kernels, schedule)]
    if choices:
        results, scratch = (pin_buffers(buffers, choices) for buffers in (results, scratch))
    written = find_written_states(partition, kernels, schedule, results)
    others = [b for b in results if b.name not in written]
    joined, holders = join_in_place(partition, kernels, schedule, others)
    joined += scratch
    lies_in = written | holders
    slices = {name: (lies_in.get(root, root), begin) for name, (root, begin) in views.items()}
    slices |= {b.name: (b.name, 0) for b in scratch}
    calls = list_calls(partition, kernels, schedule, slices)
    loops = find_loops(calls, {b.name: b for b in joined})
    loops = keep_small_loops(loops, calls, joined)
    folded = fold_loops(loops, calls, joined, len(schedule.steps))
    placement = MemoryAssignment(tuple(folded.buffers))
    if choices:
        choices = choices.take(sum(align(state.bytes) for state in states))
        inside = {name: folded.parts[holder][0] for name, holder in holders.items()}
        inside |= {name: whole for name, (whole, _) in folded.parts.items() if name != whole}
        placement = choose_memories(partition, kernels, placement.buffers, inside, choices)
    arenas = place_in_memories(placement, states)
    arenas = {memory: folded.unfold(arena) for memory, arena in arenas.items()}
    buffers = tuple(buffer for arena in arenas.values() for buffer in arena)
    locations = ports | {b.name: Slot(b.memory, b.offset) for b in buffers}
    locations |= {name: locate(part, locations) for name, part in slices.items()}
    return Plan(
        schedule=schedule,
        arena_bytes=arena_bytes(arenas[RAM]),
        arena_lower_bound_bytes=lower_bound(arenas[RAM]),
        buffers=buffers,
        locations=dict(sorted(locations.items())),
        output_copies=tuple(find_output_copies(partition, locations)),
        other_arenas={memory: arena_bytes(a) for memory, a in arenas.items() if memory != RAM},
        shared_functions=find_shared_functions(partition, kernels, locations),
        constants=placement.constants,
        states=tuple(states),
        state_copies=tuple(find_state_copies(partition, locations)),
        loops=tuple(loop for loop in loops if moves_evenly(loop, calls, locations)),
    )


def locate(part: Slice, locations: Mapping[str, Location]) -> Location:
    """Return the location of a tensor that begins at a byte of another tensor or of a buffer."""
    whole, begin = part
    return move(locations[whole], begin)


def move(location: Location, further: int) -> Location:
    return msgspec.structs.replace(location, offset=location.offset + further)


def moves_evenly(loop: Loop, calls: Sequence[Call], locations: Mapping[str, Location]) -> bool:
    """Return whether each tensor moves by a constant number of bytes in each repetition."""
    for first in range(loop.first, loop.first + loop.calls):
        rows = zip(*(calls[n].slices for n in range(first, loop.end, loop.calls)), strict=True)
        for row in rows:
            start, second, *_ = places = [locate(part, locations) for part in row]
            stride = second.offset - start.offset
            even = (move(start, i * stride) for i in range(len(places)))
            if places != [*even]:
                return False
    return True


def place_in_memories(
    placement: MemoryAssignment, states: Sequence[Buffer]
) -> dict[str, list[Buffer]]:
    """Return the placed buffers of each memory, sorted by memory.

    RAM is always included. The buffers need no more bytes of a memory than the choice of memories
    has counted. In RAM, the ``states`` come first.
    """
    arenas = {}
    for memory in sorted({RAM, *(b.memory for b in placement.buffers)}):
        placed = place_buffers([b for b in placement.buffers if b.memory == memory])
        room = placement.rooms.get(memory)
        if room and room.arena.bytes < arena_bytes(placed):
            placed = sort_by_offset(room.arena.placed)
        arenas[memory] = placed
    if states:
        first = align(states[-1].end)
        behind = [replace(b, offset=first + b.offset) for b in arenas[RAM]]
        arenas[RAM] = [*states, *behind]
    return arenas


def locate_ports(partition: Partition, views: Mapping[str, tuple[str, int]]) -> dict[str, Location]:
    """Return the locations of the tensors that the caller passes.

    An output that is a view of an input, a state, another output or a part of a tensor has no
    separate location.
    """
    size = {tensor.name: tensor.bytes for tensor in partition.tensors}
    locations: dict[str, Location] = {name: Input(i) for i, name in enumerate(partition.inputs)}
    for index, name in enumerate(list_outputs(partition)):
        root, _ = views[name]
        if size[root] == size[name]:
            locations.setdefault(root, Output(index))
    return locations


def list_outputs(partition: Partition) -> tuple[str, ...]:
    return partition.outputs[: len(partition.outputs) - partition.states]


def find_output_copies(
    partition: Partition, locations: Mapping[str, Location]
) -> Iterator[tuple[int, Location]]:
    """Yield the outputs that no region writes directly, and the locations of their bytes."""
    for index, name in enumerate(list_outputs(partition)):
        if locations[name] != Output(index):
            yield index, locations[name]


def find_state_copies(
    partition: Partition, locations: Mapping[str, Location]
) -> Iterator[tuple[int, Location]]:
    """Yield the states whose next value is in another location, and this location."""
    for index, (state, result) in enumerate(partition.state_pairs):
        if locations[result] != locations[state]:
            yield index, locations[result]


def list_results(partition: Partition, schedule: Schedule) -> Iterator[Buffer]:
    """Yield a buffer for every tensor that regions write, in order of execution.

    The tensors of a job that runs in parallel to the processor stay in use until the wait for the
    job.
    """
    tensors = {t.name: t for t in partition.tensors}
    regions = {r.name: r for r in partition.regions}
    roots = partition.view_roots
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, step in enumerate(schedule.steps):
        region = regions[step.region]
        for name in () if region.view else region.outputs:
            first.setdefault(roots[name], number)
        for name in {roots[n] for n in (*region.inputs, *region.outputs)}:
            last[name] = max(last.get(name, 0), step.done_before - 1)
    last |= dict.fromkeys(list_next_values(partition), len(schedule.steps) - 1)
    for name, start in first.items():
        memory = partition.tensor_memories.get(name, RAM)
        yield Buffer(name, tensors[name].bytes, start, last[name], memory)


def list_scratch(partition: Partition, kernels: Kernels, schedule: Schedule) -> Iterator[Buffer]:
    memories = {r.name: r.memory for r in partition.regions}
    scratch = {k.region: k.scratch for k in kernels.kernels}
    for number, step in enumerate(schedule.steps):
        for p in scratch.get(step.region, ()):
            yield Buffer(p.tensor, p.bytes, number, step.done_before - 1, memories[step.region])


def list_states(partition: Partition, schedule: Schedule) -> list[Buffer]:
    """Return the states' buffers, one after the other. No other buffer overlaps them."""
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
    """Return a mapping from buffers that can be in the location of a state to this state.

    The buffer contains the state's next value. The state's last reader must be done before the
    buffer is written, or the kernel may overwrite the state. All other next values are copied after
    the last step.
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
    """Return the step that reads each state last, or -1 if no step reads the state.

    If an output is a view of a state, the caller reads the state after the last step.
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
    roots = partition.view_roots
    return (roots[result] for _, result in partition.state_pairs)

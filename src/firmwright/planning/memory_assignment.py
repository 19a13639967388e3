"""Chooses one of a platform's memories for each buffer and each array of constants.

Items with the most accesses per byte are placed first, in the cheapest memory that has space. An
item that fits in no memory stays in its default memory, and a later check reports the item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from firmwright.ir.kernels import Kernel, Kernels, Parameter
from firmwright.ir.regions import RAM, Partition
from firmwright.planning.arena import Arena, Buffer, align
from firmwright.toolchain.platforms import Memory, Platform


@dataclass(frozen=True)
class MemoryChoices:
    """The recipe's and the platform's inputs for the choice of memories.

    ``pins`` maps the names of tensors, scratch buffers and arrays to the memories that the recipe
    requests. ``taken`` contains the bytes of each memory for other uses, such as the stack and the
    code.
    """

    platform: Platform
    pins: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, int] = field(default_factory=dict)

    def take(self, size: int) -> MemoryChoices:
        return replace(self, taken={**self.taken, RAM: self.taken.get(RAM, 0) + size})


@dataclass(frozen=True)
class Item:
    """A buffer or an array of constants.

    ``uses`` is the number of accessed bytes per byte of the item's size.
    """

    name: str
    bytes: int
    uses: float
    buffer: Buffer | None = None


@dataclass
class Room:
    """A memory to fill, which has ``left`` bytes for the ``arena`` after its constants."""

    memory: Memory
    left: int
    arena: Arena = field(default_factory=Arena)

    def fits(self, item: Item) -> bool:
        if item.buffer is None:
            return self.arena.bytes + align(item.bytes) <= self.left
        return max(self.arena.bytes, align(self.arena.find_offset(item.buffer).end)) <= self.left

    def put(self, item: Item) -> None:
        if item.buffer:
            self.arena.add(item.buffer)
        else:
            self.left -= align(item.bytes)


@dataclass(frozen=True)
class MemoryAssignment:
    """The memories of buffers, and the memories of constants outside the default memory.

    ``rooms`` contains the memories with their remaining bytes.
    """

    buffers: tuple[Buffer, ...]
    constants: dict[str, str] = field(default_factory=dict)
    rooms: Mapping[str, Room] = field(default_factory=dict)


def pin_buffers(buffers: Iterable[Buffer], choices: MemoryChoices) -> list[Buffer]:
    return [replace(b, memory=choices.pins.get(b.name, b.memory)) for b in buffers]


def choose_memories(
    partition: Partition,
    kernels: Kernels,
    buffers: Sequence[Buffer],
    holders: Mapping[str, str],
    choices: MemoryChoices,
) -> MemoryAssignment:
    """Choose the memory of every buffer in RAM that is not pinned, and of every constant.

    ``holders`` maps each tensor without a buffer to the buffer that contains it. The tensors and
    constants that an accelerator reads or writes stay in their memories.
    """
    filling = Filling(choices)
    items = sorted(
        list_items(partition, kernels, buffers, holders), key=lambda i: (-i.uses, -i.bytes, i.name)
    )
    bound = find_accelerated(partition, kernels, choices.platform)
    bound |= {holders[name] for name in bound if name in holders}
    stored = find_stored(partition, kernels, choices.platform)
    fixed = {i.name: stored.get(i.name) or filling.find_home(i) for i in items if i.name in bound}
    fixed |= {b.name: b.memory for b in buffers if b.memory != RAM}
    fixed |= {holders.get(name, name): memory for name, memory in choices.pins.items()}
    for item in sorted(items, key=lambda item: item.name not in fixed):
        filling.put(item, fixed.get(item.name) or filling.choose(item))
    constants = sorted(item.name for item in items if item.buffer is None)
    return MemoryAssignment(
        tuple(replace(b, memory=filling.chosen[b.name]) for b in buffers),
        {n: filling.chosen[n] for n in constants if filling.chosen[n] != filling.home},
        filling.rooms,
    )


class Filling:
    """The memories to fill. ``chosen`` contains the memory of each item."""

    def __init__(self, choices: MemoryChoices) -> None:
        self.home = choices.platform.constants_memory
        self.chosen: dict[str, str] = {}
        self.rooms = {
            name: Room(memory, memory.size - choices.taken.get(name, 0))
            for name, memory in choices.platform.memories.items()
        }
        costs = {n: r.memory.cost for n, r in self.rooms.items() if r.memory.cost is not None}
        # If two memories have equal costs, constants are placed in the memory that needs no copy at
        # start-up.
        self.cheapest = sorted(costs, key=lambda n: (costs[n], not self.rooms[n].memory.read_only))

    def find_home(self, item: Item) -> str:
        return RAM if item.buffer else self.home

    def choose(self, item: Item) -> str:
        names = (n for n in self.cheapest if self.serves(n, item) and self.fits(n, item))
        return next(names, self.find_home(item))

    def serves(self, name: str, item: Item) -> bool:
        """Return whether a memory supports an item.

        If there is flash, RAM contains only variables.
        """
        if item.buffer:
            return not self.rooms[name].memory.read_only
        return name != RAM or self.home == RAM

    def fits(self, name: str, item: Item) -> bool:
        rooms = [name, self.home] if self.needs_copy(name, item) else [name]
        return all(self.rooms[room].fits(item) for room in rooms)

    def put(self, item: Item, name: str) -> None:
        self.chosen[item.name] = name
        if item.buffer:
            item = replace(item, buffer=replace(item.buffer, memory=name))
        for room in [name, self.home] if self.needs_copy(name, item) else [name]:
            if room in self.rooms:  # the platform does not list an accelerator's memory
                self.rooms[room].put(item)

    def needs_copy(self, name: str, item: Item) -> bool:
        """Return whether the start-up code copies the item from flash.

        Flash then also contains the item.
        """
        return item.buffer is None and name != self.home and not self.rooms[name].memory.read_only


def list_items(
    partition: Partition, kernels: Kernels, buffers: Sequence[Buffer], holders: Mapping[str, str]
) -> list[Item]:
    """Return all items to place. The accesses of a buffer include all tensors in the buffer."""
    accesses = count_accesses(partition, kernels)
    for name, holder in holders.items():
        if name != holder:
            accesses[holder] += accesses[name]
    constants = {p.tensor: p.bytes for kernel in kernels.kernels for p in kernel.weights}
    return [
        *(Item(b.name, b.bytes, accesses[b.name] / max(b.bytes, 1), b) for b in buffers),
        *(Item(n, size, accesses[n] / max(size, 1)) for n, size in constants.items()),
    ]


def find_accelerated(partition: Partition, kernels: Kernels, platform: Platform) -> set[str]:
    """Return the tensors, scratch buffers and constants that accelerators read or write."""
    roots, accelerators = partition.view_roots, platform.accelerators
    kernel_tensors = {
        kernel.region: (*kernel.weights, *kernel.scratch) for kernel in kernels.kernels
    }
    names: set[str] = set()
    for region in (r for r in partition.regions if r.device in accelerators and not r.view):
        names.update(roots[name] for name in (*region.inputs, *region.outputs))
        names.update(parameter.tensor for parameter in kernel_tensors.get(region.name, ()))
    return names


def find_stored(partition: Partition, kernels: Kernels, platform: Platform) -> dict[str, str]:
    """Return the ``read_only`` memory of each constant whose accelerator has such a memory."""
    devices = {region.name: region.device for region in partition.regions}
    stored = platform.device_storage
    memories = [(k, stored.get(devices[k.region])) for k in kernels.kernels]
    return {p.tensor: memory for k, memory in memories if memory for p in k.weights}


def count_accesses(partition: Partition, kernels: Kernels) -> Counter[str]:
    """Return the number of accessed bytes of each tensor, scratch buffer and array.

    A multiply-accumulate reads one element of its layer's inputs and one element of its layer's
    largest array. Other tensors are accessed once per element of the tensor or of the results,
    whichever number is larger. The count ignores values that a kernel keeps in registers.
    """
    macs = {region.name: region.macs for region in partition.regions}
    roots = partition.view_roots
    accesses = Counter[str]()
    for kernel in kernels.kernels:
        for parameter, times in list_uses(kernel, macs[kernel.region]):
            name = roots.get(parameter.tensor, parameter.tensor)
            accesses[name] += times * parameter.bytes // max(parameter.elements, 1)
    return accesses


def list_uses(kernel: Kernel, macs: int) -> list[tuple[Parameter, int]]:
    """Return the number of elements of each parameter that a kernel reads or writes."""
    made = sum(p.elements for p in kernel.outputs)
    given = sum(p.elements for p in kernel.inputs)
    weights = max(kernel.weights, key=lambda p: p.elements, default=None)
    return [
        *((p, max(p.elements, macs * p.elements // max(given, 1))) for p in kernel.inputs),
        *((p, max(p.elements, made, macs if p is weights else 0)) for p in kernel.weights),
        *((p, p.elements) for p in kernel.outputs),
        *((p, p.elements + max(p.elements, macs)) for p in kernel.scratch),
    ]

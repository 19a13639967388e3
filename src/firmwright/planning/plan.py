"""The plan stage: where every tensor lives, and whether that fits (file ``plan/plan.json``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from firmwright.errors import UserError
from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import RAM, Partition
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.planning.arena import Lifetime, arena_bytes, lower_bound, place_buffers
from firmwright.planning.schedule import ScheduleStep, schedule
from firmwright.toolchain import Platform

LARGEST_SHOWN = 5

ADDRESSABLE = 2**31 - 1
"""Bytes; the generated C indexes with 32-bit integers, and a host's linker places no more."""

ARENA, PORTS = "arena", "inputs and outputs"
GROW_WITH_BATCH = (ARENA, PORTS)

BOX_BYTES = 24
"""Of an object that a detection found: five floats and its class (``detection.h``)."""


@dataclass(frozen=True)
class Buffer:
    """A tensor or scratch buffer at a byte offset of an arena, alive from ``first`` to ``last``.

    Steps are those of :func:`firmwright.planning.schedule.schedule`.
    """

    name: str
    bytes: int
    offset: int
    first: int
    last: int
    memory: str = RAM


@dataclass(frozen=True)
class Plan:
    """The static memory plan. ``locations`` tells for each tensor whose bytes it shares.

    A location names an arena buffer, a network input (``input:0``) or output (``output:0``).
    ``copies`` are (output index, location) pairs for outputs that no region writes directly.
    ``memories`` has the bytes of the arenas in other memories than the processor's.
    """

    arena_bytes: int
    arena_lower_bound_bytes: int
    buffers: tuple[Buffer, ...]
    locations: dict[str, str]
    copies: tuple[tuple[int, str], ...]
    memories: dict[str, int] = field(default_factory=dict)


def make_plan(partition: Partition, kernels: Kernels) -> Plan:
    """Find each tensor's home: the caller's buffers for inputs and outputs, else the arena."""
    tensors = {t.name: t for t in partition.tensors}
    roots = find_view_roots(partition)
    locations = {name: f"input:{i}" for i, name in enumerate(partition.inputs)}
    copies: list[tuple[int, str]] = []
    for index, name in enumerate(partition.outputs):
        if roots[name] in locations:
            copies.append((index, roots[name]))
        else:
            locations[roots[name]] = f"output:{index}"
    steps = schedule(partition, kernels).steps
    lifetimes = tensor_lifetimes(steps, tensors, roots, locations)
    memory_of = dict(partition.memories)
    scratch = {k.region: k.scratch for k in kernels.kernels}
    for number, step in enumerate(steps):
        used = scratch.get(step.region.name, ())
        lifetimes += [Lifetime(p.tensor, p.bytes, number, step.until - 1) for p in used]
        memory_of.update((p.tensor, step.region.memory) for p in used)
    arenas = {
        memory: [b for b in lifetimes if memory_of.get(b.name, RAM) == memory]
        for memory in sorted({RAM, *memory_of.values()})
    }
    placed = {memory: place_buffers(buffers) for memory, buffers in arenas.items()}
    buffers = tuple(
        Buffer(b.name, b.bytes, p.offset, b.first, b.last, memory)
        for memory, together in placed.items()
        for p in together
        for b in [p.lifetime]
    )
    locations.update({b.name: b.name for b in buffers})
    for name, root in roots.items():
        locations[name] = locations[root]
    return Plan(
        arena_bytes=arena_bytes(placed[RAM]),
        arena_lower_bound_bytes=lower_bound(arenas[RAM]),
        buffers=buffers,
        locations=dict(sorted(locations.items())),
        copies=tuple((index, locations[root]) for index, root in copies),
        memories={memory: arena_bytes(placed[memory]) for memory in arenas if memory != RAM},
    )


def find_view_roots(partition: Partition) -> dict[str, str]:
    """Map every tensor to the one whose bytes it shows: itself, or the source of a view."""
    roots = {t.name: t.name for t in partition.tensors}
    for region in partition.regions:
        if region.view:
            (shown,) = region.outputs
            roots[shown] = roots[region.inputs[0]]
    return roots


def tensor_lifetimes(
    steps: Sequence[ScheduleStep],
    tensors: dict[str, Tensor],
    roots: dict[str, str],
    locations: dict[str, str],
) -> list[Lifetime]:
    """Return the lifetimes of the tensors that live in the arena, in order of production.

    What a job beside the processor reads or writes is needed until the job was waited for.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, step in enumerate(steps):
        region = step.region
        if not region.view:
            first.update(dict.fromkeys(region.outputs, number))
        for name in {roots[n] for n in (*region.inputs, *region.outputs)}:
            last[name] = max(last.get(name, 0), step.until - 1)
    return [
        Lifetime(name, tensors[name].bytes, start, last[name])
        for name, start in first.items()
        if name not in locations
    ]


@dataclass(frozen=True)
class Consumer:
    """Something that takes RAM, as a message names it."""

    bytes: int
    what: str


@dataclass(frozen=True)
class Program:
    """What shares the platform's memory.

    ``boxes`` is how many candidates a detection has room for.
    """

    plan: Plan
    partition: Partition
    kernels: Kernels
    interface: ModelInterface
    boxes: int = 0


def find_ram_limit(platform: Platform) -> tuple[str, int]:
    """Return what limits the program's memory, and its bytes."""
    ram = platform.memories.get("ram")
    return ("ram", ram.size) if ram else ("32-bit indices", ADDRESSABLE)


def memory_parts(program: Program, platform: Platform) -> list[Consumer]:
    """Return what takes RAM together; weights and code only where there is no flash."""
    interface = program.interface
    parts = [
        Consumer(program.plan.arena_bytes, ARENA),
        Consumer(sum(t.bytes for t in (*interface.inputs, *interface.outputs)), PORTS),
        Consumer(program.boxes * BOX_BYTES, "boxes"),
        Consumer(platform.stack, "stack"),
    ]
    if platform.all_in_ram:
        weights = sum(w.bytes for k in program.kernels.kernels for w in k.weights)
        parts += [Consumer(weights, "weights"), Consumer(platform.code, "code")]
    return [part for part in parts if part.bytes]


@dataclass(frozen=True)
class MemoryUse:
    """Bytes that a program takes of one memory, and how many there are."""

    memory: str
    needs: int
    capacity: int

    @property
    def fits(self) -> bool:
        return self.needs <= self.capacity


def memory_uses(program: Program, platform: Platform) -> list[MemoryUse]:
    """Return what the program takes of every memory that grows with its tensors."""
    memory, available = find_ram_limit(platform)
    uses = [MemoryUse(memory, sum_ram(program, platform), available)]
    for name, needs in program.plan.memories.items():
        stated = platform.memories.get(name)
        uses.append(MemoryUse(name, needs, stated.size if stated else ADDRESSABLE))
    return uses


def sum_ram(program: Program, platform: Platform) -> int:
    """Return the bytes of RAM that everything takes together."""
    return sum(part.bytes for part in memory_parts(program, platform))


def check_memory(program: Program, platform: Platform) -> None:
    """Raise UserError when everything together exceeds the RAM, or the weights the flash.

    The message has the largest consumers, and where the model itself takes several samples at
    once, how many would fit.
    """
    check_flash(program, platform)
    check_other_memories(program, platform)
    _, available = find_ram_limit(platform)
    parts = memory_parts(program, platform)
    needed = sum(part.bytes for part in parts)
    if needed <= available:
        return
    shares = ", ".join(f"{part.bytes:,} {part.what}" for part in parts)
    consumers = memory_consumers(program, platform)
    raise UserError(
        "\n".join(
            [
                f"the network does not fit {platform.name}: it needs {needed:,} bytes of RAM "
                f"({shares}), {available:,} are available, "
                f"{needed - available:,} too few; the largest buffers:",
                *(f"  {c.bytes:>12,} bytes  {c.what}" for c in consumers[:LARGEST_SHOWN]),
                *suggest_batch(program.interface, parts, available),
            ]
        )
    )


def check_flash(program: Program, platform: Platform) -> None:
    """Raise UserError where already the weights do not fit; of the code the linker tells."""
    flash = platform.memories.get("flash")
    weights = {
        w.tensor: Consumer(w.bytes, f"weights of {k.region}")
        for k in program.kernels.kernels
        for w in k.weights
    }
    needed = sum(w.bytes for w in weights.values())
    if flash is None or platform.all_in_ram or needed <= flash.size:
        return
    largest = sorted(weights.values(), key=lambda c: (-c.bytes, c.what))[:LARGEST_SHOWN]
    raise UserError(
        "\n".join(
            [
                f"the network does not fit {platform.name}: its weights take {needed:,} bytes of "
                f"flash, {flash.size:,} are available; the largest:",
                *(f"  {c.bytes:>12,} bytes  {c.what}" for c in largest),
            ]
        )
    )


def check_other_memories(program: Program, platform: Platform) -> None:
    """Raise UserError where an arena exceeds the memory of the platform that it is in."""
    _, *others = memory_uses(program, platform)
    for use in others:
        if not use.fits:
            inside = [b for b in program.plan.buffers if b.memory == use.memory]
            largest = sorted(inside, key=lambda b: (-b.bytes, b.name))[:LARGEST_SHOWN]
            raise UserError(
                "\n".join(
                    [
                        f"the network does not fit {platform.name}: it needs {use.needs:,} bytes "
                        f"of {use.memory}, {use.capacity:,} are available; the largest buffers:",
                        *(f"  {b.bytes:>12,} bytes  {b.name}" for b in largest),
                    ]
                )
            )


def suggest_batch(
    interface: ModelInterface, parts: list[Consumer], available: int
) -> Iterator[str]:
    """Say how many samples would fit, where the model itself takes several at once.

    That is, where all inputs and outputs have the same length along their first axis. Buffers
    grow with it almost in proportion.
    """
    lengths = {t.shape[:1] for t in (*interface.inputs, *interface.outputs)}
    size = lengths.pop()[0] if len(lengths) == 1 and () not in lengths else 1
    if size > 1:
        growing = sum(p.bytes for p in parts if p.what in GROW_WITH_BATCH)
        left = available - sum(p.bytes for p in parts) + growing
        fits = max(0, left) * size // growing
        advice = f"export it with a batch of {fits}" if fits else "not even one of them fits"
        yield f"the model takes {size} samples at once, of which about {fits} would fit: {advice}"


def memory_consumers(program: Program, platform: Platform) -> list[Consumer]:
    """Return every buffer and constant that takes RAM, at the same time or in turn, by size."""
    interface = program.interface
    producers = {name: r.name for r in program.partition.regions for name in r.outputs}
    consumers = [Consumer(platform.stack, "stack")]
    if program.boxes:
        consumers.append(Consumer(program.boxes * BOX_BYTES, f"room for {program.boxes:,} boxes"))
    consumers += [Consumer(t.bytes, f"input '{t.name}'") for t in interface.inputs]
    consumers += [Consumer(t.bytes, f"output '{t.name}'") for t in interface.outputs]
    if platform.all_in_ram:
        consumers.append(Consumer(platform.code, "code, as the platform allows for it"))
        consumers += [
            Consumer(w.bytes, f"weights of {k.region}")
            for k in program.kernels.kernels
            for w in k.weights
        ]
    for buffer in program.plan.buffers:
        made_by = producers.get(buffer.name)
        what = f"result of {made_by}" if made_by else f"working memory {buffer.name}"
        steps = f"alive from step {buffer.first} to {buffer.last}"
        consumers.append(Consumer(buffer.bytes, f"{what}, {steps}"))
    return sorted(consumers, key=lambda c: (-c.bytes, c.what))

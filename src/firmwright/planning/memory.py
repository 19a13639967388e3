"""Sums the bytes that a program needs in each memory of its platform, and checks the sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from firmwright.errors import UserError
from firmwright.ir.kernels import Kernels, Parameter
from firmwright.ir.regions import RAM, Partition
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.planning.plan import Plan
from firmwright.toolchain import Platform

LARGEST_SHOWN = 5

ADDRESSABLE = 2**31 - 1
"""The maximum size in bytes.

The C code has 32-bit indices, and a host's linker supports no larger sizes.
"""

ARENA, PORTS = "arena", "inputs and outputs"
GROW_WITH_BATCH = (ARENA, PORTS)

BOX_BYTES = 24
"""The size of a detected object in bytes: five floats and a class (``detection.h``)."""


@dataclass(frozen=True)
class Consumer:
    """A user of memory, and the name that a message shows."""

    bytes: int
    what: str


@dataclass(frozen=True)
class Program:
    """The parts of a program that share the platform's memory.

    ``boxes`` is the maximum number of candidates of a detection.
    """

    plan: Plan
    partition: Partition
    kernels: Kernels
    interface: ModelInterface
    boxes: int = 0

    def ram_parts(self, platform: Platform) -> list[Consumer]:
        """Return the parts that share RAM.

        Weights and code are included only if there is no flash.
        """
        parts = [
            Consumer(self.plan.arena_bytes, ARENA),
            Consumer(sum(t.bytes for t in self.ports), PORTS),
            Consumer(self.boxes * BOX_BYTES, "boxes"),
            Consumer(platform.stack, "stack"),
        ]
        weights = sum(c.bytes for c in self.constants_in("ram", platform))
        parts.append(Consumer(weights, "weights"))
        if platform.all_in_ram:
            parts.append(Consumer(platform.code, "code"))
        return [part for part in parts if part.bytes]

    def constants_in(self, memory: str, platform: Platform) -> list[Consumer]:
        """Return the constants that a memory contains.

        A flash also contains the constants that the start-up code copies from the flash to another
        memory.
        """
        home, chosen = platform.constants_memory, self.plan.constants
        known = platform.memories
        return [
            consumer
            for name, consumer in {w.tensor: c for w, c in list_weights(self.kernels)}.items()
            for location in [chosen.get(name, home)]
            if location == memory or (memory == home and not known[location].read_only)
        ]

    @property
    def ports(self) -> tuple[Tensor, ...]:
        return (*self.interface.inputs, *self.interface.outputs)


@dataclass(frozen=True)
class MemoryUse:
    memory: str
    needs: int
    capacity: int

    @property
    def fits(self) -> bool:
        return self.needs <= self.capacity


def list_taken(interface: ModelInterface, boxes: int, platform: Platform) -> dict[str, int]:
    """Return the known number of bytes per memory that planning must not use."""
    ports = sum(t.bytes for t in (*interface.inputs, *interface.outputs))
    taken = Counter({RAM: platform.stack + ports + boxes * BOX_BYTES})
    taken[platform.constants_memory] += platform.code
    return dict(taken)


def memory_uses(program: Program, platform: Platform) -> list[MemoryUse]:
    """Return the program's use of every memory that planning fills, beginning with RAM.

    Flash is not included.
    """
    ram = platform.memories.get("ram")
    memory, available = ("ram", ram.size) if ram else ("32-bit indices", ADDRESSABLE)
    uses = [MemoryUse(memory, sum(p.bytes for p in program.ram_parts(platform)), available)]
    home, plan = platform.constants_memory, program.plan
    for name in sorted({*plan.other_arenas, *plan.constants.values()} - {RAM, home}):
        constants = sum(c.bytes for c in program.constants_in(name, platform))
        needs = plan.other_arenas.get(name, 0) + constants
        stated = platform.memories.get(name)
        uses.append(MemoryUse(name, needs, stated.size if stated else ADDRESSABLE))
    return uses


def check_memory(program: Program, platform: Platform) -> None:
    """Raise UserError if the program exceeds a memory: flash, RAM or a device's memory.

    The message lists the largest consumers.
    """
    ram, *others = memory_uses(program, platform)
    check_flash(program, platform)
    for use in others:
        check_arena(program, platform, use)
    check_ram(program, platform, ram)


def check_flash(program: Program, platform: Platform) -> None:
    """Raise UserError if the weights alone do not fit. The linker checks the code."""
    flash = platform.memories.get("flash")
    if flash is None or platform.all_in_ram:
        return
    weights = program.constants_in("flash", platform)
    needed = sum(c.bytes for c in weights)
    if needed > flash.size:
        problem = f"its weights need {needed:,} bytes of flash; {flash.size:,} are available"
        advice = suggest_memories(program, platform)
        raise make_error(platform, f"{problem}; the largest:", weights, *advice)


def check_arena(program: Program, platform: Platform, use: MemoryUse) -> None:
    """Raise UserError if a memory other than flash and RAM is too small for its tensors."""
    if not use.fits:
        inside = (b for b in program.plan.buffers if b.memory == use.memory)
        constants = program.constants_in(use.memory, platform)
        largest = "constants and buffers" if constants else "buffers"
        problem = f"it needs {use.needs:,} bytes of {use.memory}; {use.capacity:,} are available"
        parts = [*(Consumer(b.bytes, b.name) for b in inside), *constants]
        advice = suggest_memories(program, platform)
        raise make_error(platform, f"{problem}; the largest {largest}:", parts, *advice)


def suggest_memories(program: Program, platform: Platform) -> Iterator[str]:
    """Yield a note about the free memories if the network may use several."""
    if not any(memory.cost is not None for memory in platform.memories.values()):
        return
    used = {use.memory: use.needs for use in memory_uses(program, platform)}
    home = platform.constants_memory
    used.setdefault(home, sum(c.bytes for c in program.constants_in(home, platform)))
    free = {name: m.size - used.get(name, 0) for name, m in platform.memories.items()}
    shown = ", ".join(f"{left:,} of {name}" for name, left in free.items() if left > 0)
    yield f"free bytes: {shown or 'none'}; the recipe's `memory` assigns buffers to memories"


def check_ram(program: Program, platform: Platform, use: MemoryUse) -> None:
    """Raise UserError if all parts together exceed the RAM.

    If the model processes several samples at once, the message states how many samples would fit.
    """
    if not use.fits:
        parts = program.ram_parts(platform)
        shares = ", ".join(f"{part.bytes:,} {part.what}" for part in parts)
        problem = (
            f"it needs {use.needs:,} bytes of RAM ({shares}); {use.capacity:,} are available, "
            f"{use.needs - use.capacity:,} too few; the largest buffers:"
        )
        advice = [
            *suggest_batch(program.ports, parts, use.capacity),
            *suggest_memories(program, platform),
        ]
        raise make_error(platform, problem, list_consumers(program, platform), *advice)


def make_error(
    platform: Platform, problem: str, consumers: Iterable[Consumer], *advice: str
) -> UserError:
    """Return the error for a network that does not fit, which lists the largest consumers."""
    largest = sorted(consumers, key=lambda c: (-c.bytes, c.what))[:LARGEST_SHOWN]
    lines = [f"  {c.bytes:>12,} bytes  {c.what}" for c in largest]
    title = f"the network does not fit {platform.name}: {problem}"
    return UserError("\n".join([title, *lines, *advice]))


def suggest_batch(
    ports: Sequence[Tensor], parts: Sequence[Consumer], available: int
) -> Iterator[str]:
    """Yield the number of samples that would fit if the model processes several at once.

    The inputs and outputs of such a model have equal lengths along the first axis. Buffers grow
    almost in proportion to this length.
    """
    lengths = {t.shape[:1] for t in ports}
    size = lengths.pop()[0] if len(lengths) == 1 and () not in lengths else 1
    if size > 1:
        growing = sum(p.bytes for p in parts if p.what in GROW_WITH_BATCH)
        left = available - sum(p.bytes for p in parts) + growing
        fits = max(0, left) * size // growing
        advice = f"export it with a batch of {fits}" if fits else "a batch of one does not fit"
        yield f"the model computes {size} samples at once, and about {fits} would fit: {advice}"


def list_weights(kernels: Kernels) -> Iterator[tuple[Parameter, Consumer]]:
    for kernel in kernels.kernels:
        for weight in kernel.weights:
            yield weight, Consumer(weight.bytes, f"weights of {kernel.region}")


def list_consumers(program: Program, platform: Platform) -> Iterator[Consumer]:
    """Yield every buffer and constant that needs RAM, at the same time or at different times."""
    yield Consumer(platform.stack, "stack")
    if program.boxes:
        yield Consumer(program.boxes * BOX_BYTES, f"room for {program.boxes:,} boxes")
    yield from (Consumer(t.bytes, f"input '{t.name}'") for t in program.interface.inputs)
    yield from (Consumer(t.bytes, f"output '{t.name}'") for t in program.interface.outputs)
    if platform.all_in_ram:
        yield Consumer(platform.code, "code, by the platform's key `code`")
    yield from program.constants_in("ram", platform)
    yield from list_buffers(program)


def list_buffers(program: Program) -> Iterator[Consumer]:
    producers = {name: r.name for r in program.partition.regions for name in r.outputs}
    for buffer, state in zip(program.plan.states, program.interface.states, strict=True):
        yield Consumer(buffer.bytes, f"state '{state.tensor.name}'")
    kept = set(program.plan.states)
    for buffer in (b for b in program.plan.buffers if b.memory == RAM and b not in kept):
        made_by = producers.get(buffer.name)
        what = f"result of {made_by}" if made_by else f"working memory {buffer.name}"
        yield Consumer(buffer.bytes, f"{what}, alive from step {buffer.first} to {buffer.last}")

"""What a program takes of each memory of its platform, and whether that fits."""

from __future__ import annotations

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
"""Bytes; the generated C indexes with 32-bit integers, and a host's linker places no more."""

ARENA, PORTS = "arena", "inputs and outputs"
GROW_WITH_BATCH = (ARENA, PORTS)

BOX_BYTES = 24
"""Of an object that a detection found: five floats and its class (``detection.h``)."""


@dataclass(frozen=True)
class Consumer:
    """Something that takes memory, as a message names it."""

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

    def ram_parts(self, platform: Platform) -> list[Consumer]:
        """Return what takes RAM together; weights and code only where there is no flash."""
        parts = [
            Consumer(self.plan.arena_bytes, ARENA),
            Consumer(sum(t.bytes for t in self.ports), PORTS),
            Consumer(self.boxes * BOX_BYTES, "boxes"),
            Consumer(platform.stack, "stack"),
        ]
        if platform.all_in_ram:
            weights = sum(w.bytes for k in self.kernels.kernels for w in k.weights)
            parts += [Consumer(weights, "weights"), Consumer(platform.code, "code")]
        return [part for part in parts if part.bytes]

    @property
    def ports(self) -> tuple[Tensor, ...]:
        return (*self.interface.inputs, *self.interface.outputs)


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
    """Return what the program takes of every memory that grows with its tensors, RAM first."""
    ram = platform.memories.get("ram")
    memory, available = ("ram", ram.size) if ram else ("32-bit indices", ADDRESSABLE)
    uses = [MemoryUse(memory, sum(p.bytes for p in program.ram_parts(platform)), available)]
    for name, needs in program.plan.other_arenas.items():
        stated = platform.memories.get(name)
        uses.append(MemoryUse(name, needs, stated.size if stated else ADDRESSABLE))
    return uses


def check_memory(program: Program, platform: Platform) -> None:
    """Raise UserError where the program exceeds a memory: flash, RAM or a device's own.

    The message has the largest consumers.
    """
    ram, *others = memory_uses(program, platform)
    check_flash(program, platform)
    for use in others:
        check_arena(program, platform, use)
    check_ram(program, platform, ram)


def check_flash(program: Program, platform: Platform) -> None:
    """Raise UserError where already the weights do not fit; the linker checks the code."""
    flash = platform.memories.get("flash")
    weights = {w.tensor: c for w, c in list_weights(program.kernels)}
    needed = sum(c.bytes for c in weights.values())
    if flash is not None and not platform.all_in_ram and needed > flash.size:
        problem = f"its weights take {needed:,} bytes of flash, {flash.size:,} are available"
        raise make_error(platform, f"{problem}; the largest:", weights.values())


def check_arena(program: Program, platform: Platform, use: MemoryUse) -> None:
    """Raise UserError where the arena in a device's own memory exceeds it."""
    if not use.fits:
        inside = (b for b in program.plan.buffers if b.memory == use.memory)
        problem = f"it needs {use.needs:,} bytes of {use.memory}, {use.capacity:,} are available"
        buffers = [Consumer(b.bytes, b.name) for b in inside]
        raise make_error(platform, f"{problem}; the largest buffers:", buffers)


def check_ram(program: Program, platform: Platform, use: MemoryUse) -> None:
    """Raise UserError where everything together exceeds the RAM.

    Where the model itself takes several samples at once, the message says how many would fit.
    """
    if not use.fits:
        parts = program.ram_parts(platform)
        shares = ", ".join(f"{part.bytes:,} {part.what}" for part in parts)
        problem = (
            f"it needs {use.needs:,} bytes of RAM ({shares}), {use.capacity:,} are available, "
            f"{use.needs - use.capacity:,} too few; the largest buffers:"
        )
        advice = suggest_batch(program.ports, parts, use.capacity)
        raise make_error(platform, problem, list_consumers(program, platform), *advice)


def make_error(
    platform: Platform, problem: str, consumers: Iterable[Consumer], *advice: str
) -> UserError:
    """Return the error for a network that does not fit; it lists the largest consumers."""
    largest = sorted(consumers, key=lambda c: (-c.bytes, c.what))[:LARGEST_SHOWN]
    lines = [f"  {c.bytes:>12,} bytes  {c.what}" for c in largest]
    title = f"the network does not fit {platform.name}: {problem}"
    return UserError("\n".join([title, *lines, *advice]))


def suggest_batch(
    ports: Sequence[Tensor], parts: Sequence[Consumer], available: int
) -> Iterator[str]:
    """Say how many samples would fit, where the model itself takes several at once.

    It does where all inputs and outputs have the same length along their first axis. Buffers grow
    with it almost in proportion.
    """
    lengths = {t.shape[:1] for t in ports}
    size = lengths.pop()[0] if len(lengths) == 1 and () not in lengths else 1
    if size > 1:
        growing = sum(p.bytes for p in parts if p.what in GROW_WITH_BATCH)
        left = available - sum(p.bytes for p in parts) + growing
        fits = max(0, left) * size // growing
        advice = f"export it with a batch of {fits}" if fits else "not even one of them fits"
        yield f"the model takes {size} samples at once, of which about {fits} would fit: {advice}"


def list_weights(kernels: Kernels) -> Iterator[tuple[Parameter, Consumer]]:
    """Yield every kernel's weights, and how a message names them."""
    for kernel in kernels.kernels:
        for weight in kernel.weights:
            yield weight, Consumer(weight.bytes, f"weights of {kernel.region}")


def list_consumers(program: Program, platform: Platform) -> Iterator[Consumer]:
    """Yield every buffer and constant that takes RAM, at the same time or in turn."""
    yield Consumer(platform.stack, "stack")
    if program.boxes:
        yield Consumer(program.boxes * BOX_BYTES, f"room for {program.boxes:,} boxes")
    yield from (Consumer(t.bytes, f"input '{t.name}'") for t in program.interface.inputs)
    yield from (Consumer(t.bytes, f"output '{t.name}'") for t in program.interface.outputs)
    if platform.all_in_ram:
        yield Consumer(platform.code, "code, as the platform allows for it")
        yield from (consumer for _, consumer in list_weights(program.kernels))
    yield from list_buffers(program)


def list_buffers(program: Program) -> Iterator[Consumer]:
    """Yield the buffers of the arena in RAM."""
    producers = {name: r.name for r in program.partition.regions for name in r.outputs}
    for buffer, state in zip(program.plan.states, program.interface.states, strict=True):
        yield Consumer(buffer.bytes, f"state '{state.tensor.name}'")
    kept = set(program.plan.states)
    for buffer in (b for b in program.plan.buffers if b.memory == RAM and b not in kept):
        made_by = producers.get(buffer.name)
        what = f"result of {made_by}" if made_by else f"working memory {buffer.name}"
        yield Consumer(buffer.bytes, f"{what}, alive from step {buffer.first} to {buffer.last}")
